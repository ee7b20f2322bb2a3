"""The errors of record batches.

Each error is an answer for which Kafka has a code: it goes back to the producer for that partition alone, and
the connection stays open. `record_errors` names the offending records (KIP-467); it travels in Produce v8 and
newer.
"""

from typing import ClassVar, NamedTuple

from protocol.errors import ErrorCode


class RecordError(NamedTuple):
    """One record because of which its batch was refused."""

    batch_index: int
    """The position of the record in the batch, from 0."""
    message: str


class RecordsError(Exception):
    """A batch, or bytes that should have been one, cannot be accepted."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_RECORD

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class CorruptRecord(RecordsError):
    """The bytes are damaged: checksum, length or magic. Clients may retry."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE


class NoEntry(CorruptRecord):
    """Damaged so that it cannot even be told where a batch ends. The only such error whose text Kafka's
    broker sends to the client."""


class InvalidRecord(RecordsError):
    """The bytes are intact, but say what no client may say, or the records contradict their header."""


class InvalidTimestamp(RecordsError):
    """A timestamp is outside of the range that the topic allows."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_TIMESTAMP


class BatchTooLarge(RecordsError):
    """More bytes than `max.message.bytes`, or more after decompression than we are willing to hold."""

    code: ClassVar[ErrorCode] = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedCompression(RecordsError):
    """The version of the request, or Kafka itself, does not know the codec."""

    code: ClassVar[ErrorCode] = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
