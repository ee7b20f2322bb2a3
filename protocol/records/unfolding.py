"""The records of a batch as they unfold, piece by piece: nobody need hold all of them.

A batch of a few kilobytes may unfold into a hundred megabytes. Who only looks for something in it reads it
from its file and has it unfolded in steps, and can stop at any of them.

How much memory a batch takes on the way is for its codec to say. gzip, lz4 and most of zstd stay small; a
zstd frame may ask for a window of 128 MiB, and a block of snappy unfolds as a whole or not at all. Whoever
does not want that much says so and gets `TooMuchAtOnce` before the memory is taken.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Mapping
from functools import partial
from struct import Struct
from types import MappingProxyType
from typing import Final, TypeAlias

from protocol.errors import InvariantViolated
from protocol.records.compression import (
    GZIP,
    GZIP_FIRST_BYTES,
    GZIP_MAGIC,
    GZIP_WINDOW_BITS,
    LZ4,
    NONE,
    SNAPPY,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    ZSTD,
    ZSTD_LARGEST_WINDOW_BYTES,
    codec_numbered,
    damaged,
    too_large,
    unsnappy_block,
)
from protocol.records.errors import RecordsError
from protocol.varint import MalformedVarint, read_unsigned

Source: TypeAlias = Callable[[int], bytes]
"""Reads on: the next bytes of a batch's records, at most so many, none at their end."""

Pieces: TypeAlias = Generator[bytes | Callable[[], bytes | RecordsError], bytes | RecordsError | None, None]
"""Yields bytes, or a call for a helper thread, whose result it is sent: it takes too long for a loop.

An empty piece is a pause. There is one at least for each `STEP_BYTES` that are read, since any number of them
may unfold into nothing.
"""

STEP_BYTES: Final = 32 * 1024
"""The number of bytes that are read, and decompressed, in one step."""

SMALL_AT_ONCE_BYTES: Final = 8 << 20
"""The memory that a batch may take which shares it with many others: zstd's window up to level 19."""

_LONG_CALL_BYTES: Final = 256 * 1024
"""A snappy block that decompresses into more than this is decompressed by a helper thread."""

_STARTS_PER_STEP: Final = 100
"""The number of gzip members, or of headers of snappy streams, after which there is a pause if they are
empty."""

_BLOCK_LENGTH: Final = Struct(">I")
_VARINT_BYTES: Final = 5
_SNAPPY_OVERHEAD_BYTES: Final = 32
"""A compressed block is never longer than its content by more than a sixth and this."""


class TooMuchAtOnce(Exception):
    """The batch cannot be decompressed within the memory that is allowed."""


def unfold(
    codec: int, source: Source, limit_bytes: int, at_once_bytes: int = ZSTD_LARGEST_WINDOW_BYTES
) -> Pieces:
    """The records of a batch, at most `limit_bytes` of them, with a working memory of `at_once_bytes`.

    Raises what `compression.decompress` raises, TooMuchAtOnce, and what `source` raises.
    """
    unfolded_bytes = 0
    for found in _READERS[codec_numbered(codec).number](source, limit_bytes, at_once_bytes):
        piece = found if isinstance(found, bytes) else (yield found)
        if isinstance(piece, RecordsError):
            raise piece
        if piece is None:
            raise InvariantViolated("who asks for a batch in pieces sends back what a call has given")
        unfolded_bytes += len(piece)
        if unfolded_bytes > limit_bytes:
            raise too_large(limit_bytes)
        yield piece


_Found: TypeAlias = Generator[bytes | Callable[[], bytes | RecordsError], None, None]


def _plain(source: Source, limit_bytes: int, at_once_bytes: int) -> _Found:
    while piece := source(STEP_BYTES):
        yield piece


def _gzip(source: Source, limit_bytes: int, at_once_bytes: int) -> _Found:
    stream, members = zlib.decompressobj(GZIP_WINDOW_BITS), 1
    held, position, step = source(STEP_BYTES), 0, STEP_BYTES
    try:
        while True:
            given = held[position : position + step]
            piece = stream.decompress(given, STEP_BYTES)
            left = stream.unused_data if stream.eof else stream.unconsumed_tail
            position, step = position + len(given) - len(left), STEP_BYTES
            if piece:
                yield piece
            if stream.eof:
                while len(held) - position < len(GZIP_MAGIC) and (more := source(STEP_BYTES)):
                    held, position = held[position:] + more, 0
                if not held.startswith(GZIP_MAGIC, position):
                    return  # padding or other bytes after the last gzip member, which Kafka ignores
                stream, members, step = zlib.decompressobj(GZIP_WINDOW_BITS), members + 1, GZIP_FIRST_BYTES
                if members % _STARTS_PER_STEP == 0:
                    yield b""
            elif not piece and position == len(held):
                held, position = source(STEP_BYTES), 0
                if not held:
                    raise damaged("gzip", "the data ends within a member")
                yield b""
    except zlib.error as error:
        raise damaged("gzip", error) from None


