"""What a read gives: whole first batches, bounds by bytes and by offset, near the end and far from it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from storage.errors import LogStorageError, OffsetOutOfRange
from tests.support.rigs.log_rig import NOW_MS, LogRig, leader_batch, offsets_of


def filled(*, batches: int = 40, **config: object) -> LogRig:
    """Batches of three records and some 160 bytes each."""
    rig = LogRig()
    rig.configure(index_interval_bytes=500, **config)
    for _ in range(batches):
        rig.append(b"x" * 20, b"y" * 20, b"z" * 20)
    return rig


def taken(rig: LogRig, offset: int, **arguments: object) -> list[tuple[int, int]]:
    arguments.setdefault("max_bytes", 1 << 20)
    found = rig.log.read(offset, **arguments)  # type: ignore[arg-type]
    return [] if found is None else offsets_of(found.read())


@pytest.mark.parametrize("reopened", [False, True], ids=["remembered", "through the index"])
class TestNearTheEndAndThroughTheIndex:
    """The same answers whether the places are remembered or looked up."""

    def rig(self, reopened: bool) -> LogRig:
        rig = filled()
        if reopened:
            rig.close()
            rig.reopen(is_clean=True)
        return rig

    def test_begins_with_the_batch_that_contains_the_offset(self, reopened: bool) -> None:
        rig = self.rig(reopened)
        for offset in (57, 58, 59):
            assert taken(rig, offset)[0] == (57, 59)
        assert taken(rig, 119) == [(117, 119)]

    def test_ends_below_the_bound(self, reopened: bool) -> None:
        rig = self.rig(reopened)
        assert taken(rig, 60, up_to_offset=66) == [(60, 62), (63, 65)]
        assert taken(rig, 60, up_to_offset=67) == [(60, 62), (63, 65)]
        assert taken(rig, 60, up_to_offset=62) == []
        assert taken(rig, 60, up_to_offset=60) == []
        assert taken(rig, 60, up_to_offset=10) == []
        assert taken(rig, 117, up_to_offset=999) == [(117, 119)]

    def test_the_first_batch_is_whole_and_the_last_may_be_cut(self, reopened: bool) -> None:
        rig = self.rig(reopened)
        size = rig.log.size_bytes // 40
        found = rig.log.read(30, max_bytes=size * 2 + 5)
        assert found is not None
        assert found.size_bytes == size * 2 + 5
        assert offsets_of(found.read()) == [(30, 32), (33, 35)]
        assert taken(rig, 30, max_bytes=1) == [(30, 32)]
        assert taken(rig, 30, max_bytes=0) == [(30, 32)]
        assert taken(rig, 30, max_bytes=size - 1, at_least_one_batch=False) == []
        assert taken(rig, 30, max_bytes=size, at_least_one_batch=False) == [(30, 32)]

    def test_the_size_between_two_offsets_is_that_of_the_batches_there(self, reopened: bool) -> None:
        rig = self.rig(reopened)
        size = rig.log.size_bytes // 40
        for offset, end_offset, batches in ((0, 120, 40), (60, 66, 2), (61, 68, 2), (60, 60, 0), (60, 62, 0)):
            assert rig.log.size_between(offset, end_offset) == batches * size

    def test_outside(self, reopened: bool) -> None:
        rig = self.rig(reopened)
        assert taken(rig, 120) == []
        for offset in (-1, 121):
            with pytest.raises(OffsetOutOfRange) as error:
                rig.log.read(offset, max_bytes=1)
            assert (error.value.log_start_offset, error.value.log_end_offset) == (0, 120)


def test_a_slice_is_of_one_segment_and_the_next_read_goes_on() -> None:
    rig = filled(segment_bytes=1000)
    assert len(rig.log.segments) > 3
    second = rig.log.segments[1].base_offset
    assert taken(rig, 0)[-1][1] == second - 1
    assert taken(rig, second)[0][0] == second
    found = rig.log.read(second + 1, max_bytes=1)
    assert found is not None
    assert (found.base_offset, found.segment_base_offset) == (second, second)


def test_the_size_between_two_offsets_counts_all_segments_between() -> None:
    rig = filled(segment_bytes=1000)
    size = rig.log.size_bytes // 40
    assert len(rig.log.segments) > 3
    for offset in range(0, 120, 3):
        for end_offset in range(offset, 121, 3):
            assert rig.log.size_between(offset, end_offset) == (end_offset - offset) // 3 * size


@pytest.mark.parametrize("reopened", [False, True], ids=["remembered", "through the index"])
def test_what_is_missing_within_a_compacted_leaders_log_reads_as_the_next_batch(reopened: bool) -> None:
    """A follower would get the batch before the gap again and again, and refuse it each time."""
    rig = LogRig()
    for base_offset in (0, 2, 7, 9, 14):
        rig.log.append_as_follower(leader_batch(base_offset, b"v", b"w"), NOW_MS)
    if reopened:
        rig.close()
        rig.reopen(is_clean=True)
    whole = [(0, 1), (2, 3), (7, 8), (9, 10), (14, 15)]
    for offset in range(16):
        expected = [each for each in whole if each[1] >= offset]
        assert taken(rig, offset) == expected
        for limit in range(17):
            below = [each for each in expected if each[1] < limit]
            assert taken(rig, offset, up_to_offset=limit) == below
    assert taken(rig, 11, max_bytes=1) == [(14, 15)]
    assert taken(rig, 11, max_bytes=1, at_least_one_batch=False) == []
    assert rig.append(b"as a leader") == 16
    assert taken(rig, 15) == [(14, 15), (16, 16)]


def test_reading_in_pieces() -> None:
    rig = filled(batches=3)
    found = rig.log.read(3, max_bytes=1 << 20)
    assert found is not None
    whole = found.read()
    assert found.fileno() is None
    buffer = bytearray(50)
    assert found.read_into(buffer) == 50
    assert buffer == whole[:50]
    assert found.read_into(buffer, len(whole) - 10) == 10
    assert buffer[:10] == whole[-10:]
    assert found.read_piece(7, 20) == whole[7:27]


def test_a_held_slice_outlives_roll_retention_and_close() -> None:
    rig = filled(segment_bytes=1000)
    held = rig.log.read(0, max_bytes=1 << 20)
    assert held is not None
    content = held.read()
    held.retain()
    rig.commit_all()
    rig.log.increase_log_start(60)
    assert rig.log.delete_old_segments(rig.now_ms) > 0
    rig.now_ms += 60_000
    rig.run_background_tasks()
    assert held.read() == content
    held.release()
    with pytest.raises(ValueError, match="closed"):
        held.read()


def test_a_damaged_file_is_an_error_of_this_log_not_a_crash() -> None:
    rig = filled()
    rig.close()
    rig.reopen(is_clean=True)
    file = rig.files.open(rig.log.active.path(".log"), write=True)
    file.write([b"\xff" * 400], 600)
    with pytest.raises(LogStorageError, match="no valid record batch at byte"):
        rig.log.read(18, max_bytes=100)
    assert taken(rig, 0, max_bytes=100) == [(0, 2)]
    assert rig.append(b"still takes appends") == 120


def test_the_high_watermark_only_rises_and_stays_in_the_log() -> None:
    rig = filled(batches=2)
    assert rig.log.update_high_watermark(4)
    assert not rig.log.update_high_watermark(4)
    assert not rig.log.update_high_watermark(1)
    assert rig.log.update_high_watermark(99)
    assert rig.log.high_watermark == rig.log.last_stable_offset == 6
    rig.log.truncate_to(3, now_ms=rig.now_ms)
    assert rig.log.high_watermark == 3


def test_large_and_small_batches_are_found_at_each_of_their_offsets() -> None:
    """A large batch has an entry of the index, which leads to it past the batch before; small ones do not."""
    rig, began = LogRig(), [0]
    chance = random.Random(5)
    for _ in range(300):
        values = [b"v" * chance.choice((20, 1000, 9000)) for _ in range(chance.randrange(1, 4))]
        rig.append(*values)
        began.append(began[-1] + len(values))
    rig.close()
    rig.reopen(is_clean=True)
    for first, behind in pairwise(began):
        for offset in range(first, behind):
            assert taken(rig, offset, max_bytes=1) == [(first, behind - 1)]


def test_of_a_large_batch_only_its_own_header_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = LogRig()
    for _ in range(20):
        rig.append(b"v" * 15_000, b"w" * 15_000)
    rig.close()
    rig.reopen(is_clean=True)
    places: list[int] = []
    segment = rig.log.segments.active
    assert segment.locate(12) is not None, "the page of the index is read"
    pread = type(segment.log.file()).pread

    def noted(file: object, size_bytes: int, position: int) -> bytes:
        places.append(position)
        return pread(file, size_bytes, position)  # type: ignore[arg-type]

    monkeypatch.setattr(type(segment.log.file()), "pread", noted)
    found = segment.locate(14)
    assert found is not None
    assert (found.base_offset, places) == (14, [found.position])
