"""When a new segment begins, what goes in time, and what a cut leaves."""

from __future__ import annotations

import pytest

from config.limits import SLOW_DIRECTORY_MS
from protocol.records.header import headers, seal
from storage.append import LATEST_PRODUCE_VERSION
from storage.plain_appends import append_plain
from storage.segment import MAX_RELATIVE_OFFSET
from tests.support.rigs.lane_rig import MS, LaneRig
from tests.support.rigs.log_rig import (
    NOW_MS,
    LogRig,
    client_batch,
    everything,
    found_largest_timestamp,
    found_since,
    leader_batch,
    offsets_of,
    prepare,
)

DAY_MS = 86_400_000


def bases(rig: LogRig) -> list[int]:
    return [segment.base_offset for segment in rig.log.segments]


def test_rolls_when_a_batch_would_not_fit() -> None:
    rig = LogRig()
    rig.append(bytes(100))
    size = rig.log.size_bytes
    rig.configure(segment_bytes=size * 2)
    rig.append(bytes(100))
    assert bases(rig) == [0]
    rig.append(bytes(100))
    assert bases(rig) == [0, 2]


def test_rolls_by_the_timestamps_of_batches() -> None:
    rig = LogRig()
    rig.configure(segment_ms=1000)
    for timestamp in (0, 1000, 1001, 500, 2001, 2002):
        rig.append(b"x", timestamp=NOW_MS + timestamp)
    assert bases(rig) == [0, 2, 5]


def test_a_reopened_segment_keeps_its_age() -> None:
    rig = LogRig()
    rig.configure(segment_ms=1000)
    rig.append(b"x")
    rig.append(b"x", timestamp=NOW_MS + 900)
    rig.close()
    rig.reopen(is_clean=True)
    rig.append(b"x", timestamp=NOW_MS + 1001)
    assert bases(rig) == [0, 2]


WITHOUT_TIMESTAMP = -1


@pytest.mark.parametrize("way", ["client", "fast lane", "follower", "coordinator", "helper thread"])
def test_a_segment_whose_first_batch_has_no_timestamp_rolls_by_the_clock(way: str) -> None:
    """From the time on at which it was created, or opened by this process. KIP-32."""
    rig = LaneRig(segment_ms=1000, index_interval_bytes=0)

    def append() -> None:
        batch = client_batch(b"x", timestamp=WITHOUT_TIMESTAMP)
        if way == "follower":
            copy = leader_batch(rig.log.log_end_offset, b"x", timestamp=WITHOUT_TIMESTAMP)
            rig.log.append_as_follower(copy, rig.now_ms)
        elif way == "coordinator":
            rig.log.append_internal(batch, leader_epoch=0, now_ms=rig.now_ms)
        elif way == "fast lane" and rig.log.active.size_bytes:
            taken, _ = append_plain(rig.log, batch, [(0, len(batch))], 0, rig.now_ms, LATEST_PRODUCE_VERSION)
            if not taken:
                rig.send(batch)
        else:
            if way == "helper thread":
                rig.disk.stalled((SLOW_DIRECTORY_MS + 1) * MS)
            rig.send(batch)
            rig.run()

    for later_ms in (0, 1000, 1, 999, 1, 1):
        rig.now_ms += later_ms
        append()
    assert bases(rig) == [0, 2, 5]
    rig.close()
    rig.now_ms += 10_000
    rig.reopen(is_clean=True)
    rig.attach()
    for later_ms in (1000, 1):
        rig.now_ms += later_ms
        append()
    assert bases(rig) == [0, 2, 5, 7]


def test_rolls_when_an_index_is_full() -> None:
    rig = LogRig()
    rig.configure(segment_index_bytes=5 * 8, index_interval_bytes=0)
    for number in range(12):
        rig.append(b"x", timestamp=NOW_MS + number)
    assert bases(rig) == [0, 3, 6, 9]
    rig.configure(segment_index_bytes=5 * 12)
    assert rig.log.log_end_offset == 12


def test_rolls_before_an_offset_does_not_fit_into_an_index() -> None:
    rig = LogRig()
    rig.log.append_as_follower(leader_batch(0, b"first"), NOW_MS)
    rig.log.append_as_follower(leader_batch(MAX_RELATIVE_OFFSET, b"fits"), NOW_MS)
    assert bases(rig) == [0]
    rig.log.append_as_follower(leader_batch(MAX_RELATIVE_OFFSET + 1, b"does not"), NOW_MS)
    assert bases(rig) == [0, MAX_RELATIVE_OFFSET + 1]
    assert len(offsets_of(everything(rig.log))) == 3


FAR = 3_000_000_000


def copied_from(base_offset: int) -> list[bytes]:
    """Batches with which indexes get entries."""
    return [leader_batch(base_offset + number, b"v", timestamp=NOW_MS + number) for number in range(20)]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("waits", [False, True])
