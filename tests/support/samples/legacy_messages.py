"""Messages of the formats 0 and 1, as Apache Kafka has stored them before its release 0.11."""

from __future__ import annotations

import struct
import zlib


def legacy_message(magic: int, offset: int = 0, value: bytes = b"v", timestamp: int = 5) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
