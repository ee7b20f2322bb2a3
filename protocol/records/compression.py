"""The five compression codecs of record batches, behind one table.

    number  name    levels (default)  what lies after the header
    0       none                      the records as they are
    1       gzip    1-9, -1 (-1)      gzip members (RFC 1952), usually one
    2       snappy                    xerial stream: 16 bytes of header, then blocks: int32 length, raw snappy
    3       lz4     1-17 (9)          LZ4 frame, independent blocks of 64 KB
    4       zstd    -131072-22 (3)    Zstandard frames

Snappy clients disagree: Java writes the stream of the snappy-java ("xerial") library, some others one raw
block; as Kafka does, both are read and the stream is written. Level 9 of lz4 means the fast compressor and
every other level the thorough one: Kafka's choice, kept so that a topic's setting costs here what it costs
there.

Compressed bytes come from strangers, and a few kilobytes may unfold into gigabytes. `decompress` therefore
takes the largest size that the caller wants to hold: output grows in steps and stops there with
BatchTooLarge. Libraries are imported when a codec is first met.

Chosen by measurement (tests/performance/records.py has the table): zlib, lz4 and zstandard each stream with a
bound and take views; python-snappy, whose blocks announce their size, is asked only after that size was
checked.
"""

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from protocol.records.errors import BatchTooLarge, InvalidRecord, UnsupportedCompression
from protocol.varint import MalformedVarint, read_unsigned

Buffer: TypeAlias = bytes | bytearray | memoryview

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

LAZY_CODECS: Final = (SNAPPY, LZ4, ZSTD)
"""The codecs whose library is imported with their first batch. That takes 3 to 20 ms, and 3 MiB for all
three."""

_FIRST_STEP_BYTES: Final = 64 * 1024
_LARGEST_STEP_BYTES: Final = 4 * 1024 * 1024
"""The most that a library returns, and is given, at once: what is left of the input is copied each time."""
GZIP_FIRST_BYTES: Final = 4 * 1024
"""The bytes that a further gzip member is given at first, because what is behind its end is copied."""
GZIP_MAGIC: Final = b"\x1f\x8b"
GZIP_WINDOW_BITS: Final = 31
XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
XERIAL_MAGIC: Final = XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = Struct(">I")
_LZ4_FAST_LEVEL: Final = 9
ZSTD_LARGEST_WINDOW_BYTES: Final = 1 << 27


class Codec(NamedTuple):
    """One compression codec: its number, its name and its functions."""

    number: int
    """The codec's number in bits 0-2 of the batch attributes."""
    name: str
    """The name in `compression.type`; a topic says `uncompressed` for `none`."""
    default_level: int
    compress: Callable[[Buffer, int], bytes]
    """`(data, level) -> bytes`; a level outside the codec's range is brought to its nearest end."""
    decompress: Callable[[Buffer, int], bytes]
    """Decompresses `(data, limit_bytes)` into bytes."""


def codec_named(name: str) -> Codec:
    """The codec that `compression.type` calls so; raises UnsupportedCompression for `producer` and other
    words."""
    wanted = "none" if name == "uncompressed" else name
    for codec in CODECS:
        if codec.name == wanted:
            return codec
    raise UnsupportedCompression(f"Unknown compression name: {name}")


