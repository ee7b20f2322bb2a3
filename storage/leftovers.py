"""What a crash may leave beside a log's files, and how a start puts it in order.

    .deleted   was waiting for its removal                 is removed
    .cleaned   a compaction that had not been completed    is removed
    .tmp       a small file that was not written in full   is removed
    .swap      a compaction that was being completed       takes its place; segments in its range are removed

Each step may be interrupted and done again.
"""

from __future__ import annotations

from typing import Final

from config.ports import Files
from storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_of,
)
from storage.segment import Segment

_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, SWAP_SUFFIX)


def tidy(files: Files, directory: str) -> list[str]:
    """Removes what a crash has left, and completes swaps. Returns the names that are there afterwards. Raises
    OSError and CorruptSegment."""
    names = files.listdir(directory)
    leftovers = [name for name in names if name.endswith(_LEFTOVERS)]
    for name in leftovers:
        if not name.endswith(SWAP_SUFFIX):
            files.unlink(f"{directory}/{name}")
    if any(name.endswith(SWAP_SUFFIX) for name in leftovers):
        _complete_swap(files, directory)
    return files.listdir(directory) if leftovers else names


def _complete_swap(files: Files, directory: str) -> None:
    """Completes a compaction: its segment replaces all that begin in its range of offsets, the log file
    first.

    If only an index still has the suffix, the log file has been renamed already.
    """
    names = files.listdir(directory)
    for name in names:
        base_offset = offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)
        if base_offset is None:
            continue
        swap = Segment(files, directory, base_offset, fresh=False, created_ms=0, ending=SWAP_SUFFIX)
        swap.size_bytes = files.status(f"{directory}/{name}").size_bytes
        end_offset = max(swap.load_tail() if swap.has_sane_indexes() else _end_of(swap), base_offset + 1)
        swap.close()
        for other in names:
            for suffix in SEGMENT_SUFFIXES:
                offset = offset_of(other, suffix)
                if offset is not None and base_offset <= offset < end_offset:
                    files.unlink(f"{directory}/{other}")
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    for name in names:
        if name.endswith(SWAP_SUFFIX) and offset_of(name, LOG_SUFFIX + SWAP_SUFFIX) is None:
            files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _end_of(segment: Segment) -> int:
    """The offset behind the last batch, which is found by reading all headers."""
    end_offset = segment.base_offset
    for _, header in segment.headers():
        end_offset = header.next_offset
    return end_offset