def _lz4(source: Source, limit_bytes: int, at_once_bytes: int) -> _Found:
    import lz4.frame as lz4  # imported at the first lz4 batch

    stream = lz4.LZ4FrameDecompressor()
    try:
        while not stream.eof:
            data = b""
            if stream.needs_input:
                data = source(STEP_BYTES)
                if not data:
                    raise damaged("lz4", "the data ends within the frame")
            piece: bytes = stream.decompress(data, max_length=STEP_BYTES)
            yield piece
    except (RuntimeError, EOFError, ValueError) as error:
        raise damaged("lz4", error) from None


class _Paused(Exception):
    """Nothing has come of what was read."""


class _Readable:
    """The source of compressed bytes as a file object that can be read once, and then when it is `ready`
    again. In between it raises `_Paused`."""

    __slots__ = ("_source", "ready")

    def __init__(self, source: Source) -> None:
        self._source = source
        self.ready = True

    def read(self, count: int) -> bytes:
        if not self.ready:
            raise _Paused
        self.ready = False
        return self._source(count)


def _zstd(source: Source, limit_bytes: int, at_once_bytes: int) -> _Found:
    import zstandard  # imported at the first zstd batch

    window_bytes = min(at_once_bytes, ZSTD_LARGEST_WINDOW_BYTES)
    readable = _Readable(source)
    reader = zstandard.ZstdDecompressor(max_window_size=window_bytes).stream_reader(
        readable,  # type: ignore[arg-type]  # all that is asked of a file is `read`
        read_size=STEP_BYTES,
        read_across_frames=True,
    )
    try:
        while True:
            readable.ready = True
            try:
                # It asks for more only as long as it has nothing to return, so nothing is lost in a pause.
                piece = reader.read1(STEP_BYTES)
            except _Paused:
                yield b""
                continue
            if not piece:
                return
            yield piece
    except zstandard.ZstdError as error:
        if window_bytes < ZSTD_LARGEST_WINDOW_BYTES and "too much memory" in str(error):
            raise TooMuchAtOnce from None
        raise damaged("zstd", error) from None


def _snappy(source: Source, limit_bytes: int, at_once_bytes: int) -> _Found:
    rest = _Input(source)
    if not rest.peek(len(XERIAL_HEADER)).startswith(XERIAL_MAGIC):
        yield from _snappy_block(rest, None, 0, limit_bytes, at_once_bytes)
        return
    taken = headers = 0
    while start := rest.peek(len(XERIAL_MAGIC)):
        if start == XERIAL_MAGIC:  # streams may follow one another
            yield from rest.take(len(XERIAL_HEADER))
            headers += 1
            if headers % _STARTS_PER_STEP == 0:
                yield b""
            continue
        if len(start) < _BLOCK_LENGTH.size:
            raise damaged("snappy", "the data ends within the length of a block")
        (length,) = _BLOCK_LENGTH.unpack((yield from rest.take(_BLOCK_LENGTH.size)))
        taken += yield from _snappy_block(rest, length, taken, limit_bytes, at_once_bytes)


def _snappy_block(
    rest: _Input, length: int | None, taken: int, limit_bytes: int, at_once_bytes: int
) -> Generator[bytes | Callable[[], bytes | RecordsError], None, int]:
    """Decompresses one raw snappy block: yields its bytes and returns their number."""
    try:
        announced, _ = read_unsigned(rest.peek(_VARINT_BYTES if length is None else min(length, 5)), 0)
    except MalformedVarint as error:
        raise damaged("snappy", error) from None
    if announced > limit_bytes - taken:
        raise too_large(limit_bytes)
    if announced > at_once_bytes:
        raise TooMuchAtOnce
    largest = _SNAPPY_OVERHEAD_BYTES + announced + announced // 6
    block = yield from rest.take(largest + 1 if length is None else min(length, largest + 1))
    if len(block) > largest:
        raise damaged("snappy", f"more than {largest} bytes are to unfold into {announced}")
    if length is not None and len(block) < length:
        raise damaged("snappy", f"a block of {length} bytes, {len(block)} are there")
    call = partial(unsnappy_block, memoryview(block), taken, limit_bytes)
    yield call() if announced <= _LONG_CALL_BYTES else partial(_or_problem, call)
    return announced


def _or_problem(call: Callable[[], bytes]) -> bytes | RecordsError:
    try:
        return call()
    except RecordsError as problem:
        return problem


class _Input:
    """A source whose next bytes can be looked at before they are taken."""

    __slots__ = ("_held", "_position", "_source")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._held = b""
        self._position = 0

    def peek(self, count: int) -> bytes:
        """The next `count` bytes without taking them; fewer only at the end of the source. `count` should be
        small."""
        while len(self._held) - self._position < count and (more := self._source(STEP_BYTES)):
            self._held, self._position = self._held[self._position :] + more, 0
        return self._held[self._position : self._position + count]

    def take(self, count: int) -> Generator[bytes, None, bytes]:
        """The next bytes, fewer only at the end; a pause (an empty piece) after each step."""
        parts = [self._held[self._position : self._position + count]]
        self._position += len(parts[0])
        missing = count - len(parts[0])
        while missing and (more := self._source(min(STEP_BYTES, missing))):
            parts.append(more)
            missing -= len(more)
            yield b""
        return parts[0] if len(parts) == 1 else b"".join(parts)


_READERS: Final[Mapping[int, Callable[[Source, int, int], _Found]]] = MappingProxyType(
    {NONE: _plain, GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
)