def test_an_empty_segment_takes_no_batch_that_its_indexes_cannot_hold(waits: bool, is_clean: bool) -> None:
    """A follower that begins anew may get batches from far above the beginning of its empty log."""
    rig = LaneRig(index_interval_bytes=0, flush_messages=1 if waits else 1 << 40)
    batches = copied_from(FAR)
    for batch in batches:
        rig.log.append_as_follower(batch, NOW_MS)
        rig.run()
    assert bases(rig) == [0, FAR]
    assert everything(rig.log) == b"".join(batches)
    if is_clean:
        rig.close()
    rig.reopen(is_clean=is_clean)
    assert (bases(rig), rig.problems) == ([0, FAR], ())
    assert everything(rig.log) == b"".join(batches)
    assert found_since(rig.log, NOW_MS + 7) == (NOW_MS + 7, FAR + 7, 0)


def test_a_leader_begins_a_segment_where_a_cut_has_left_an_empty_one_far_below() -> None:
    rig = LogRig()
    rig.log.append_as_follower(copied_from(FAR)[0], NOW_MS)
    rig.log.truncate_to(FAR - 5, now_ms=NOW_MS)
    assert bases(rig) == [0]
    assert [rig.append(b"v"), rig.append(b"w")] == [FAR - 5, FAR - 4]
    assert bases(rig) == [0, FAR - 5]
    assert offsets_of(everything(rig.log)) == [(FAR - 5, FAR - 5), (FAR - 4, FAR - 4)]
    rig.close()


def test_jitter_rolls_earlier_never_later() -> None:
    rig = LogRig()
    rig.configure(segment_ms=1000, segment_jitter_ms=500)
    rig.append(b"x")
    assert NOW_MS + 500 < rig.log.segments.roll_timestamp <= NOW_MS + 1000


def test_an_empty_log_does_not_roll() -> None:
    rig = LogRig()
    rig.log.roll(NOW_MS)
    rig.append(b"x")
    rig.log.roll(NOW_MS)
    rig.log.roll(NOW_MS)
    assert bases(rig) == [0, 1]


def three_segments(**config: object) -> LogRig:
    rig = LogRig()
    rig.configure(segment_bytes=500, **config)
    for number in range(9):
        rig.append(bytes(90), timestamp=NOW_MS - 10 * DAY_MS + number * DAY_MS)
    assert bases(rig) == [0, 3, 6]
    rig.commit_all()
    return rig


def test_time_retention_goes_by_the_youngest_record_of_a_segment() -> None:
    rig = three_segments(retention_ms=7 * DAY_MS)
    assert rig.log.delete_old_segments(NOW_MS) == 1
    assert bases(rig) == [3, 6]
    assert rig.log.log_start_offset == 3
    rig.now_ms = NOW_MS + 10 * DAY_MS
    assert rig.log.delete_old_segments(rig.now_ms) == 2
    assert bases(rig) == [9]
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.log.size_bytes) == (9, 9, 0)
    assert rig.log.delete_old_segments(rig.now_ms + DAY_MS) == 0
    rig.append(b"goes on", timestamp=rig.now_ms)
    assert offsets_of(everything(rig.log)) == [(9, 9)]


def test_size_retention_keeps_at_least_so_many_bytes() -> None:
    rig = three_segments(retention_ms=-1)
    segment = rig.log.segments[0].size_bytes
    rig.configure(retention_bytes=2 * segment + 1)
    assert rig.log.delete_old_segments(NOW_MS) == 0
    rig.configure(retention_bytes=2 * segment)
    assert rig.log.delete_old_segments(NOW_MS) == 1
    rig.configure(retention_bytes=-1)
    assert rig.log.delete_old_segments(NOW_MS) == 0


def test_the_segment_that_helper_threads_write_to_stays() -> None:
    rig = three_segments(retention_ms=1)
    prepare(rig.log, client_batch(b"on its way"), leader_epoch=0, now_ms=NOW_MS)
    assert rig.log.delete_old_segments(NOW_MS) == 2
    assert bases(rig) == [6]
    rig.log.appends.queue.rollback()
    assert rig.log.delete_old_segments(NOW_MS) == 1
    assert bases(rig) == [9]


def test_nothing_above_the_high_watermark_goes() -> None:
    rig = three_segments(retention_ms=1)
    rig.log.high_watermark = 5
    assert rig.log.delete_old_segments(NOW_MS) == 1
    assert bases(rig) == [3, 6]


def test_a_compacted_topic_is_only_cut_at_its_start() -> None:
    rig = three_segments(retention_ms=1, retention_bytes=1, delete=False)
    rig.configure(compact=True)
    assert rig.log.delete_old_segments(NOW_MS) == 0
    assert rig.log.increase_log_start(7)
    assert not rig.log.increase_log_start(7)
    assert rig.log.delete_old_segments(NOW_MS) == 2
    assert bases(rig) == [6]
    assert rig.log.log_start_offset == 7


