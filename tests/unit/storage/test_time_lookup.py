"""Look-ups by time in steps: where they pause, what they need, and a log that changes in the pauses."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, NONE, SNAPPY, ZSTD
from storage.errors import LogStorageError
from storage.time_lookup import AT_ONCE_BYTES, LookupSteps, Room
from tests.support.rigs.log_rig import NOW_MS, LogRig, found_since
from tests.support.samples import bad_batches as bad

T0 = NOW_MS - 10_000_000
LARGE = 20_000


def stored(rig: LogRig, batch: bytearray) -> None:
    """As it lies in a leader's log: nobody looks into it."""
    placed = bad.lying(batch, base_offset=rig.log.log_end_offset, leader_epoch=0)
    rig.log.append_as_follower(bytes(placed), NOW_MS)


def crowded(codec: int = ZSTD, *, at: int = T0, count: int = LARGE) -> bytearray:
    return bad.crowded(codec, count, at=at)


def a_log(codec: int = ZSTD) -> LogRig:
    """One record at T0 - 1000, a crowded batch that promises T0 + 1000, one record at T0 + 2000."""
    rig = LogRig()
    rig.append(b"early", timestamp=T0 - 1000)
    stored(rig, crowded(codec))
    rig.append(b"late", timestamp=T0 + 2000)
    rig.commit_all()
    return rig


class Run:
    """A look-up that a test drives by hand."""

    def __init__(self, steps: LookupSteps[Any]) -> None:
        self.steps = steps
        self.outcome: Any = "none yet"
        self.seen: list[Any] = []

    def step(self) -> bool:
        """One more; False at the end."""
        last = self.seen[-1] if self.seen else None
        try:
            self.seen.append(self.steps.send(last() if callable(last) else None))
        except StopIteration as stop:
            self.outcome = stop.value
            return False
        return True

    def until(self, wanted: Any) -> Run:
        while self.step():
            if self.seen[-1] is wanted:
                return self
        raise AssertionError(f"{wanted} did not come, but {self.outcome}")

    def finish(self) -> Any:
        while self.step():
            pass
        return self.outcome


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, ZSTD])
def test_a_large_batch_is_searched_in_many_steps(codec: int) -> None:
    rig = a_log(codec)
    run = Run(rig.log.find_since(T0 + 500))
    assert run.finish() == (T0 + 2000, LARGE + 1, 0)
    assert run.seen.count(None) > LARGE // 2000
    assert [step for step in run.seen if isinstance(step, Room)] == [Room.SOME, Room.NONE]
    assert Run(rig.log.find_since(T0)).finish() == (T0, 1, 0)
    assert Run(rig.log.find_since(T0 + 2001)).finish() is None


def test_a_small_one_is_searched_at_once() -> None:
    rig = LogRig()
    for codec in (NONE, GZIP, SNAPPY, ZSTD):
        batch = build_batch([SimpleRecord(None, bytes(50), T0 + codec)] * 300, codec=codec)
        assert len(batch) < AT_ONCE_BYTES
        stored(rig, batch)
    run = Run(rig.log.find_since(T0 + GZIP))
    assert run.finish() == (T0 + GZIP, 300, 0)
    assert run.seen == []


def test_the_largest_timestamp_is_looked_for_in_steps_too() -> None:
    rig = LogRig()
    stored(rig, crowded())
    run = Run(rig.log.find_largest_timestamp())
    assert run.finish() is None, "the header promised what no record keeps"
    assert run.seen.count(None) > LARGE // 2000
    rig.append(b"x", timestamp=T0 + 5000)
    assert Run(rig.log.find_largest_timestamp()).finish() == (T0 + 5000, LARGE, 0)


@pytest.mark.parametrize("log_append_time", [False, True])
def test_of_deleted_records_none_has_the_largest_timestamp(log_append_time: bool) -> None:
    rig = LogRig()
    rig.configure(log_append_time=log_append_time)
    rig.append(b"a", b"b", b"c")
    rig.commit_all()
    rig.log.increase_log_start(2)
    assert Run(rig.log.find_largest_timestamp()).finish() == (NOW_MS, 2, 0)
    rig.log.increase_log_start(3)
    assert Run(rig.log.find_largest_timestamp()).finish() is None
    assert Run(rig.log.find_since(NOW_MS)).finish() is None


