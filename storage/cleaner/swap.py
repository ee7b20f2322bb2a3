"""Puts new segments in the place of old ones, so that a crash leaves either all of the new files or the old
ones.

    1. `.cleaned` becomes `.swap`      .log first: from here on the new segment counts
    2. the old files become `.deleted`
    3. `.swap` becomes the real name   .log first

A start that finds `.log.swap` files removes the segments in their range of offsets, and goes on with step 3.
A start that finds `.cleaned` files only removes them (`recovery`). Consumers that hold a slice read on from
the old file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from config.ports import Files
from storage.background_tasks import TaskKind
from storage.cleaner.job import CleanedGroup
from storage.errors import LogStorageError
from storage.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    segment_file,
)
from storage.retention import remove_file
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def swap_in(log: PartitionLog, group: CleanedGroup, now_ms: int) -> bool:
    """Puts a cleaned segment among the segments of the log. False if it, or one of those that it replaces, is
    not there any more.

    Raises OSError if the disk has refused the first rename, before which nothing has changed. Raises
    LogStorageError if it has refused a later one: the names of the files and the segments in memory may then
    differ, so the log must not be used any more.
    """
    first = log.segments.number_of(group.sources[0])
    old = log.segments[first : first + len(group.sources)]
    if [segment.base_offset for segment in old] != group.sources or old[-1] is log.active:
        return False
    base_offset = group.sources[0]
    if not _is_whole(log, group):
        return False
    _rename(log, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX, SEGMENT_SUFFIXES[:1])
    try:
        _rename(log, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX, SEGMENT_SUFFIXES[1:])
        _remove_old_files(log, old, now_ms)
        _rename(log, base_offset, SWAP_SUFFIX, "")
        segment = Segment(log.files, log.directory, base_offset, fresh=False, created_ms=now_ms)
        segment.adopt(group.size_bytes, group.max_timestamp, group.max_timestamp_offset)
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot take its compacted segments: {error}") from error
    log.segments.replace(first, len(group.sources), segment)
    log.background_tasks.add(
        TaskKind.SYNC, log.directory, log.directory, partial(_sync_names, log.files, log.directory)
    )
    log.durability.remove_snapshots(group.sources[1:])
    return True


def _remove_old_files(log: PartitionLog, old: list[Segment], now_ms: int) -> None:
    log.segments.remove_files(old, now_ms + log.config.file_delete_delay_ms)


def _is_whole(log: PartitionLog, group: CleanedGroup) -> bool:
    """Whether the files that the worker has written are there, and nobody has removed them since."""
    try:
        return log.files.status(_cleaned_path(log, group, LOG_SUFFIX)).size_bytes == group.size_bytes
    except FileNotFoundError:
        return False


def discard(log: PartitionLog, groups: list[CleanedGroup]) -> None:
    """Removes the files of a pass that is not used, in a background task."""
    for group in groups:
        for suffix in SEGMENT_SUFFIXES:
            path = _cleaned_path(log, group, suffix)
            log.background_tasks.add(
                TaskKind.REMOVE, path, log.directory, partial(remove_file, log.files, path)
            )


def _cleaned_path(log: PartitionLog, group: CleanedGroup, suffix: str) -> str:
    return f"{log.directory}/{segment_file(group.sources[0], suffix)}{CLEANED_SUFFIX}"


def _rename(
    log: PartitionLog,
    base_offset: int,
    old_ending: str,
    new_ending: str,
    suffixes: Sequence[str] = SEGMENT_SUFFIXES,
) -> None:
    for suffix in suffixes:
        path = f"{log.directory}/{segment_file(base_offset, suffix)}"
        if suffix == LOG_SUFFIX or log.files.exists(path + old_ending):
            log.files.rename(path + old_ending, path + new_ending)


def _sync_names(files: Files, directory: str) -> None:
    """Syncs the directory, in a helper thread: the new names are on the disk long before the old files are
    removed."""
    if files.exists(directory):
        files.fsync_directory(directory)