def codec_numbered(number: int) -> Codec:
    """The codec with this number of the attribute bits. Raises UnsupportedCompression for 5 to 7, which are
    undefined."""
    if 0 <= number < len(CODECS):
        return CODECS[number]
    raise UnsupportedCompression(f"Unknown compression type id: {number}")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compresses the records of one batch."""
    row = codec_numbered(codec)
    return row.compress(data, row.default_level if level is None else level)


def decompress(codec: int, data: Buffer, limit_bytes: int) -> bytes:
    """The records of one batch, at most `limit_bytes` of them.

    Memory stays below twice the smaller of limit and result, plus one step (4 MiB) and what the codec's
    window needs. Raises BatchTooLarge beyond the limit, InvalidRecord for damaged data,
    UnsupportedCompression.
    """
    return codec_numbered(codec).decompress(data, limit_bytes)


def _collect(read: Callable[[int], bytes], limit_bytes: int) -> bytes:
    """Join what `read(at_most)` returns until it returns nothing; BatchTooLarge beyond the limit."""
    pieces: list[bytes] = []
    taken, step = 0, _FIRST_STEP_BYTES
    while piece := read(min(step, limit_bytes - taken + 1)):
        taken += len(piece)
        if taken > limit_bytes:
            raise too_large(limit_bytes)
        pieces.append(piece)
        step = min(2 * step, _LARGEST_STEP_BYTES)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def too_large(limit_bytes: int) -> BatchTooLarge:
    """The error for records that take more than `limit_bytes` when they are decompressed."""
    return BatchTooLarge(f"Decompressed records take more than {limit_bytes} bytes; send smaller batches")


def damaged(name: str, problem: object) -> InvalidRecord:
    """The error for bytes that are not in the format of the codec."""
    return InvalidRecord(f"Failed to decompress record stream: {name}: {problem}")


def _copy(data: Buffer, _level: int) -> bytes:
    return bytes(data)


def _copy_bounded(data: Buffer, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise too_large(limit_bytes)
    return bytes(data)


def _gzip(data: Buffer, level: int) -> bytes:
    stream = zlib.compressobj(max(-1, min(level, 9)), zlib.DEFLATED, GZIP_WINDOW_BITS)
    return stream.compress(data) + stream.flush()


def _gunzip(data: Buffer, limit_bytes: int) -> bytes:
    stream = zlib.decompressobj(GZIP_WINDOW_BITS)
    view = memoryview(data)
    position, step = 0, _LARGEST_STEP_BYTES

    def read(at_most: int) -> bytes:
        nonlocal stream, position, step
        while True:
            if stream.eof:
                if view[position : position + 2].tobytes() != GZIP_MAGIC:
                    return b""  # padding or other bytes after the last gzip member, which Kafka ignores
                stream, step = zlib.decompressobj(GZIP_WINDOW_BITS), GZIP_FIRST_BYTES
            given = view[position : position + step]
            piece = stream.decompress(given, at_most)
            left = stream.unused_data if stream.eof else stream.unconsumed_tail
            taken = len(given) - len(left)
            position, step = position + taken, min(2 * step, _LARGEST_STEP_BYTES)
            if piece:
                return piece
            if not stream.eof and not taken:
                raise damaged("gzip", "the data ends within a member")

    try:
        return _collect(read, limit_bytes)
    except zlib.error as error:
        raise damaged("gzip", error) from None


def _lz4(data: Buffer, level: int) -> bytes:
    import lz4.frame as lz4  # imported at the first lz4 batch

    native_level = 0 if level == _LZ4_FAST_LEVEL else max(3, min(level, 12))
    frame: bytes = lz4.compress(
        data,
        compression_level=native_level,
        block_size=lz4.BLOCKSIZE_MAX64KB,
        block_linked=False,  # Kafka's Java reader refuses blocks that refer to earlier blocks
        store_size=False,
    )
    return frame


def _unlz4(data: Buffer, limit_bytes: int) -> bytes:
    import lz4.frame as lz4  # imported at the first lz4 batch

    stream = lz4.LZ4FrameDecompressor()
    view, position = memoryview(data), 0

    def read(at_most: int) -> bytes:
        nonlocal position
        while not stream.eof:
            given: Buffer = b""
            if stream.needs_input:
                given = view[position : position + _LARGEST_STEP_BYTES]
                position += len(given)
                if not given:
                    raise damaged("lz4", "the data ends within the frame")
            piece: bytes = stream.decompress(given, max_length=at_most)
            if piece:
                return piece
        return b""

    try:
        return _collect(read, limit_bytes)
    except (RuntimeError, EOFError, ValueError) as error:
        raise damaged("lz4", error) from None


def _zstd(data: Buffer, level: int) -> bytes:
    import zstandard  # imported at the first zstd batch

    frame: bytes = zstandard.ZstdCompressor(level=max(-131072, min(level, 22))).compress(data)
    return frame


def _unzstd(data: Buffer, limit_bytes: int) -> bytes:
    """A frame that is cut off yields what it holds: the record count in the header tells that some are
    missing."""
    import zstandard  # imported at the first zstd batch

    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_LARGEST_WINDOW_BYTES).stream_reader(
        data, read_across_frames=True
    )
    try:
        return _collect(reader.read, limit_bytes)
    except zstandard.ZstdError as error:
        raise damaged("zstd", error) from None


def _snappy(data: Buffer, _level: int) -> bytes:
    import snappy  # imported at the first snappy batch

    view = memoryview(data)
    pieces: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block: bytes = snappy.compress(view[start : start + _XERIAL_BLOCK_BYTES])
        pieces.append(_BLOCK_LENGTH.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _unsnappy(data: Buffer, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if len(view) < len(XERIAL_HEADER) or view[:8] != XERIAL_MAGIC:
        return unsnappy_block(view, 0, limit_bytes)
    pieces: list[bytes] = []
    taken, position = 0, 0
    while position < len(view):
        if view[position : position + 8] == XERIAL_MAGIC:  # streams may follow one another
            position += len(XERIAL_HEADER)
            continue
        if len(view) - position < 4:
            raise damaged("snappy", "the data ends within the length of a block")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += 4
        if length > len(view) - position:
            raise damaged("snappy", f"a block of {length} bytes, {len(view) - position} are there")
        block = unsnappy_block(view[position : position + length], taken, limit_bytes)
        taken += len(block)
        pieces.append(block)
        position += length
    return b"".join(pieces)


def unsnappy_block(block: memoryview, taken: int, limit_bytes: int) -> bytes:
    """One raw block of snappy, behind others that took so many bytes of the limit."""
    import snappy  # imported at the first snappy batch

    try:
        announced, body = read_unsigned(block, 0)
    except MalformedVarint as error:
        raise damaged("snappy", error) from None
    if announced > limit_bytes - taken:
        raise too_large(limit_bytes)
    if announced > 64 * (len(block) - body):  # the format copies at most 64 bytes for each two
        raise damaged("snappy", f"a block of {len(block)} bytes announces {announced}")
    try:
        plain: bytes = snappy.decompress(block)
    except snappy.UncompressError as error:
        raise damaged("snappy", error.__cause__ or "damaged block") from None
    return plain


CODECS: Final = (
    Codec(NONE, "none", 0, _copy, _copy_bounded),
    Codec(GZIP, "gzip", -1, _gzip, _gunzip),
    Codec(SNAPPY, "snappy", 0, _snappy, _unsnappy),
    Codec(LZ4, "lz4", _LZ4_FAST_LEVEL, _lz4, _unlz4),
    Codec(ZSTD, "zstd", 3, _zstd, _unzstd),
)
