"""What may go: segments that have expired, that exceed the size, or that lie below the log start.

Only whole segments go, from the oldest on, and only below the high watermark. A segment's age is that of
its youngest record (`retention.ms`; without any timestamp the file's own). The active segment goes too when
it has expired and nobody writes to it: a new one is begun first, so that quiet topics empty themselves as
well. Files are renamed at once and removed `file.delete.delay.ms` later; slices that are under way read on
from the open file.

What goes, why, and where the log begins afterwards is logged in Apache Kafka's words: operators look for
them. Of hundreds of segments that go at once only the first have lines of their own, where Kafka writes all;
of the files that are removed later it is the `.log`, the indexes are for who asks for DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from config.ports import Files
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.errors import LogStorageError
from storage.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from storage.segment import Segment
from storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog

SEGMENT_DELETION: Final = "segment deletion"
CLIENT_DELETES: Final = "client delete records request"
LEADER_INCREMENTS: Final = "leader offset increment"
SNAPSHOT_GENERATED: Final = "snapshot generated"
"""The reason that is logged when the start of the metadata log moves to a snapshot."""

LOGGED_SEGMENTS: Final = 8
"""The number of segments deleted together that have a line of their own in the log. The rest share one
line."""

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LOG_SUFFIX: "log",
        OFFSET_INDEX_SUFFIX: "offset index",
        TIME_INDEX_SUFFIX: "time index",
        TRANSACTION_INDEX_SUFFIX: "transaction index",
    }
)

_logger: Final = logging.getLogger("barnabas.storage")


def delete_old_segments(
    log: PartitionLog, now_ms: int, at_most: int | None = None, told: int = LOGGED_SEGMENTS
) -> int:
    """Deletes expired segments, and returns their number. at_most: the largest number to delete now. told:
    the number of them that are named in the log."""
    try:
        reasons = _deletable(log, now_ms, len(log.segments) if at_most is None else at_most)
        if len(reasons) == len(log.segments):
            log.roll(now_ms)
        gone = log.segments[: len(reasons)]
        if gone:
            lines = list(_words(log, gone, reasons, told))
            log.segments.remove_first(len(gone))
            log.increase_log_start(log.segments[0].base_offset, SEGMENT_DELETION)  # if a name is refused too
            for line in lines:
                _logger.info("%s%s", _named(log), line)
            log.segments.remove_files(gone, now_ms + log.config.file_delete_delay_ms)
            start = log.local_log_start_offset
            durability = log.durability
            durability.remove_snapshots([each for each in durability.snapshot_offsets if each < start])
    except OSError as error:
        raise LogStorageError(f"{log.directory} cannot be cleaned up: {error}") from error
    return len(gone)


def _deletable(log: PartitionLog, now_ms: int, at_most: int) -> list[str]:
    """The reasons for which the first segments may be deleted, one for each, in Kafka's order and words.

    An empty reason means that a segment lies below the log start.
    """
    config = log.config
    size_bytes = log.size_bytes
    reasons: list[str] = []
    for number, segment in enumerate(log.segments[:at_most]):
        is_active = segment is log.active
        end_offset = log.log_end_offset if is_active else log.segments[number + 1].base_offset
        if is_active and (not segment.size_bytes or log.appends.queue.prepared):
            break
        if end_offset > log.high_watermark:
            break
        left_bytes = size_bytes - segment.size_bytes
        if end_offset <= log.local_log_start_offset and not is_active:
            reasons.append("")
        elif config.delete and 0 <= config.retention_bytes <= left_bytes:
            reasons.append(
                f"log retention size {config.retention_bytes} breach. "
                f"Log size after deletion will be {left_bytes}."
            )
        elif config.delete and 0 <= config.retention_ms < now_ms - segment.youngest_ms():
            has_no_timestamp = segment.largest_timestamp() == NO_TIMESTAMP
            age = "last modified time of" if has_no_timestamp else "largest record timestamp in"
            reasons.append(
                f"log retention time {config.retention_ms}ms breach based on the {age} the segment"
            )
        else:
            break
        size_bytes = left_bytes
    return reasons


def log_new_start(log: PartitionLog, reason: str) -> None:
    """Logs that the log start has moved, in Kafka's words."""
    _logger.info("%sIncremented log start offset to %d due to %s", _named(log), log.log_start_offset, reason)


def _words(log: PartitionLog, gone: Sequence[Segment], reasons: Sequence[str], told: int) -> Iterator[str]:
    """Logs which segments are deleted and why, before they are. Only the first of many are named."""
    below = reasons.count("")
    if below and told:
        described = ",".join(_described(log, segment) for segment in gone[: min(below, told)])
        yield f"Deleting segments due to log start offset {log.log_start_offset} breach: {described}"
    for segment, reason in list(zip(gone, reasons, strict=True))[below:told]:
        yield f"Deleting segment {_described(log, segment)} due to {reason}"
    left = gone[told:]
    if left:
        size_bytes = sum(segment.size_bytes for segment in left)
        yield f"Deleting {len(left)} more segments, {size_bytes} bytes, up to {_described(log, left[-1])}"


def _named(log: PartitionLog) -> str:
    """The name of the log as lines of Kafka begin with it."""
    return f"[UnifiedLog partition={log.name}, dir={log.directory.rpartition('/')[0]}] "


def _described(log: PartitionLog, segment: Segment) -> str:
    """A segment as Kafka prints it. An error when the file is looked at does not prevent the deletion."""
    modified_ms, timestamp = 0, segment.max_timestamp
    with suppress(OSError):
        timestamp = segment.largest_timestamp()
        modified_ms = log.files.status(segment.path(LOG_SUFFIX)).modified_ms
    return (
        f"LogSegment(baseOffset={segment.base_offset}, size={segment.size_bytes}, "
        f"lastModifiedTime={modified_ms}, largestRecordTimestamp={timestamp})"
    )


def remove_files(
    files: Files,
    directory: str,
    background_tasks: BackgroundTasks,
    segments: Sequence[Segment],
    due_ms: int,
) -> None:
    """Renames the files of segments that have left the log in `directory`, and notes their removal.

    Raises OSError at the first that cannot be renamed; those behind it keep their names, so that a start that
    finds them finds no gap. None of them is open any more.
    """
    try:
        for segment in segments:
            for path in segment.mark_deleted():
                call = partial(_remove_deleted, files, path)
                background_tasks.add(TaskKind.REMOVE, path, directory, call, due_ms=due_ms)
    finally:
        for segment in segments:
            segment.close()


def _remove_deleted(files: Files, path: str) -> None:
    """Removes a file of a deleted segment, in a helper thread, and logs that in Kafka's words; for index
    files only at the level DEBUG."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return
    suffix = path.removesuffix(DELETED_SUFFIX).rpartition(".")[2]
    level = logging.INFO if suffix == "log" else logging.DEBUG
    _logger.log(level, "Deleted %s %s.", _KINDS.get(f".{suffix}", suffix), path)


def remove_file(files: Files, path: str) -> None:
    """Removes a file, in a helper thread. The whole directory may have been removed meanwhile."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return
