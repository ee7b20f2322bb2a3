"""Compaction of one log: what stays, what goes, when, and what a crash leaves."""

from __future__ import annotations

import errno

import pytest

from protocol.records.builder import BatchBuilder
from protocol.records.header import headers
from protocol.records.reader import records
from storage.cleaner.cleaner import SET_ASIDE_MS, CleanerSettings
from storage.compaction_marker import COMPACTION_MARKER_FILE
from storage.faulty_files import Fault
from tests.support.rigs.compaction import KEY, CompactionRig, HeldWorkers, contents, state, table
from tests.support.rigs.log_rig import NOW_MS, everything, found_since
from tests.support.rigs.transactions import TransactionWriter

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def filled(**config: object) -> CompactionRig:
    """30 batches over 5 keys in several segments, the last ones in the active segment."""
    rig = CompactionRig(**config)  # type: ignore[arg-type]
    for number in range(30):
        rig.put((f"k{number % 5}", f"value {number}"), (f"once{number}", "x"))
    return rig


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    rig = filled()
    before, size_before = contents(rig.log), rig.log.size_bytes
    assert rig.roll_and_clean()
    last = {key: offset for offset, key, _ in before}
    assert contents(rig.log) == [each for each in before if last[each[1]] == each[0]]
    assert rig.log.log_end_offset == 60
    assert rig.log.size_bytes < size_before
    assert rig.cleaner.first_dirty[KEY] == 60
    assert rig.cleaned == [KEY]


def test_small_segments_become_one_and_offsets_are_found_in_it() -> None:
    rig = CompactionRig()
    for number in range(100):
        rig.put((f"k{number % 5}", f"value {number}"))
    assert len(rig.log.segments) > 7
    rig.roll_and_clean()
    rig.put(("k0", "again"))
    rig.roll_and_clean()
    assert len(rig.log.segments) == 2
    for offset in range(rig.log.log_end_offset):
        found = rig.log.read(offset, max_bytes=100)
        if found is not None:
            first = next(headers(found.read()))[1]
            assert first.last_offset >= offset
    assert found_since(rig.log, NOW_MS) is not None


def test_the_active_segment_and_what_is_not_committed_stay() -> None:
    rig = CompactionRig()
    for number in range(40):
        rig.put(("k", str(number)))
    rig.log.update_high_watermark(10)
    rig.cleaner.look()
    offsets = [offset for offset, _, _ in contents(rig.log)]
    assert offsets[-30:] == list(range(10, 40)), "nothing at or above the high watermark was touched"
    rig.clean()
    active = rig.log.active.base_offset
    assert [offset for offset, _, _ in contents(rig.log)] == [active - 1, *range(active, 40)]


def test_young_records_are_safe() -> None:
    rig = filled(min_compaction_lag_ms=HOUR_MS)
    assert not rig.roll_and_clean()
    rig.now_ms += HOUR_MS + 1
    rig.put(("k0", "young"))
    rig.log.roll(rig.now_ms)
    assert rig.clean()
    assert table(rig.log)["k0"] == "young"
    assert sum(1 for _, key, _ in contents(rig.log) if key == "k0") == 2, "the young one replaces nothing yet"


def test_records_without_a_timestamp_are_as_young_as_their_file() -> None:
    rig = CompactionRig(min_compaction_lag_ms=HOUR_MS)
    rig.put(("k", "first"), timestamp=-1)
    rig.put(("k", "second"), timestamp=-1)
    assert not rig.roll_and_clean()
    rig.now_ms += HOUR_MS - 1
    assert not rig.clean()
    rig.now_ms += 1
    assert rig.clean()
    assert contents(rig.log) == [(1, "k", "second")]


def test_a_compacted_segment_is_as_old_as_the_last_of_its_sources() -> None:
    rig = CompactionRig(delete=True, retention_ms=DAY_MS)
    rig.put(("k", "first"), timestamp=-1)
    rig.log.roll(rig.now_ms)
    rig.now_ms += HOUR_MS
    rig.put(("k", "second"), timestamp=-1)
    rig.log.roll(rig.now_ms)
    written_ms = rig.now_ms
    rig.now_ms += HOUR_MS
    assert rig.clean()
    assert [segment.base_offset for segment in rig.log.segments] == [0, 2], "one for the two"
    assert rig.files.status(rig.log.segments[0].log.path).modified_ms == written_ms
    assert rig.log.delete_old_segments(written_ms + DAY_MS) == 0
    assert rig.log.delete_old_segments(written_ms + DAY_MS + 1) == 1


