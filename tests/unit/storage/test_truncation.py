"""Truncation: what it leaves in the log and on the disk, also when it is broken off or the power fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from storage.errors import DamagedLog, LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.file_names import segment_file
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles, keep_all
from storage.partition_log import PartitionLog
from storage.recovery import OnDamage
from tests.support.rigs.log_rig import (
    DIRECTORY,
    NOW_MS,
    LogRig,
    client_batch,
    everything,
    leader_batch,
    offsets_of,
)
from tests.support.rigs.transactions import TransactionWriter


def snapshots(rig: LogRig) -> list[str]:
    return [name for name in rig.file_names() if name.endswith(".snapshot")]


def test_a_cut_that_is_broken_off_leaves_no_gap() -> None:
    faulty = FaultyFiles(MemoryFiles())
    rig = LogRig(faulty)
    for _ in range(4):
        rig.append(b"v", b"v")
        rig.log.roll(NOW_MS)
    faulty.faults = [Fault("rename", number=5, count=100)]
    with pytest.raises(LogStorageError):
        rig.log.truncate_to(1, now_ms=NOW_MS)
    faulty.faults = []
    rig.reopen(is_clean=False)
    found = [header.base_offset for segment in rig.log.segments for _, header in segment.headers()]
    assert found == list(range(0, rig.log.log_end_offset, 2))


END_OFFSET = 33


def grown(faulty: FaultyFiles) -> LogRig:
    """Three segments that begin at 0, 11 and 22; this process has opened the first two and written the third.
    In each are batches of an idempotent producer, a transaction that is aborted, and a batch of three
    records; the last of these is of another leader epoch."""
    rig = LogRig(faulty, LogConfig(index_interval_bytes=0))
    writer = TransactionWriter(rig.log)
    for number in range(3):
        if number == 2:
            rig.close()
            writer.log = rig.reopen(is_clean=True)
        rig.log.roll(NOW_MS)
        for count in range(6):
            rig.produce(7, 0, 6 * number + count)
        writer.write(1)
        writer.end(1, commit=False)
        rig.append(b"a", b"b", b"c", epoch=number // 2, timestamp=NOW_MS + number)
    rig.commit_all()
    assert rig.log.log_end_offset == END_OFFSET
    return rig


def all_that_is_known(rig: LogRig) -> dict[str, object]:
    log = rig.log
    return {
        "offsets": (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point),
        "batches": offsets_of(everything(log)),
        "epochs": log.leader_epochs.entries(),
        "producers": sorted((each.producer_id, each.last_sequence) for each in log.producer_state.entries()),
        "snapshots": list(log.durability.snapshot_offsets),
        "names": [name for name in rig.file_names() if name.endswith((".log", ".snapshot"))],
        "segments": [
            (
                (segment.base_offset, segment.size_bytes, rig.files.status(segment.log.path).size_bytes),
                (segment.is_sealed, segment.is_full, segment.bytes_since_index_entry),
                (segment.first_batch_timestamp(), segment.largest_timestamp()),
                segment.offset_index.entries(),
                [segment.offset_index.lookup(offset) for offset in range(segment.base_offset, END_OFFSET)],
                segment.time_index.entries(),
                segment.transaction_index.entries(),
            )
            for segment in log.segments
        ],
    }


def calls_of(deed: Callable[[], None], files: FaultyFiles) -> list[tuple[str, str]]:
    """The calls on files that it makes, with their paths."""
    made: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ask", lambda call, path: made.append((call, path)))
        deed()
    return made


def append(rig: LogRig) -> None:
    rig.append(b"of a leader", epoch=9)


def copy(rig: LogRig) -> None:
    rig.log.append_as_follower(leader_batch(rig.log.log_end_offset, b"of a follower", epoch=9), NOW_MS)


def append_of_its_own(rig: LogRig) -> None:
    batch = client_batch(b"of a coordinator")
    rig.log.append_internal(batch, leader_epoch=9, now_ms=NOW_MS)


def roll(rig: LogRig) -> None:
    rig.log.roll(NOW_MS)


def end_in_order(rig: LogRig) -> None:
    rig.close()
    rig.reopen(is_clean=True)


def cut_lower(rig: LogRig) -> None:
    rig.log.truncate_to(max(rig.log.log_end_offset - 3, 0), now_ms=NOW_MS)


def begin_anew(rig: LogRig) -> None:
    rig.log.truncate_fully_and_start_at(50, now_ms=NOW_MS)


CUTS = {f"to {offset}": partial(PartitionLog.truncate_to, offset=offset) for offset in (0, 5, 18, 20, 22, 31)}
CUTS |= {
    f"anew at {offset}": partial(PartitionLog.truncate_fully_and_start_at, offset=offset)
    for offset in (0, 22, 40)
}


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize(
    "go_on", [append, copy, append_of_its_own, roll, end_in_order, cut_lower, begin_anew, None]
)
def test_a_cut_that_fails_half_way_is_finished_before_anything_else(
    go_on: Callable[[LogRig], None] | None, how: str
) -> None:
    whole_files = FaultyFiles(MemoryFiles())
    whole = grown(whole_files)
    calls = calls_of(lambda: CUTS[how](whole.log, now_ms=NOW_MS), whole_files)
    end_offset = whole.log.log_end_offset
    if go_on is not None:
        go_on(whole)
    failures = 0
    for number, (call, path) in enumerate(calls, start=1):
        files = FaultyFiles(MemoryFiles())
        rig = grown(files)
        before = offsets_of(everything(rig.log))
        same = [each for each in calls[:number] if each == (call, path)]
        files.faults = [Fault(call, path_part=path, number=len(same), error=errno.ENOSPC)]
        try:
            CUTS[how](rig.log, now_ms=NOW_MS)
        except LogStorageError:
            failures += 1
            assert rig.log.log_end_offset in (END_OFFSET, end_offset)
            kept = range(rig.log.log_start_offset, rig.log.log_end_offset)
            assert offsets_of(everything(rig.log)) == [each for each in before if each[1] in kept]
        has_begun = rig.log.log_end_offset == end_offset
        files.faults = []
        if go_on is None or not has_begun:
            CUTS[how](rig.log, now_ms=NOW_MS)
        if go_on is not None:
            go_on(rig)
        assert all_that_is_known(rig) == all_that_is_known(whole), (call, path, number)
    assert failures >= 3


def test_a_cut_leaves_the_snapshot_alone_that_waits_to_be_written_and_is_right() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.log.roll(NOW_MS)
    rig.produce(7, 0, 1)
    rig.log.roll(NOW_MS)
    rig.produce(7, 0, 2)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.run_background_tasks()
    assert rig.log.durability.snapshot_offsets == [1]
    assert snapshots(rig) == ["00000000000000000001.snapshot"]


def test_a_snapshot_that_a_thread_writes_during_the_cut_is_removed_again() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.produce(7, 0, 1)
    rig.log.roll(NOW_MS)
    under_way = rig.background_tasks.take_due(rig.now_ms)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    for task in under_way:
        task.call()
    rig.run_background_tasks()
    assert (snapshots(rig), rig.log.durability.snapshot_offsets) == ([], [])


def test_a_sync_that_ends_half_way_leaves_nothing_of_before_the_cut_behind_what_came_since() -> None:
    memory = MemoryFiles()
    faulty = FaultyFiles(memory)
    rig = LogRig(faulty)
    for _ in range(3):
        rig.append(b"v")
        rig.log.roll(NOW_MS)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.append(b"w")
    faulty.faults = [Fault("fdatasync")]
    with pytest.raises(OSError, match="Input/output"):
        rig.run_background_tasks()
    memory.cut_power(keep_all, keep_names=False)
    assert [name for name in rig.file_names() if name.endswith(".log")] == [
        "00000000000000000000.log", "00000000000000000001.log",
    ]  # fmt: skip


def test_a_segment_that_a_cut_which_came_to_nothing_has_left_hides_no_batch() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"1", b"2", b"3", b"4")
    rig.log.active.log.file().fdatasync()
    rig.log.truncate_to(0, now_ms=NOW_MS)
    rig.append(b"1", b"2")
    rig.log.roll(NOW_MS)
    memory.cut_power()
    log = rig.reopen(is_clean=False)
    assert [segment.base_offset for segment in log.segments] == [0]
    assert "begins below the end of the segment before it" in rig.problems[-1]
    found = log.read(3, max_bytes=1000)
    assert (log.log_end_offset, found is not None) == (4, True)
    assert rig.append(b"5") == 4
    assert rig.reopen(is_clean=False).log_end_offset == 5


def test_a_segment_that_a_cut_which_came_to_nothing_has_left_takes_no_epochs() -> None:
    """A follower that asks where an epoch ends would be told of the wrong place."""
    rig = LogRig()
    rig.append(b"1", b"2")
    rig.append(b"3", b"4", epoch=1)
    rig.close()
    rig.files.open(f"{DIRECTORY}/{segment_file(2, '.log')}", write=True, create=True).close()
    log = rig.reopen(is_clean=False)
    assert "begins below the end of the segment before it" in rig.problems[-1]
    assert log.leader_epochs.entries() == [(0, 0), (1, 2)]
    assert log.end_offset_for_epoch(0) == (0, 2)


def test_a_sealed_segment_whose_cut_came_to_nothing_does_not_overlap_the_next() -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    rig.append(b"1")
    rig.append(b"2", b"3")
    rig.close()
    memory.fsync_directory(DIRECTORY)
    rig.reopen(is_clean=True)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.log.roll(NOW_MS)
    rig.append(b"two", epoch=1)
    rig.append(b"three", epoch=1)
    memory.cut_power(keep_all)
    for _ in range(2):
        with pytest.raises(DamagedLog, match="where offset 3 should be"):
            rig.reopen(is_clean=False, recovery_point=1, on_damage=OnDamage.REFUSE)
        memory.kill_process()
    log = rig.reopen(is_clean=False, recovery_point=1, on_damage=OnDamage.TRUNCATE)
    assert (log.log_end_offset, len(log.segments)) == (3, 1)
