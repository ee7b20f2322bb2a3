"""What a start finds after each kind of end."""

from __future__ import annotations

import pytest

from storage.file_names import SNAPSHOT_SUFFIX, segment_file
from storage.memory_files import MemoryFiles, Torn
from tests.support.log_rig import LogRig, client_batch, everything, leader_batch, offsets_of


def filled(**config: object) -> LogRig:
    rig = LogRig()
    rig.configure(index_interval_bytes=200, **config)
    for number in range(10):
        rig.append(bytes(100), timestamp=rig.now_ms + number)
    return rig


def add_to_file(rig: LogRig, data: bytes) -> None:
    file = rig.files.open(rig.log.active.path(".log"), write=True)
    file.write([data], file.size())


@pytest.mark.parametrize(
    "torn",
    [
        b"\0" * 5,
        b"\0" * 500,
        b"\xff" * 500,
        leader_batch(10, b"whole but for its last byte")[:-1],
        leader_batch(10, b"length only")[:12],
        bytes(leader_batch(10, b"bad checksum"))[:-1] + b"!",
        leader_batch(9, b"an offset that is there already"),
        leader_batch(10, b"bad")[:-1] + b"!" + leader_batch(11, b"nothing follows from it"),
    ],
)
def test_a_torn_tail_is_cut_off_and_reported(torn: bytes) -> None:
    rig = filled()
    content = everything(rig.log)
    add_to_file(rig, torn)
    rig.reopen(is_clean=False)
    assert everything(rig.log) == content
    assert rig.log.log_end_offset == 10
    assert [f"{len(torn)} bytes" in problem for problem in rig.problems] == [True]
    assert "offset 10" in rig.problems[0]
    assert rig.append(b"goes on") == 10
    rig.reopen(is_clean=False)
    assert rig.problems == ()
    assert rig.log.log_end_offset == 11


def test_a_whole_batch_that_nobody_acknowledged_is_kept() -> None:
    rig = filled()
    add_to_file(rig, leader_batch(10, b"written, then killed", epoch=3))
    rig.reopen(is_clean=False)
    assert rig.log.log_end_offset == 11
    assert rig.log.leader_epochs.entries() == [(0, 0), (3, 10)]


def test_only_what_is_not_known_to_be_on_the_disk_is_scanned() -> None:
    rig = filled(segment_bytes=400)
    bases = [segment.base_offset for segment in rig.log.segments]
    assert len(bases) == 5
    rig.do_chores()
    assert rig.log.recovery_point == bases[-1]
    rig.reopen(is_clean=False, recovery_point=rig.log.recovery_point)
    assert rig.scanned_segments == 1
    rig.reopen(is_clean=False, recovery_point=0)
    assert rig.scanned_segments == 5
    rig.close()
    rig.reopen(is_clean=True)
    assert rig.scanned_segments == 0
    assert rig.log.log_end_offset == 10


def test_damage_in_an_older_segment_takes_the_later_ones_along() -> None:
    rig = filled(segment_bytes=400)
    second = rig.log.segments[1]
    file = rig.files.open(second.path(".log"), write=True)
    file.write([b"\xff"], file.size() - 1)
    rig.reopen(is_clean=False)
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1), (2, 2)]
    assert rig.log.log_end_offset == 3
    assert sum("behind a torn segment" in problem for problem in rig.problems) == 3
    assert rig.append(b"next") == 3