def test_the_dirty_ratio_decides_and_the_longest_lag_overrules_it() -> None:
    rig = filled(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=DAY_MS)
    assert rig.roll_and_clean()
    rig.put(("k0", "new"))
    rig.log.roll(rig.now_ms)
    assert not rig.clean(), "one record is no half of the log"
    rig.now_ms += DAY_MS + 1
    assert rig.clean()
    assert sum(1 for _, key, _ in contents(rig.log) if key == "k0") == 1


def test_a_tombstone_stays_for_delete_retention_after_its_first_pass() -> None:
    rig = CompactionRig(delete_retention_ms=HOUR_MS)
    rig.put(("k", "value"), ("other", "value"))
    rig.put(("k", None))
    assert rig.roll_and_clean()
    assert table(rig.log) == {"k": None, "other": "value"}
    assert [record[0] for record in contents(rig.log)] == [1, 2]
    header = [header for _, header in headers(everything(rig.log))][-1]
    assert header.has_delete_horizon
    assert header.base_timestamp == rig.now_ms + HOUR_MS
    assert header.max_timestamp == NOW_MS, "the record's own time is as it was"
    rig.now_ms += HOUR_MS
    rig.put(("third", "x"))
    assert rig.roll_and_clean()
    assert table(rig.log) == {"other": "value", "third": "x"}


def test_a_tombstone_keeps_its_timestamp_however_far_that_is_from_the_horizon() -> None:
    rig = CompactionRig()
    earliest = NOW_MS + 5 - (1 << 63)
    rig.put(("k", None), ("other", "value"), timestamp=earliest)
    assert rig.roll_and_clean()
    rig.put(("other", "newer"))
    assert rig.roll_and_clean()
    assert not rig.broken
    (of_tombstone, header), _ = headers(everything(rig.log))
    assert header.has_delete_horizon
    assert header.max_timestamp == earliest
    (tombstone,) = records(everything(rig.log), of_tombstone)
    assert (tombstone.key, tombstone.value, tombstone.timestamp) == (b"k", None, earliest)


def test_records_without_a_key_go_and_are_counted() -> None:
    rig = CompactionRig()
    builder = BatchBuilder()
    builder.append(None, b"from before the topic was compacted", NOW_MS)
    builder.append(b"k", b"v", NOW_MS)
    rig.log.append_as_follower(builder.build(), NOW_MS)
    rig.roll_and_clean()
    assert contents(rig.log) == [(1, "k", "v")]
    assert rig.cleaner.statistics.records_without_key == 1


@pytest.mark.parametrize("codec", range(5))
def test_every_codec(codec: int) -> None:
    rig = CompactionRig(segment_bytes=600)
    for number in range(20):
        rig.put(*[(f"k{each}", f"{number}" * 9) for each in range(number % 4 + 1)], codec=codec)
    expected = state(rig.log)
    rig.roll_and_clean()
    assert state(rig.log) == expected
    assert len(contents(rig.log)) == 4
    assert {header.codec for _, header in headers(everything(rig.log))} == {codec}


def test_a_map_that_is_too_small_takes_more_passes() -> None:
    rig = CompactionRig()
    rig.cleaner.settings = CleanerSettings(dedupe_buffer_bytes=24 * 20)
    for number in range(100):
        rig.put((f"k{number % 50}", str(number)))
    expected = state(rig.log)
    rig.log.roll(rig.now_ms)
    passes = 0
    while rig.clean():
        passes += 1
    assert passes > 2
    assert state(rig.log) == expected
    assert len(contents(rig.log)) == 50


def test_what_a_producer_wrote_last_is_remembered() -> None:
    rig = CompactionRig()

    def produce(sequence: int, key: str) -> None:
        builder = BatchBuilder(producer_id=7, producer_epoch=1, base_sequence=sequence)
        builder.append(key.encode(), b"v", NOW_MS)
        rig.log.append_as_leader(memoryview(builder.build()), leader_epoch=0, now_ms=NOW_MS)

    for sequence in range(12):
        produce(sequence, "k")
    rig.put(("k", "by somebody else"))
    rig.roll_and_clean()
    kept = [header for _, header in headers(everything(rig.log)) if header.producer_id == 7]
    assert [(header.base_sequence, header.record_count) for header in kept] == [(11, 0)]
    for name in rig.file_names():
        if name.endswith(".snapshot"):
            rig.files.unlink(f"{rig.directory}/{name}")
    rig.start_again(is_clean=False)
    entry = rig.log.producer_state.get(7)
    assert entry is not None
    assert entry.last_sequence == 11


