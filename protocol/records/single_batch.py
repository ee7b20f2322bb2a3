"""A Produce request carries exactly one batch of format 2 for each partition (KIP-98, since Produce v3).

Whether it does is the first thing that a broker looks at, and the cause of most surprises of home-made
clients: two batches joined, a batch cut short, an old message format, a length that counts from the wrong
place. Here are Kafka's verdicts on each; a batch that fills its field exactly never comes here.
"""

from struct import Struct
from typing import Final

from protocol.records.compression import ZSTD
from protocol.records.errors import (
    CorruptRecord,
    InvalidRecord,
    NoEntry,
    RecordsError,
    UnsupportedCompression,
)
from protocol.records.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, BatchHeader, ReadBuffer
from protocol.records.legacy import HEADER_UP_TO_MAGIC_BYTES, SMALLEST_MESSAGE_BYTES, magic_of

_LENGTH: Final = Struct(">i")
FIRST_VERSION_WITH_ZSTD: Final = 7


def too_short_for_a_batch(buffer: ReadBuffer, position: int, size_bytes: int, version: int) -> RecordsError:
    """The error for bytes that are too few for a batch header."""
    try:
        _require_whole_entry(buffer, position, size_bytes, version)
    except (CorruptRecord, InvalidRecord) as error:
        return error
    return CorruptRecord(f"Record batch is corrupt (the size {size_bytes} is smaller than {HEADER_BYTES})")


def require_one_batch(
    buffer: ReadBuffer, position: int, size_bytes: int, header: BatchHeader, version: int
) -> None:
    """Raise unless exactly one batch of format 2 stands here, with nothing behind it that is a batch."""
    _require_whole_entry(buffer, position, size_bytes, version)
    require_known_codec(header, version)
    batch_bytes = header.size_bytes
    rest = size_bytes - batch_bytes
    if rest < LOG_OVERHEAD_BYTES:
        return
    try:
        announced = _require_possible_entry(buffer, position + batch_bytes, rest)
    except NoEntry as error:
        raise CorruptRecord(error.message) from error
    if announced is not None and announced <= rest:
        raise InvalidRecord(
            f"Produce requests with version {version} are only allowed to contain exactly one record "
            "batch per partition"
        )


def require_known_codec(header: BatchHeader, version: int) -> None:
    """Refuses zstd in requests before version 7 of Produce, which introduced it (KIP-110)."""
    if header.codec == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompression(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )


def _require_whole_entry(buffer: ReadBuffer, position: int, size_bytes: int, version: int) -> None:
    announced = None
    if size_bytes >= LOG_OVERHEAD_BYTES:
        announced = _require_possible_entry(buffer, position, size_bytes)
    if announced is None or announced > size_bytes:
        raise InvalidRecord(
            f"Produce requests with version {version} must have at least one record batch per partition"
        )
    if magic_of(buffer, position) != MAGIC:
        raise InvalidRecord(
            f"Produce requests with version {version} are only allowed to contain record batches with magic "
            "version 2"
        )


def _require_possible_entry(buffer: ReadBuffer, position: int, available: int) -> int | None:
    """The size that the entry announces, or None if its magic is cut off. Raises CorruptRecord."""
    (length,) = _LENGTH.unpack_from(buffer, position + 8)
    if length < SMALLEST_MESSAGE_BYTES:
        raise NoEntry(
            f"Record size {length} is less than the minimum record overhead ({SMALLEST_MESSAGE_BYTES})"
        )
    if available < HEADER_UP_TO_MAGIC_BYTES:
        return None
    magic = magic_of(buffer, position)
    if magic not in (0, 1, MAGIC):
        raise NoEntry(f"Invalid magic found in record: {magic}")
    return int(length) + LOG_OVERHEAD_BYTES
