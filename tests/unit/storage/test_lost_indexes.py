"""An index that somebody removes or cuts under a running broker: it is made again when it is missed, and
reading makes no file."""

from __future__ import annotations

from typing import Final

import pytest

from storage.file_names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.memory_files import MemoryFiles
from storage.segment import Segment
from tests.support.rigs.log_rig import (
    NOW_MS,
    LogRig,
    everything,
    found_largest_timestamp,
    found_since,
    offsets_of,
)

BATCHES: Final = 3000
INDEXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class Grown(LogRig):
    """A log whose segments have index entries in their files and, the active one, others that wait."""

    def __init__(self) -> None:
        self.memory = MemoryFiles(lambda: NOW_MS)
        super().__init__(self.memory)
        self.configure(segment_bytes=500_000, index_interval_bytes=0)
        for number in range(BATCHES):
            self.append(bytes(200), timestamp=NOW_MS + number)
        self.commit_all()
        self.run_background_tasks()

    def damage(self, segment: Segment, suffix: str, how: str) -> None:
        path = segment.path(suffix)
        size = self.memory.status(path).size_bytes
        assert size > 1000
        if how == "remove":
            self.memory.unlink(path)
        else:
            file = self.memory.open(path, write=True)
            file.truncate(size // 2 - 3)
            file.close()

    def damage_all(self, how: str) -> None:
        for segment in self.log.segments:
            for suffix in INDEXES:
                self.damage(segment, suffix, how)

    def expect_all_to_be_found(self) -> None:
        end = self.log.log_end_offset
        for offset in [*range(0, end, 97), end - 1]:
            found = self.log.read(offset, max_bytes=1, up_to_offset=end)
            assert found is not None
            assert found.base_offset == offset
            assert found_since(self.log, NOW_MS + offset) == (NOW_MS + offset, offset, 0)
        assert found_largest_timestamp(self.log) == (NOW_MS + end - 1, end - 1, 0)
        assert offsets_of(everything(self.log)) == [(offset, offset) for offset in range(end)]


@pytest.fixture
def rig() -> Grown:
    return Grown()


@pytest.mark.parametrize("how", ["remove", "cut"])
def test_everything_is_found_again(rig: Grown, how: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(rig.log.segments) > 1
    rig.damage_all(how)
    rig.expect_all_to_be_found()
    assert "is gone or was cut; it is made again" in caplog.text
    caplog.clear()
    rig.expect_all_to_be_found()
    assert not caplog.records, "once is enough"
    for segment in rig.log.segments[:-1]:
        assert segment.has_sane_indexes()
        assert segment.has_complete_indexes(10_000)


@pytest.mark.parametrize("suffix", INDEXES)
@pytest.mark.parametrize("how", ["remove", "cut"])
def test_appends_go_on_and_a_start_believes_what_is_there(rig: Grown, suffix: str, how: str) -> None:
    for segment in rig.log.segments:
        rig.damage(segment, suffix, how)
    for number in range(BATCHES, 2 * BATCHES):
        rig.append(bytes(200), timestamp=NOW_MS + number)
    rig.expect_all_to_be_found()
    rig.close()
    rig.reopen(is_clean=True)
    assert (rig.problems, rig.scanned_segments) == ((), 0)
    rig.expect_all_to_be_found()


@pytest.mark.parametrize("how", ["remove", "cut"])
def test_a_truncation_meets_it(rig: Grown, how: str) -> None:
    rig.damage_all(how)
    rig.log.truncate_to(BATCHES - 1000, now_ms=NOW_MS)
    assert rig.log.log_end_offset == BATCHES - 1000
    rig.expect_all_to_be_found()


def test_reading_makes_no_file() -> None:
    rig = LogRig()
    for _ in range(3):
        rig.append(b"value")
    rig.commit_all()
    before = rig.files.listdir(rig.directory)
    assert "00000000000000000000.index" not in before
    assert offsets_of(everything(rig.log)) == [(0, 0), (1, 1), (2, 2)]
    assert found_since(rig.log, NOW_MS) == (NOW_MS, 0, 0)
    assert found_largest_timestamp(rig.log) is not None
    assert rig.files.listdir(rig.directory) == before