def test_aborted_data_goes_at_once_and_its_marker_later() -> None:
    rig = CompactionRig(delete_retention_ms=HOUR_MS, segment_bytes=300)
    writer = TransactionWriter(rig.log)
    rig.put(("k", "kept"))
    writer.write(7, key=b"k")
    writer.write(7, key=b"k")
    writer.end(7, commit=False)
    rig.put(("other", "x"))
    assert rig.roll_and_clean()
    assert state(rig.log) == {"k": "kept", "other": "x"}
    kinds = [(header.is_control, header.record_count) for _, header in headers(everything(rig.log))]
    assert (True, 1) in kinds, "who is in the middle of the transaction must meet its end"
    aborted = [each for segment in rig.log.segments for each in segment.transaction_index.entries()]
    assert len(aborted) == 1
    writer.write(7, key=b"k")
    writer.end(7, commit=True)
    for number in range(3):
        rig.put((f"more {number}", "x"))
        assert rig.roll_and_clean(), "its last batch as a producer's goes, then its horizon is set"
    assert markers(rig) == [(3, True), (6, False)]
    rig.now_ms += HOUR_MS + 1
    rig.put(("last", "x"))
    assert rig.roll_and_clean()
    assert markers(rig) == [(6, False)]
    assert not [each for segment in rig.log.segments for each in segment.transaction_index.entries()]


def markers(rig: CompactionRig) -> list[tuple[int, bool]]:
    """(offset, whether it has a delete horizon)."""
    found = [header for _, header in headers(everything(rig.log)) if header.is_control]
    return [(header.base_offset, header.has_delete_horizon) for header in found]


def test_an_open_transaction_stops_the_cleaner_before_it() -> None:
    rig = CompactionRig(segment_bytes=300)
    writer = TransactionWriter(rig.log)
    for number in range(6):
        rig.put(("k", str(number)))
    writer.write(7, key=b"k")
    for number in range(6):
        rig.put(("k", str(number)))
    rig.roll_and_clean()
    offsets = [offset for offset, _, _ in contents(rig.log)]
    assert offsets[-7:] == list(range(6, 13))
    assert len(offsets) < 13


def test_a_second_pass_changes_nothing() -> None:
    rig = filled()
    rig.roll_and_clean()
    before = everything(rig.log)
    assert not rig.roll_and_clean()
    rig.put(("unrelated", "x"))
    rig.roll_and_clean()
    assert everything(rig.log).startswith(before)


def test_a_log_that_was_cut_meanwhile_is_left_alone() -> None:
    rig = filled(held=True)
    rig.log.roll(rig.now_ms)
    rig.clean()
    assert rig.cleaner.is_cleaning(KEY)
    rig.log.truncate_to(20, now_ms=rig.now_ms)
    before = everything(rig.log)
    assert isinstance(rig.workers, HeldWorkers)
    rig.workers.waiting.pop()()
    assert not rig.cleaner.is_cleaning(KEY)
    assert everything(rig.log) == before
    assert KEY not in rig.cleaner.first_dirty
    rig.run_background_tasks()
    assert not [name for name in rig.file_names() if "cleaned" in name]


def test_a_log_that_has_gone_meanwhile() -> None:
    rig = filled(held=True)
    rig.log.roll(rig.now_ms)
    rig.clean()
    del rig.logs[KEY]
    assert isinstance(rig.workers, HeldWorkers)
    rig.workers.waiting.pop()()
    assert rig.cleaned == []


def test_a_slice_that_is_under_way_reads_on_from_the_old_file() -> None:
    rig = filled()
    held = rig.log.read(0, max_bytes=500)
    assert held is not None
    held.retain()
    before = held.read()
    rig.roll_and_clean()
    rig.now_ms += DAY_MS
    rig.run_background_tasks()
    assert held.read() == before
    held.release()


