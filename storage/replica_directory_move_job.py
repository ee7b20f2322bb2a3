"""Copies a log to another directory, a part at a time, in a worker process.

The plan names the present size of each segment. What the copy lacks of that is appended to it, up to a number
of bytes for each plan. The sealed indexes of a segment are copied too. Everything is synced before the
answer. The copy lies in `<topic>-<partition>.<32 hex>-future` until the broker puts it in the place of the
log.
"""

from __future__ import annotations

import errno
from typing import Final

import msgspec

from config.ports import File, Files
from storage.compaction_marker import COMPACTION_MARKER_FILE
from storage.file_io import write_fully
from storage.file_names import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    offset_of,
    segment_file,
)
from storage.jobs import Job, Pace

_PIECE_BYTES: Final = 1 << 20


class SegmentLength(msgspec.Struct, frozen=True):
    base_offset: int
    size_bytes: int
    is_sealed: bool


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """segments: the consecutive segments of the log at the time of the plan."""

    source: str
    target: str
    segments: list[SegmentLength]
    most_bytes: int


class MoveResult(msgspec.Struct, frozen=True):
    """copied: the number of bytes of each segment that are in the copy now, by base offset."""

    copied: dict[int, int]
    is_complete: bool
    """Whether everything is copied that the plan named."""


def move(files: Files, pace: Pace, plan: MovePlan) -> MoveResult:
    """Copies a part of a log. Raises OSError. A segment that retention has removed meanwhile is left out of
    the copy."""
    files.makedirs(plan.target)
    _copy_small(files, plan, PARTITION_METADATA)
    _copy_small(files, plan, COMPACTION_MARKER_FILE)
    room = plan.most_bytes
    copied: dict[int, int] = {}
    for segment in plan.segments:
        name = segment_file(segment.base_offset, LOG_SUFFIX)
        try:
            source = files.open(f"{plan.source}/{name}")
        except FileNotFoundError:
            continue
        target = files.open(f"{plan.target}/{name}", create=True)
        try:
            done = target.size()
            end = min(segment.size_bytes, done + room)
            _copy_range(source, target, done, end, pace)
            room -= max(end - done, 0)
        finally:
            source.close()
            target.close()
        copied[segment.base_offset] = end
        if end < segment.size_bytes:
            return MoveResult(copied, False)
        if segment.is_sealed:
            for suffix in SEGMENT_SUFFIXES[1:]:
                _copy_small(files, plan, segment_file(segment.base_offset, suffix))
    for name in files.listdir(plan.source):
        if offset_of(name, SNAPSHOT_SUFFIX) is not None:
            _copy_small(files, plan, name)
    files.fsync_directory(plan.target)
    return MoveResult(copied, True)


MOVE = Job("move", move, plan=MovePlan, result=MoveResult)


def _copy_range(source: File, target: File, start: int, end: int, pace: Pace) -> None:
    if start >= end:
        return
    while start < end:
        data = source.pread(min(_PIECE_BYTES, end - start), start)
        if not data:
            raise OSError(errno.EIO, "The segment ends before its end", source.path)
        write_fully(target, (data,), len(data), start, target.path)
        pace.worked(len(data))
        start += len(data)
    target.fdatasync()


def _copy_small(files: Files, plan: MovePlan, name: str) -> None:
    """Copies a whole file. One that is there already is kept, and one that is missing is left out."""
    target = f"{plan.target}/{name}"
    if files.exists(target):
        return
    try:
        data = files.read_bytes(f"{plan.source}/{name}")
    except FileNotFoundError:
        return
    files.write_atomically(target, data)
