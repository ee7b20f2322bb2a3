"""What may go: segments that have expired, that exceed the size, or that lie below the log start.

Only whole segments go, from the oldest on, and only below the high watermark. A segment's age is that of
its youngest record (`retention.ms`; without any timestamp the file's own). The active segment goes too when
it has expired and nobody writes to it: a new one is begun first, so that quiet topics empty themselves as
well. Files are renamed at once and removed `file.delete.delay.ms` later; slices that are under way read on
from the open file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from config.ports import Files
from storage.errors import LogStorageError
from storage.file_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, segment_file
from storage.segment import Segment
from storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def delete_old_segments(log: PartitionLog, now_ms: int, at_most: int | None = None) -> int:
    """How many segments went. at_most: the rest is for the next time."""
    try:
        count = _deletable(log, now_ms, len(log.segments) if at_most is None else at_most)
        if count == len(log.segments):
            log.roll(now_ms)
        gone = log.segments[:count]
        if gone:
            del log.segments[:count]
            increase_log_start(log, log.segments[0].base_offset)  # also if the disk then refuses a name
            remove_files(log, gone, now_ms + log.config.file_delete_delay_ms)
            remove_snapshots(log, log.log_start_offset)
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot be cleaned up: {error}") from error
    return len(gone)


def _deletable(log: PartitionLog, now_ms: int, at_most: int) -> int:
    """The number of segments at the beginning that may go."""
    config = log.config
    size_bytes = log.size_bytes
    count = 0
    for number, segment in enumerate(log.segments[:at_most]):
        is_active = segment is log.active
        end_offset = log.log_end_offset if is_active else log.segments[number + 1].base_offset
        if is_active and (not segment.size_bytes or log.queue.prepared):
            break
        if end_offset > log.high_watermark:
            break
        too_old = config.delete and 0 <= config.retention_ms < now_ms - _youngest_ms(log, segment)
        too_much = config.delete and 0 <= config.retention_bytes <= size_bytes - segment.size_bytes
        below_start = end_offset <= log.log_start_offset and not is_active
        if not (too_old or too_much or below_start):
            break
        size_bytes -= segment.size_bytes
        count += 1
    return count


def _youngest_ms(log: PartitionLog, segment: Segment) -> int:
    timestamp = segment.largest_timestamp()
    if timestamp == NO_TIMESTAMP:
        return log.files.status(segment.path(LOG_SUFFIX)).modified_ms
    return timestamp


def increase_log_start(log: PartitionLog, offset: int) -> bool:
    """Moves the log start up to `offset`, at most to the high watermark; says whether it moved."""
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    log.high_watermark = max(log.high_watermark, offset)
    log.leader_epochs.truncate_from_start(offset)
    return True


def remove_files(log: PartitionLog, segments: Sequence[Segment], due_ms: int) -> None:
    """Renames the files of segments that have left the row, and notes their removal.

    Raises OSError at the first that cannot be renamed; those behind it keep their names, so that a start that
    finds them finds no gap. None of them is open any more.
    """
    try:
        for segment in segments:
            for path in segment.mark_deleted():
                call = partial(remove_file, log.files, path)
                log.chores.add(f"remove {path}", log.directory, call, due_ms=due_ms)
    finally:
        for segment in segments:
            segment.close()


def remove_file(files: Files, path: str) -> None:
    """For a helper thread. The whole directory may have gone meanwhile."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return


def remove_snapshots(log: PartitionLog, below_offset: int) -> None:
    """Notes the removal of producer snapshots that no segment needs any more; the newest one stays."""
    leaving = [offset for offset in log.snapshot_offsets[:-1] if offset < below_offset]
    for offset in leaving:
        log.snapshot_offsets.remove(offset)
        path = f"{log.directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"
        log.chores.add(f"remove {path}", log.directory, partial(remove_file, log.files, path))