def test_files_go_after_the_delay() -> None:
    rig = three_segments(retention_ms=7 * DAY_MS, file_delete_delay_ms=60_000)
    rig.run_background_tasks()
    rig.log.delete_old_segments(NOW_MS)
    assert "00000000000000000000.log.deleted" in rig.file_names()
    assert "00000000000000000000.log" not in rig.file_names()
    rig.now_ms = NOW_MS + 59_999
    rig.run_background_tasks()
    assert "00000000000000000000.log.deleted" in rig.file_names()
    rig.now_ms = NOW_MS + 60_000
    rig.run_background_tasks()
    assert not [name for name in rig.file_names() if name.startswith("00000000000000000000.")]


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    rig = LogRig()
    rig.configure(retention_ms=1000)
    rig.append(b"x", timestamp=-1)
    rig.commit_all()
    assert rig.log.delete_old_segments(NOW_MS + 1000) == 0
    assert rig.log.delete_old_segments(NOW_MS + 1001) == 1


# Truncation


def test_a_cut_forgets_everything_behind_it() -> None:
    rig = LogRig()
    rig.configure(segment_bytes=300)
    for number in range(8):
        rig.append(bytes(90), epoch=number // 2)
    rig.produce(7, 0, 0)
    rig.produce(7, 0, 1)
    rig.run_background_tasks()
    rig.commit_all()
    rig.log.truncate_to(5, now_ms=NOW_MS)
    log = rig.log
    assert (log.log_end_offset, log.high_watermark) == (5, 5)
    assert log.recovery_point <= 5
    assert log.leader_epochs.entries() == [(0, 0), (1, 2), (2, 4)]
    assert len(log.producer_state) == 0
    assert all(offset <= 5 for offset in log.durability.snapshot_offsets)
    assert offsets_of(everything(log)) == [(number, number) for number in range(5)]
    assert rig.produce(7, 0, 0) == 5
    rig.run_background_tasks()
    rig.reopen(is_clean=False)
    assert rig.log.log_end_offset == 6


def test_a_cut_within_a_batch_takes_the_whole_batch() -> None:
    rig = LogRig()
    rig.append(b"a", b"b")
    rig.append(b"c", b"d", b"e")
    rig.log.truncate_to(4, now_ms=NOW_MS)
    assert rig.log.log_end_offset == 2
    rig.log.truncate_to(9, now_ms=NOW_MS)
    assert rig.append(b"x") == 2


def test_starting_anew_at_another_offset() -> None:
    rig = LogRig()
    rig.append(b"a", epoch=3)
    rig.produce(7, 0, 0)
    rig.log.truncate_fully_and_start_at(1000, now_ms=NOW_MS)
    log = rig.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1000, 1000, 1000)
    assert log.leader_epochs.entries() == []
    assert len(log.producer_state) == 0
    assert rig.append(b"b", epoch=5) == 1000
    rig.run_background_tasks()
    assert [name for name in rig.file_names() if name.endswith(".log")] == ["00000000000000001000.log"]
    rig.reopen(is_clean=False, log_start_offset=1000)
    assert [header.base_offset for _, header in headers(everything(rig.log))] == [1000]


def test_truncating_below_the_first_segment_starts_anew() -> None:
    rig = three_segments(retention_ms=7 * DAY_MS)
    rig.log.delete_old_segments(NOW_MS)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (1, 1)


# By timestamp


def test_offsets_by_timestamp_across_segments_and_within_batches() -> None:
    rig = LogRig()
    rig.configure(segment_bytes=300, index_interval_bytes=0)
    for number in range(12):
        rig.append(bytes(80), epoch=number // 6, timestamp=NOW_MS + number * 10)
    log = rig.log
    assert found_since(log, 0) == (NOW_MS, 0, 0)
    assert found_since(log, NOW_MS + 41) == (NOW_MS + 50, 5, 0)
    assert found_since(log, NOW_MS + 110) == (NOW_MS + 110, 11, 1)
    assert found_since(log, NOW_MS + 111) is None
    assert found_largest_timestamp(log) == (NOW_MS + 110, 11, 1)
    log.update_high_watermark(12)
    log.increase_log_start(7)
    assert found_since(log, 0) == (NOW_MS + 70, 7, 1)


def test_timestamps_out_of_order() -> None:
    rig = LogRig()
    for timestamp in (50, 10, 70, 20, 70):
        rig.append(b"x", timestamp=NOW_MS + timestamp)
    assert found_since(rig.log, NOW_MS + 60) == (NOW_MS + 70, 2, 0)
    assert found_largest_timestamp(rig.log) == (NOW_MS + 70, 2, 0)


def test_an_empty_log_has_no_timestamps() -> None:
    rig = LogRig()
    assert found_since(rig.log, 0) is None
    assert found_largest_timestamp(rig.log) is None


def test_a_batch_whose_records_cannot_be_read_is_answered_by_its_header() -> None:
    rig = LogRig()
    batch = bytearray(leader_batch(0, b"12345678", timestamp=NOW_MS))
    batch[61] = 0x7E
    seal(batch, 0, len(batch))
    rig.log.append_as_follower(bytes(batch), NOW_MS)
    assert found_since(rig.log, NOW_MS - 5) == (NOW_MS, 0, 0)