@pytest.mark.parametrize("harm", ["missing", "odd size", "zeros", "too far"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_made_again(harm: str, suffix: str) -> None:
    rig = filled(segment_bytes=900)
    rig.close()
    paths = [segment.path(suffix) for segment in rig.log.segments]
    before = [rig.files.read_bytes(path) for path in paths]
    assert all(before)
    for path in paths:
        file = rig.files.open(path, write=True)
        if harm == "missing":
            rig.files.unlink(path)
        elif harm == "odd size":
            file.truncate(file.size() - 1)
        elif harm == "zeros":
            file.truncate(file.size() + 24)
        else:
            file.write([b"\x7f" + b"\xff" * 7], file.size())
            file.truncate(len(before[0]) + 24 if suffix == ".index" else file.size() + 1)
    rig.reopen(is_clean=True)
    assert rig.scanned_segments == len(paths)
    assert rig.log.log_end_offset == 10
    rig.close()
    assert [rig.files.read_bytes(path) for path in paths] == before


def test_producers_come_from_the_snapshot_and_what_follows_it() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.produce(8, 0, 0)
    rig.log.write_snapshot()
    rig.do_chores()
    rig.produce(7, 0, 1)
    rig.produce(9, 2, 5)
    rig.reopen(is_clean=False)
    entries = {
        entry.producer_id: (entry.epoch, entry.last_sequence) for entry in rig.log.producer_state.entries()
    }
    assert entries == {7: (0, 1), 8: (0, 0), 9: (2, 5)}
    assert rig.produce(7, 0, 1) == 2
    assert rig.produce(9, 2, 6) == 4


def test_a_damaged_snapshot_and_one_from_beyond_the_end_are_not_believed() -> None:
    rig = LogRig()
    rig.produce(7, 0, 0)
    rig.log.write_snapshot()
    rig.do_chores()
    path = f"{rig.directory}/{segment_file(1, SNAPSHOT_SUFFIX)}"
    rig.files.write_atomically(path, rig.files.read_bytes(path)[:-1])
    rig.files.write_atomically(f"{rig.directory}/{segment_file(99, SNAPSHOT_SUFFIX)}", b"from another life")
    rig.reopen(is_clean=False)
    entry = rig.log.producer_state.get(7)
    assert entry is not None
    assert entry.last_sequence == 0
    assert segment_file(99, SNAPSHOT_SUFFIX) not in rig.file_names()


def test_left_overs_are_tidied() -> None:
    rig = filled()
    rig.close()
    for name in (
        "00000000000000000000.log.deleted", "leader-epoch-checkpoint.tmp",
        "00000000000000000000.log.cleaned", "00000000000000000077.index",
    ):  # fmt: skip
        rig.files.open(f"{rig.directory}/{name}", create=True)
    rig.reopen(is_clean=True)
    assert rig.file_names() == [
        "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
        "00000000000000000010.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    ]  # fmt: skip


def test_a_damaged_epoch_checkpoint_is_read_from_the_batches() -> None:
    rig = LogRig()
    for epoch in (0, 0, 4, 9):
        rig.append(b"x", epoch=epoch)
    rig.close()
    rig.files.write_atomically(f"{rig.directory}/leader-epoch-checkpoint", b"0\n9\nnot much\n")
    rig.reopen(is_clean=True)
    assert rig.log.leader_epochs.entries() == [(0, 0), (4, 2), (9, 3)]
    assert "promises 9 entries" in rig.problems[0]


def test_after_a_power_cut_what_was_synced_is_there() -> None:
    files = MemoryFiles()
    rig = LogRig(files)
    for _ in range(3):
        rig.append(b"synced")
    rig.log.flush()
    rig.do_chores()
    assert rig.log.recovery_point == 3
    rig.append(b"torn")
    rig.append(b"lost")
    log_path = rig.log.active.path(".log")
    assert files.unsynced_bytes(log_path) > 100
    files.cut_power(lambda path, unsynced: Torn(30, 200) if path == log_path else Torn(0), keep_names=False)
    rig.reopen(is_clean=False, recovery_point=3)
    assert [value for value, _ in offsets_of(everything(rig.log))] == [0, 1, 2]
    assert "230 bytes" in rig.problems[0]


def test_a_sync_that_fails_moves_no_recovery_point() -> None:
    rig = filled()
    rig.log.flush()
    due = rig.chores.take_due(rig.now_ms)
    rig.log.truncate_to(4, now_ms=rig.now_ms)
    for chore in due:
        chore.call()
        if chore.done:
            chore.done()
    assert rig.log.recovery_point == 0


def test_a_batch_that_wants_copying_is_whole_after_a_kill() -> None:
    rig = LogRig()
    batch = bytes(client_batch(b"a", b"b"))
    rig.log.append(batch, leader_epoch=2, now_ms=rig.now_ms)
    rig.reopen(is_clean=False)
    assert offsets_of(everything(rig.log)) == [(0, 1)]
    assert rig.log.leader_epochs.entries() == [(2, 0)]