def test_many_segments_and_many_headers_are_many_steps() -> None:
    rig = LogRig()
    rig.configure(segment_bytes=400)
    for number in range(100):
        rig.append(bytes(100), timestamp=T0 + number)
    assert len(rig.log.segments) == 50
    run = Run(rig.log.find_largest_timestamp())
    assert run.finish() == (T0 + 99, 99, 0)
    assert run.seen.count(None) >= 3
    rig = LogRig()
    rig.configure(index_interval_bytes=1 << 30)
    for number in range(300):
        rig.append(b"", timestamp=T0 + number)
    run = Run(rig.log.find_since(T0 + 299))
    assert run.finish() == (T0 + 299, 299, 0)
    assert run.seen.count(None) >= 4


def test_a_codec_that_needs_much_memory_says_so() -> None:
    import snappy

    rig = LogRig()
    plain = b"\x0c\0\0\0\x01\x01\0" * 2_000_000
    batch = bad.with_records(snappy.compress(plain), 2_000_000, attributes=SNAPPY)
    stored(rig, bad.lying(batch, max_timestamp=NOW_MS * 2))
    run = Run(rig.log.find_since(NOW_MS * 2 - 5))
    run.until(Room.MUCH)
    assert run.seen[0] is Room.SOME
    call = next(step for step in iter(lambda: run.step() and run.seen[-1], False) if callable(step))
    assert len(call()) == len(plain)
    assert run.finish() is None
    assert run.seen[-1] is not Room.MUCH
    assert [step for step in run.seen if isinstance(step, Room)] == [Room.SOME, Room.MUCH, Room.NONE]


def test_records_that_cannot_be_read_are_answered_by_the_header(caplog: pytest.LogCaptureFixture) -> None:
    rig = LogRig()
    batch = crowded(NONE)
    batch[-1] = 5
    stored(rig, batch)
    broken = crowded(ZSTD, at=T0 + 3000)
    broken[61] ^= 0xFF
    stored(rig, broken)
    assert Run(rig.log.find_since(T0 + 3500)).finish() == (T0 + 4000, 2 * LARGE - 1, 0)
    assert "its header is believed" in caplog.text


# What happens in the pauses


def midway(rig: LogRig, timestamp: int = T0 + 500) -> Run:
    """In the middle of the crowded batch."""
    run = Run(rig.log.find_since(timestamp)).until(Room.SOME)
    for _ in range(5):
        assert run.step()
    return run


def test_a_log_that_goes_is_searched_no_further() -> None:
    rig = a_log()
    run = midway(rig)
    rig.log.abandon()
    with pytest.raises(LogStorageError):
        run.finish()


def test_a_segment_that_goes_is_left() -> None:
    rig = a_log()
    rig.log.roll(NOW_MS)
    rig.append(b"last", timestamp=T0 + 3000)
    rig.commit_all()
    run = midway(rig)
    rig.configure(retention_bytes=0)
    assert rig.log.delete_old_segments(NOW_MS, at_most=1) == 1
    assert run.finish() == (T0 + 3000, LARGE + 2, 0)


def test_a_cut_below_begins_anew() -> None:
    rig = a_log()
    run = midway(rig)
    rig.log.truncate_to(1, now_ms=NOW_MS)
    rig.append(b"other", timestamp=T0 + 700)
    assert run.finish() == (T0 + 700, 1, 0)
    run = Run(rig.log.find_since(T0 + 701))
    assert run.finish() is None


def test_a_cut_above_goes_on() -> None:
    rig = a_log()
    run = midway(rig)
    rig.log.truncate_to(LARGE + 1, now_ms=NOW_MS)
    assert run.finish() is None


def test_what_is_appended_meanwhile_is_found() -> None:
    rig = LogRig()
    stored(rig, crowded())
    run = midway(rig)
    rig.append(b"new", timestamp=T0 + 600)
    assert run.finish() == (T0 + 600, LARGE, 0)


def test_an_open_file_that_is_let_go_is_opened_again() -> None:
    rig = a_log()
    run = midway(rig)
    assert rig.log.active.log.close_if_unused()
    assert run.finish() == (T0 + 2000, LARGE + 1, 0)


def test_a_search_that_is_dropped_keeps_nothing() -> None:
    rig = a_log(GZIP)
    run = midway(rig)
    run.steps.close()
    gc.collect()
    assert run.step() is False
    assert rig.log.active.log.holds == 0


def test_one_after_the_other_or_between_each_other_they_find_the_same() -> None:
    rig = a_log()
    wanted = [T0 - 1000, T0, T0 + 1, T0 + 1500, T0 + 2000, T0 + 9000]
    alone = [found_since(rig.log, each) for each in wanted]
    runs = [Run(rig.log.find_since(each)) for each in wanted]
    waiting = list(runs)
    while waiting:
        waiting = [run for run in waiting if run.step()]
    assert [run.outcome for run in runs] == alone
