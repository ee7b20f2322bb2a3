"""The header of a record batch, 61 bytes, big endian.

     byte  size  field
        0     8  base offset            ┐ set by the leader,
        8     4  batch length           │ not under the checksum
       12     4  partition leader epoch │
       16     1  magic (2)              │
       17     4  crc                    ┘
       21     2  attributes             ┐
       23     4  last offset delta      │
       27     8  base timestamp         │
       35     8  max timestamp          │ CRC-32C
       43     8  producer id            │
       51     2  producer epoch         │
       53     4  base sequence          │
       57     4  record count           │
       61     …  records                ┘ compressed as one block if there is a codec

    attributes   bits 0-2  codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
                 bit  3    timestamp type: 0 CreateTime, 1 LogAppendTime
                 bit  4    part of a transaction
                 bit  5    control batch (transaction markers, quorum records)
                 bit  6    base timestamp holds the delete horizon (set by the cleaner)

`batch length` counts the bytes after itself, so a batch takes 12 more. The broker's own two fields, base
offset and leader epoch, lie outside the checksum: a leader patches them in place and nothing else moves.
Everything from the attributes on belongs to the producer; changing the timestamps costs a new checksum.

Layout: KIP-98. Delete horizon: KIP-534.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

import msgspec

from protocol.crc import crc32c
from protocol.records.errors import CorruptRecord

ReadBuffer: TypeAlias = bytes | bytearray | memoryview
WriteBuffer: TypeAlias = bytearray | memoryview

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and batch length: what must be read to know how long a batch is, in every message format."""
CRC_START: Final = 21
"""The position of the first byte that the checksum covers."""
MAGIC_POSITION: Final = 16
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
_KEPT_BITS: Final = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
"""The attributes that stay as they are when the timestamps change."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_PLACE: Final = Struct(">qii")
"""Base offset, batch length, leader epoch."""
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_CREATE_TIME: Final = 0
_LOG_APPEND_TIME: Final = 1


class BatchHeader(msgspec.Struct, gc=False):
    """The thirteen fields of a batch header as they stand in the buffer; none of them has been checked."""

    base_offset: int
    batch_length: int
    """The number of bytes after this field, which is the size of the batch less 12."""
    partition_leader_epoch: int
    """The leader epoch of the append; -1 in batches that clients send."""
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    """Last offset less base offset. Compaction keeps it while it removes records."""
    base_timestamp: int
    """Milliseconds; the deltas of the records count from here. The delete horizon if `has_delete_horizon`."""
    max_timestamp: int
    """The largest timestamp of the records, or the append time if the type is LogAppendTime."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the compression codec, 0 to 7; see `compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """The type of the batch's timestamps: 0 for CreateTime, 1 for LogAppendTime."""
        return _LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else _CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers wrap from 2147483647 to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: ReadBuffer, position: int = 0) -> BatchHeader:
    """The header at `position`.

    Raises CorruptRecord if the buffer ends before it does, if the magic is not 2 or the length less than a
    header's. That the records are all there, and the checksum, is for the caller (`is_intact`).
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        raise CorruptRecord(
            f"Record batch at byte {position} is cut off: its header needs {HEADER_BYTES} bytes, "
            f"{max(len(buffer) - position, 0)} are there"
        )
    header = BatchHeader(*HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptRecord(f"Invalid magic found in record: {header.magic}")
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise CorruptRecord(
            f"Record batch is corrupt (the size {header.size_bytes} is smaller than the minimum allowed "
            f"overhead {HEADER_BYTES})"
        )
    return header


def headers(buffer: ReadBuffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each complete batch from `position` on.

    Fetched and stored batches come one after another, and the last may be cut off anywhere: it is left out.
    Raises CorruptRecord where the bytes are no batch (see `read_header`).
    """
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        after = position + header.size_bytes
        if after > end:
            return
        yield position, header
        position = after


def is_intact(buffer: ReadBuffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch lies in the buffer as a whole and its bytes have the stored checksum."""
    end = position + header.batch_length + LOG_OVERHEAD_BYTES
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES or end > len(buffer):
        return False
    return bool(crc32c(memoryview(buffer)[position + CRC_START : end]) == header.crc)


def patch_offset_and_epoch(buffer: WriteBuffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log; the checksum does not cover these two fields."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _LENGTH.pack_into(buffer, position + 12, leader_epoch)


patch_place: Final = _PLACE.pack_into
"""`patch_offset_and_epoch` for who knows the length field, which stays what it is, in one call: of a buffer,
the batch's position in it, base offset, length field and leader epoch."""


def patch_timestamps(
    buffer: WriteBuffer, position: int, size_bytes: int, *, max_timestamp: int, log_append_time: bool
) -> int:
    """Set the largest timestamp and the timestamp type, and return the new checksum.

    With LogAppendTime readers take the maximum for every record; base timestamp and deltas stay as they are.
    Nothing is written if both already have these values (then the stored checksum is returned); if they have
    not, bits of the attributes that mean nothing are cleared, as in Kafka.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + 21)
    (current,) = _OFFSET.unpack_from(buffer, position + 35)
    wanted_bit = LOG_APPEND_TIME_BIT if log_append_time else 0
    if wanted_bit == attributes & LOG_APPEND_TIME_BIT and current == max_timestamp:
        (stored,) = _CRC.unpack_from(buffer, position + 17)
        return int(stored)
    _ATTRIBUTES.pack_into(buffer, position + 21, attributes & _KEPT_BITS | wanted_bit)
    _OFFSET.pack_into(buffer, position + 35, max_timestamp)
    return seal(buffer, position, size_bytes)


def seal(buffer: WriteBuffer, position: int, size_bytes: int) -> int:
    """Compute and store the checksum of a batch whose other bytes are final; returns it."""
    checksum = int(crc32c(memoryview(buffer)[position + CRC_START : position + size_bytes]))
    _CRC.pack_into(buffer, position + 17, checksum)
    return checksum