def test_a_damaged_batch_sets_the_log_aside_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    rig = filled()
    rig.log.roll(rig.now_ms)
    file = rig.files.open(rig.log.segments[0].path(".log"), write=True)
    file.write([b"\xff"], 70)
    before = [segment.size_bytes for segment in rig.log.segments]
    assert not rig.clean()
    assert "the checksum is wrong" in rig.cleaner.set_aside[KEY][0]
    assert "orders-0 cannot be compacted" in caplog.text
    assert [segment.size_bytes for segment in rig.log.segments] == before
    file.write([b"\0"], 70)
    assert not rig.clean()
    rig.now_ms += SET_ASIDE_MS
    rig.clean()
    assert KEY in rig.cleaner.set_aside, "the byte is still not what it was"


def test_a_full_disk_sets_the_log_aside() -> None:
    rig = filled()
    rig.log.roll(rig.now_ms)
    rig.faulty.faults = [Fault("write", path_part=".cleaned")]
    before = everything(rig.log)
    assert not rig.clean()
    assert KEY in rig.cleaner.set_aside
    assert everything(rig.log) == before
    assert not [name for name in rig.files.listdir(rig.directory) if name.endswith(".cleaned")], "room again"
    rig.now_ms += SET_ASIDE_MS
    assert rig.clean()


@pytest.mark.parametrize("groups_before", [0, 1])
def test_a_swap_whose_first_rename_fails_is_left_for_later(groups_before: int) -> None:
    rig = filled()
    rig.log.roll(rig.now_ms)
    rig.faulty.faults = [
        Fault("rename", number=groups_before + 1, path_part=".log.cleaned", error=errno.ENOSPC)
    ]
    before = state(rig.log)
    assert not rig.clean()
    assert rig.faulty.faults[0].hits == 1
    assert rig.broken == []
    assert KEY in rig.cleaner.set_aside
    rig.run_background_tasks()
    assert not [name for name in rig.file_names() if name.endswith((".cleaned", ".swap"))]
    rig.put(("k0", "behind"))
    before["k0"] = "behind"
    assert state(rig.log) == before
    rig.now_ms += SET_ASIDE_MS
    assert rig.roll_and_clean()
    assert state(rig.log) == before
    rig.start_again(is_clean=False)
    assert state(rig.log) == before


def test_a_swap_that_fails_half_way_breaks_the_log() -> None:
    rig = filled()
    rig.log.roll(rig.now_ms)
    rig.faulty.faults = [Fault("rename", path_part=".index.cleaned")]
    before = state(rig.log)
    assert not rig.clean()
    assert len(rig.broken) == 1
    rig.start_again(is_clean=False)
    assert state(rig.log) == before


@pytest.mark.parametrize("is_clean", [True, False])
def test_after_a_start_all_is_as_it_was(is_clean: bool) -> None:
    rig = filled()
    rig.roll_and_clean()
    rig.put(("k0", "behind"))
    before, end_offset = contents(rig.log), rig.log.log_end_offset
    if is_clean:
        rig.close()
    rig.start_again(is_clean=is_clean)
    assert contents(rig.log) == before
    assert rig.log.log_end_offset == end_offset
    assert rig.problems == ()


@pytest.mark.parametrize("survives_power_cut", [False, True])
@pytest.mark.parametrize("at", range(24))
def test_a_crash_at_any_step_of_the_swap(at: int, survives_power_cut: bool) -> None:
    """Each rename is a place to die at. The row is then the old one or the new one, the state the same."""
    rig = filled()
    rig.log.roll(rig.now_ms)
    rig.commit_all()
    rig.run_background_tasks()
    rig.log.flush()
    rig.run_background_tasks()
    expected, end_offset = state(rig.log), rig.log.log_end_offset
    names_before = len(rig.file_names()) + len([COMPACTION_MARKER_FILE])
    rig.faulty.faults = [Fault("rename", number=at + 1, count=1000)]
    rig.cleaner.look()
    rig.faulty.faults = []
    if survives_power_cut:
        rig.memory.cut_power()
    else:
        rig.memory.kill_process()
    rig.start_again(is_clean=False)
    assert state(rig.log) == expected
    assert rig.log.log_end_offset == end_offset
    offsets = [offset for offset, _, _ in contents(rig.log)]
    assert offsets == sorted(set(offsets))
    assert not [name for name in rig.file_names() if name.endswith((".swap", ".cleaned", ".deleted"))]
    assert len(rig.file_names()) <= names_before
    rig.roll_and_clean()
    assert state(rig.log) == expected
