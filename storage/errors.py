"""The errors of a log that cannot do what it was asked for.

An `AppendRefused` or `OffsetOutOfRange` goes to one client for one partition. A `LogStorageError` (an OSError
of the disk, or bytes in a segment that are no batch) concerns the partition; clients see KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from protocol.errors import ErrorCode, invariant
from protocol.records.errors import RecordError

if TYPE_CHECKING:
    from storage.append import AppendResult


class AppendRefused(Exception):
    """The batch was not appended, and nothing has changed. The code is never NONE."""

    def __init__(
        self,
        error_code: ErrorCode,
        message: str,
        record_errors: tuple[RecordError, ...] = (),
        log_start_offset: int = -1,
        *,
        is_told: bool = False,
    ) -> None:
        super().__init__(f"{error_code.name}: {message}")
        invariant(error_code is not ErrorCode.NONE, "A refused batch has an error", message=message)
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors
        self.log_start_offset = log_start_offset
        self.is_told = is_told or bool(record_errors)
        """Whether the client gets the text too. Kafka sends it with few errors only."""


class OffsetOutOfRange(Exception):
    """The log has no such offset. The numbers say where it begins and ends."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"Offset {offset} is not in [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class LogStorageError(Exception):
    """The disk has failed, or its content is damaged. The text names the file, the place and the remedy."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class NoSpaceLeft(LogStorageError):
    """The disk has no space for what opening a log writes. It can be tried again later."""


_OF_A_FULL_DISK: Final = (errno.ENOSPC, errno.EDQUOT)


def is_out_of_space(error: BaseException | None) -> bool:
    """Whether an error or its cause says that the disk or a quota is full."""
    while error is not None:
        if isinstance(error, NoSpaceLeft) or (isinstance(error, OSError) and error.errno in _OF_A_FULL_DISK):
            return True
        error = error.__cause__
    return False


class CommitStopped(LogStorageError):
    """The indexes of a full segment could not be written. Prepared batches that are not in `results` are not
    in the log."""

    def __init__(self, message: str, results: Sequence[AppendResult]) -> None:
        super().__init__(message)
        self.results = results
        """The results of the batches that are in the log nevertheless, in order."""


class CorruptSegment(LogStorageError):
    """Bytes in a segment that should be a batch are none."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} has no valid record batch at byte {position}: {reason}")
        self.path = path
        self.position = position


class LegacyFormat(LogStorageError):
    """A segment holds records of message format 0 or 1. They are valid: such a log is refused, never cut."""

    def __init__(self, path: str, position: int, magic: int | None) -> None:
        super().__init__(
            f"{path} holds records of format {magic} at byte {position}, which this release does not read; "
            "nothing was removed"
        )


class DamagedLog(LogStorageError):
    """Bytes are no batch, and valid batches follow them. A disk leaves this if it changes what was written,
    and so does a power cut where nothing was synced. The death of a process alone does not."""

    def __init__(
        self,
        path: str,
        position: int,
        offset: int,
        next_path: str,
        next_position: int,
        next_offset: int,
        directory: str,
        *,
        was_synced: bool,
    ) -> None:
        """path, position, offset: the place where a batch should be. next_…: the place of the next valid one.
        was_synced: the damage lies below the recovery point."""
        where = f"byte {next_position}" if next_path == path else f"byte {next_position} of {next_path}"
        self.what = (
            f"{path} is damaged: no valid record batch at byte {position}, where offset {offset} should be, "
            f"and a valid one behind it, at {where} with offset {next_offset}"
        )
        self.was_synced = was_synced
        self.cause = (
            "It had been synced, so the disk has changed it"
            if was_synced
            else "It was not known to be synced: after a power cut a sound disk can show this too"
        )
        super().__init__(
            f"{self.what}. {self.cause}. Nothing was removed. `barnabas log repair {directory}` shows what "
            "can be kept, and keeps it with --yes while the broker is stopped; "
            "barnabas.recovery.corrupt=truncate cuts such logs at that place, as Apache Kafka does"
        )
        self.path = path
        self.position = position
