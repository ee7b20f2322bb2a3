"""What the log answers when it cannot do what it was asked.

An `AppendRefused` or `OffsetOutOfRange` goes to one client for one partition. A `LogStorageError` (an
OSError of the disk, or bytes in a segment that are no batch) concerns the partition; clients see
KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.records.errors import RecordError


class AppendRefused(Exception):
    """The batch was not taken; nothing has changed."""

    def __init__(
        self,
        error_code: ErrorCode,
        message: str,
        record_errors: tuple[RecordError, ...] = (),
        log_start_offset: int = -1,
    ) -> None:
        super().__init__(f"{error_code.name}: {message}")
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors
        self.log_start_offset = log_start_offset


class OffsetOutOfRange(Exception):
    """There is no such offset here; the numbers say where the log begins and ends."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"Offset {offset} is not in [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class LogStorageError(Exception):
    """The disk, or what lies on it, does not do its part. The text names file, place and remedy."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class CorruptSegment(LogStorageError):
    """Bytes in a segment that should be a batch and are not."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} has no valid record batch at byte {position}: {reason}")
        self.path = path
        self.position = position
