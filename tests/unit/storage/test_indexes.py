"""Look-ups in the two sparse indexes, over many pages, with entries in the file and entries that wait."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

import pytest

from storage.dump import index_files
from storage.memory_files import MemoryFiles
from storage.offset_index import OffsetIndex
from storage.time_index import TimeIndex


def offset_index(files: MemoryFiles, count: int, *, base: int = 1000) -> OffsetIndex:
    index = OffsetIndex(files, "/i.index", base, fresh=True)
    for number in range(1, count + 1):
        index.append(base + number * 3, number * 50)
    return index


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 1024, 3000])
def test_every_offset_finds_the_entry_at_or_below_it(count: int) -> None:
    files = MemoryFiles()
    index = offset_index(files, count)
    offsets = list(range(990, 1000 + count * 3 + 20, 1 if count < 600 else 7))
    Random(count).shuffle(offsets)
    for again in range(2):
        for offset in offsets:
            number = min(max((offset - 1000) // 3, 0), count)
            assert index.lookup(offset) == number * 50
        if not again:
            index.file.seal()
            index = OffsetIndex(files, "/i.index", 1000, fresh=False)
            assert index.count == count
    assert index.is_sane(count * 50 + 1)
    assert index.is_sane(count * 50) == (count == 0)


def test_reading_from_end_to_end_loads_each_page_once() -> None:
    files = MemoryFiles()
    index = offset_index(files, 2048)
    index.file.write_pending()
    opened = []
    original = files.open
    files.open = lambda path, **how: opened.append(path) or original(path, **how)  # type: ignore[method-assign, func-returns-value]
    for offset in range(1003, 1003 + 2048 * 3):
        index.lookup(offset)
    assert len(opened) <= 8


def test_readers_at_different_places_load_each_page_once() -> None:
    files = MemoryFiles()
    index = offset_index(files, 8192)
    index.file.write_pending()
    opened = []
    original = files.open
    files.open = lambda path, **how: opened.append(path) or original(path, **how)  # type: ignore[method-assign, func-returns-value]
    for step in range(1024):
        for reader in range(8):
            number = reader * 1024 + step + 1
            assert index.lookup(1000 + number * 3) == number * 50
    assert len(opened) <= 16 + 8


@pytest.mark.parametrize("seed", range(5))
def test_many_readers_while_the_index_grows_and_is_cut(seed: int) -> None:
    random = Random(seed)
    count = 2000
    index = offset_index(MemoryFiles(), count)
    for _ in range(6000):
        choice = random.random()
        if choice < 0.2:
            count += 1
            index.append(1000 + count * 3, count * 50)
        elif choice < 0.202 and count > 200:
            count -= random.randrange(1, 200)
            index.truncate_to(1000 + count * 3 + 1)
        elif choice < 0.204:
            index.file.write_pending()
        else:
            number = random.choice((random.randrange(count + 1), count, random.randrange(25) * count // 25))
            assert index.lookup(1000 + number * 3 + random.randrange(3)) == number * 50


def test_truncation_of_entries_in_the_file_and_of_waiting_ones() -> None:
    for cut in (1003, 1004, 2500, 2501, 2600, 2999, 9999):
        index = offset_index(MemoryFiles(), 600)
        assert 0 < index.file.written_count < 600
        index.truncate_to(cut)
        kept = [number for number in range(1, 601) if 1000 + number * 3 < cut]
        assert index.count == len(kept)
        assert index.last() == ((1000 + kept[-1] * 3, kept[-1] * 50) if kept else (1000, 0))
        index.append(20_000, 99_999)
        assert index.lookup(30_000) == 99_999
        assert index.lookup(19_999) == index._entry(index.count - 2)[1] if kept else True


def test_a_fresh_index_ignores_what_lay_in_the_file() -> None:
    files = MemoryFiles()
    offset_index(files, 600).file.seal()
    index = OffsetIndex(files, "/i.index", 5, fresh=True)
    assert (index.count, index.lookup(99)) == (0, 0)
    index.append(9, 77)
    index.file.seal()
    assert files.read_bytes("/i.index") == bytes([0, 0, 0, 4, 0, 0, 0, 77])


def test_time_index_keeps_rising_timestamps_only() -> None:
    files = MemoryFiles()
    index = TimeIndex(files, "/t.timeindex", 100, fresh=True)
    assert index.last() == index.lookup(5) == (-1, 100)
    for timestamp, offset in ((10, 101), (10, 105), (7, 106), (30, 107), (-1, 108)):
        index.maybe_append(timestamp, offset)
    assert index.count == 2
    assert index.last() == (30, 107)
    assert [index.lookup(each) for each in (9, 10, 29, 30, 99)] == [
        (-1, 100), (10, 101), (10, 101), (30, 107), (30, 107),
    ]  # fmt: skip
    index.truncate_to(107)
    assert index.last() == (10, 101)
    index.file.seal()
    assert files.read_bytes("/t.timeindex") == (10).to_bytes(8) + (1).to_bytes(4)


def test_time_look_ups_over_many_entries() -> None:
    index = TimeIndex(MemoryFiles(), "/t.timeindex", 0, fresh=True)
    timestamps = [number * number for number in range(1, 900)]
    for offset, timestamp in enumerate(timestamps):
        index.maybe_append(timestamp, offset)
    for wanted in range(0, 900 * 900, 1009):
        place = bisect_right(timestamps, wanted)
        assert index.lookup(wanted) == ((timestamps[place - 1], place - 1) if place else (-1, 0))


class SeenBatch:
    """Two offsets from `base_offset` on; it counts how often one looks where it begins."""

    looks = 0

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self.last_offset = base_offset + 1
        self.max_timestamp = base_offset

    @property
    def base_offset(self) -> int:
        SeenBatch.looks += 1
        return self._base_offset


def test_a_dump_of_a_time_index_looks_at_each_batch_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 500
    files = MemoryFiles()
    index = TimeIndex(files, "/t.timeindex", 0, fresh=True)
    for number in range(1, count):
        index.maybe_append(2 * number, 2 * number + 1)
    index.maybe_append(2 * count + 5, 2 * count - 1)
    index.maybe_append(2 * count + 6, 2 * count + 9)
    index.file.seal()
    files.open("/t.log", create=True)
    batches = [(0, SeenBatch(2 * number), b"") for number in range(count)]
    monkeypatch.setattr(index_files, "stored_batches", lambda file, size_bytes: iter(batches))
    lines: list[str] = []
    complaints: list[str] = []
    index_files.dump_time_index(
        files,
        "/t.timeindex",
        base_offset=0,
        verify_only=False,
        write=lines.append,
        complain=complaints.append,
    )
    assert len(lines) == index.count
    assert complaints == [
        "Found timestamp mismatch in :/t.timeindex",
        f"  Index timestamp: {2 * count + 5}, log timestamp: {2 * count - 2}",
        "The following indexed offsets are not found in :/t.timeindex",
        f"Indexed offset: {2 * count + 9}, found log offset: -1",
    ]
    assert SeenBatch.looks <= 3 * count
