"""Batches as no decent client sends them: lies in the header, lies in the records, and bombs.

Each maker gives the bytes of one partition's records in a Produce request. Where a header field is changed
the checksum is renewed, so that the lie is all that is wrong.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final

from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from protocol.records.header import CONTROL_BIT, HEADER_BYTES, LOG_APPEND_TIME_BIT, seal
from protocol.varint import append_signed

Maker = Callable[[], bytes | bytearray]

FIELDS: Final[Mapping[str, tuple[int, Struct]]] = MappingProxyType(
    {
        "base_offset": (0, Struct(">q")),
        "batch_length": (8, Struct(">i")),
        "leader_epoch": (12, Struct(">i")),
        "magic": (16, Struct(">b")),
        "crc": (17, Struct(">I")),
        "attributes": (21, Struct(">h")),
        "last_offset_delta": (23, Struct(">i")),
        "base_timestamp": (27, Struct(">q")),
        "max_timestamp": (35, Struct(">q")),
        "producer_id": (43, Struct(">q")),
        "producer_epoch": (51, Struct(">h")),
        "base_sequence": (53, Struct(">i")),
        "record_count": (57, Struct(">i")),
    }
)
"""Where each field of the header is and how it is written."""


def now_ms() -> int:
    return int(time.time() * 1000)


def good(count: int = 3, *, codec: int = 0, key: bytes | None = b"k", value: bytes = b"value") -> bytearray:
    """A batch that nobody objects to."""
    at = now_ms()
    return build_batch([SimpleRecord(key, value, at + number) for number in range(count)], codec=codec)


def claims_append_time(*timestamps: int) -> bytearray:
    return lying(stamped(*timestamps) if timestamps else good(), attributes=LOG_APPEND_TIME_BIT)


def stamped(*timestamps: int) -> bytearray:
    return build_batch([SimpleRecord(b"k", b"v", timestamp) for timestamp in timestamps])


def lying(batch: bytearray | None = None, /, *, sealed: bool = True, **fields: int) -> bytearray:
    """A batch with other words in its header, and the checksum that belongs to them."""
    batch = good() if batch is None else batch
    for name, value in fields.items():
        position, layout = FIELDS[name]
        layout.pack_into(batch, position, value)
    if sealed and "crc" not in fields:
        seal(batch, 0, len(batch))
    return batch


def with_records(section: bytes | bytearray, count: int, *, attributes: int = 0) -> bytearray:
    """A good header in front of any bytes at all."""
    at = now_ms()
    batch = good(1)[:HEADER_BYTES] + section
    return lying(
        batch,
        batch_length=len(batch) - 12,
        attributes=attributes,
        last_offset_delta=count - 1,
        record_count=count,
        base_timestamp=at,
        max_timestamp=at,
    )


def plain_records(count: int = 3) -> bytearray:
    """The records of a good batch, without header."""
    return good(count)[HEADER_BYTES:]


def wrong_inner_length(change: int) -> bytearray:
    """The first record says that it is longer or shorter than it is."""
    section = plain_records()
    section[0] += 2 * change  # zigzag
    return with_records(section, 3)


def negative_record_length() -> bytearray:
    section = plain_records()
    section[0] = 1  # zigzag of -1
    return with_records(section, 3)


def endless_varint() -> bytearray:
    return with_records(b"\xff" * 30, 1)


def record_with(key_length: int, header_count: int = 0) -> bytearray:
    """One record whose key or headers announce what is not there."""
    body = bytearray(b"\0\0\0")
    append_signed(body, key_length)
    body += b"key"
    append_signed(body, 1)
    body += b"v"
    append_signed(body, header_count)
    section = bytearray()
    append_signed(section, len(body))
    return with_records(section + body, 1)


def unsequential(codec: int = 0) -> bytearray:
    """Offset deltas 0, 5, 2 in the records, an honest count in the header."""
    section = bytearray()
    for delta in (0, 5, 2):
        body = bytearray(b"\0\0")
        append_signed(body, delta)
        body += b"\x02k\x02v\0"
        append_signed(section, len(body))
        section += body
    return with_records(compress(codec, section) if codec else section, 3, attributes=codec)


def control() -> bytearray:
    """A batch that claims to be the broker's own word to its followers, but for the transaction."""
    at = now_ms()
    return lying(build_batch([SimpleRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", at)]), attributes=CONTROL_BIT)


def cut_stream(codec: int) -> bytearray:
    """Compressed records that end in the middle."""
    section = compress(codec, plain_records(500))
    return with_records(section[: len(section) // 2], 500, attributes=codec)


def random_stream(codec: int) -> bytearray:
    return with_records(b"\x17\x2a\x99" * 40, 3, attributes=codec)


def bomb(codec: int, size_bytes: int) -> bytearray:
    """One record of zeros that takes few bytes on the way and `size_bytes` when it arrives."""
    body = bytearray(b"\0\0\0\x01")
    append_signed(body, size_bytes)
    start = bytearray()
    append_signed(start, len(body) + size_bytes + 1)
    start += body
    return with_records(_compressed_zeros(codec, bytes(start), size_bytes), 1, attributes=codec)


def many_headers(codec: int, count: int, *, has_key: bool = True, offset_delta: int = 0) -> bytearray:
    """One record of so many headers, each of an empty name and no value: two bytes."""
    body = bytearray(b"\0\0")
    append_signed(body, offset_delta)
    body += b"\x02k\x01" if has_key else b"\x01\x01"
    append_signed(body, count)
    body += b"\0\1" * count
    section = bytearray()
    append_signed(section, len(body))
    section += body
    return with_records(compress(codec, section), 1, attributes=codec)


def crowded(codec: int, count: int, *, promise_ms: int = 1000, at: int | None = None) -> bytearray:
    """So many of the smallest records there are, all of one time; the header promises a later one."""
    section = compress(codec, b"\x0c\0\0\0\x01\x01\0" * count)
    first = now_ms() if at is None else at
    return lying(
        with_records(section, count, attributes=codec), base_timestamp=first, max_timestamp=first + promise_ms
    )


def _compressed_zeros(codec: int, start: bytes, size_bytes: int) -> bytes:
    if codec == SNAPPY:
        block = compress(SNAPPY, start + bytes(32 * 1024 - len(start)))
        rest = compress(SNAPPY, bytes(32 * 1024))[16:]
        return block + rest * (size_bytes // (32 * 1024))
    if codec == GZIP:
        stream = zlib.compressobj(1, zlib.DEFLATED, 31)
        parts = [stream.compress(start)]
        parts += [stream.compress(bytes(1 << 20)) for _ in range(size_bytes >> 20)]
        return b"".join([*parts, stream.compress(b"\0"), stream.flush()])
    if codec == ZSTD:
        import zstandard

        zstd = zstandard.ZstdCompressor(level=3).compressobj()
        parts = [zstd.compress(start)]
        parts += [zstd.compress(bytes(1 << 20)) for _ in range(size_bytes >> 20)]
        return b"".join([*parts, zstd.compress(b"\0"), zstd.flush()])
    return compress(LZ4, start + bytes(size_bytes + 1), 9)
