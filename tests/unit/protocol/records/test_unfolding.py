"""Batches that unfold piece by piece: the same bytes as at once, the same refusals, and little memory."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard

from protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, XERIAL_HEADER, ZSTD, compress, decompress
from protocol.records.errors import BatchTooLarge, InvalidRecord, RecordsError, UnsupportedCompression
from protocol.records.unfolding import SMALL_AT_ONCE_BYTES, STEP_BYTES, TooMuchAtOnce, unfold
from tests.support.samples.bad_batches import bomb

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
LIMIT = 1 << 27
MIB = 1 << 20


def portions(data: bytes, sizes: Callable[[], int]) -> Callable[[int], bytes]:
    """A source that gives fewer bytes than it is asked for, as `sizes` says."""
    at = 0

    def read(at_most: int) -> bytes:
        nonlocal at
        piece = data[at : at + min(at_most, sizes())]
        at += len(piece)
        return piece

    return read


def pieces(
    codec: int, data: bytes, *, limit: int = LIMIT, at_once: int = 1 << 31, step: int = STEP_BYTES
) -> Iterator[bytes]:
    """What is unfolded, with the calls for helper threads made here."""
    steps = unfold(codec, portions(data, lambda: step), limit, at_once)
    sent: bytes | RecordsError | None = None
    while True:
        try:
            found = steps.send(sent)
        except StopIteration:
            return
        sent = None
        if isinstance(found, bytes):
            yield found
        else:
            sent = found()


def mixed(size_bytes: int, seed: int) -> bytes:
    """Some of it repeats itself, some does not."""
    random_source = random.Random(seed)
    parts: list[bytes] = []
    while sum(map(len, parts)) < size_bytes:
        parts.append(random_source.choice((random_source.randbytes(700), bytes(5000), b"abcdefgh" * 300)))
    return b"".join(parts)[:size_bytes]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size_bytes", [0, 1, 100, STEP_BYTES - 1, STEP_BYTES, 3 * STEP_BYTES + 7, MIB])
def test_the_same_bytes_as_at_once(codec: int, size_bytes: int) -> None:
    plain = mixed(size_bytes, size_bytes)
    packed = compress(codec, plain)
    for step in (1, 7, 1000, STEP_BYTES) if size_bytes < MIB else (STEP_BYTES,):
        assert b"".join(pieces(codec, packed, step=step)) == plain == decompress(codec, packed, LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_no_piece_is_large(codec: int) -> None:
    found = list(pieces(codec, compress(codec, mixed(4 * MIB, 1))))
    assert max(map(len, found)) <= STEP_BYTES
    assert len(found) >= 4 * MIB // STEP_BYTES


def test_streams_behind_each_other() -> None:
    first, second = mixed(70_000, 1), mixed(50_000, 2)
    for codec in (GZIP, ZSTD, SNAPPY):
        packed = compress(codec, first) + compress(codec, second)
        assert b"".join(pieces(codec, packed)) == first + second == decompress(codec, packed, LIMIT)
    rubbish = compress(GZIP, first) + bytes(100)
    assert b"".join(pieces(GZIP, rubbish, step=1)) == first == decompress(GZIP, rubbish, LIMIT)
    members = compress(GZIP, b"a") + compress(GZIP, bytes(10_000)) + compress(GZIP, b"b")
    assert b"".join(pieces(GZIP, members, step=1)) == b"a" + bytes(10_000) + b"b"
    small_blocks = XERIAL_HEADER + b"".join(
        len(block).to_bytes(4, "big") + block for block in (b"\x00", b"\x01\x00a", b"\x02\x04bc")
    )
    assert b"".join(pieces(SNAPPY, small_blocks, step=1)) == b"abc" == decompress(SNAPPY, small_blocks, LIMIT)


def test_one_raw_block_of_snappy() -> None:
    import snappy

    for size_bytes in (10, 300_000, 3 * MIB):
        plain = mixed(size_bytes, 5)
        assert b"".join(pieces(SNAPPY, snappy.compress(plain))) == plain


def damages(codec: int) -> Iterator[bytes]:
    packed = compress(codec, mixed(100_000, 3))
    yield b""
    yield b"\x17\x2a\x99" * 40
    yield packed[: len(packed) // 2]
    yield packed[:5]
    random_source = random.Random(codec)
    for _ in range(60):
        at = random_source.randrange(len(packed))
        yield packed[:at] + bytes([packed[at] ^ (1 << random_source.randrange(8))]) + packed[at + 1 :]


def outcome(call: Callable[[], bytes]) -> bytes | type[Exception]:
    try:
        return call()
    except RecordsError as error:
        return type(error)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_is_damaged_is_refused_as_it_is_at_once(codec: int) -> None:
    for number, data in enumerate(damages(codec)):
        expected = outcome(lambda: decompress(codec, data, LIMIT))  # noqa: B023
        assert outcome(lambda: b"".join(pieces(codec, data))) == expected, number  # noqa: B023


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_met_before_the_memory_is(codec: int) -> None:
    packed = bytes(bomb(codec, 64 * MIB)[61:]) if codec else bytes(64 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge):
            for _ in pieces(codec, packed, limit=MIB):
                pass
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


def test_what_needs_much_memory_says_so_before_it_takes_it() -> None:
    import snappy

    plain = mixed(MIB, 4)
    wide = zstandard.ZstdCompressionParameters.from_level(19, window_log=27)
    packed = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    large_window = packed.compress(plain) + packed.flush()
    large_block = snappy.compress(bytes(SMALL_AT_ONCE_BYTES + 1))
    for codec, data in ((ZSTD, large_window), (SNAPPY, large_block)):
        with pytest.raises(TooMuchAtOnce):
            list(pieces(codec, data, at_once=SMALL_AT_ONCE_BYTES))
        assert len(b"".join(pieces(codec, data))) == len(decompress(codec, data, LIMIT))
    usual = zstandard.ZstdCompressor(level=19).compressobj()
    data = usual.compress(plain) + usual.flush()
    assert b"".join(pieces(ZSTD, data, at_once=SMALL_AT_ONCE_BYTES)) == plain


def test_a_large_block_of_snappy_is_a_call_for_a_helper_thread() -> None:
    import snappy

    data = snappy.compress(mixed(MIB, 6))
    found = (each for each in unfold(SNAPPY, portions(data, lambda: STEP_BYTES), LIMIT) if each)
    call = next(found)
    assert callable(call)
    assert call() == mixed(MIB, 6)


def test_a_block_of_snappy_that_is_longer_than_its_content_can_be() -> None:
    """A hundred megabytes that say they are one byte are not read to their end."""
    read = 0

    def endless(at_most: int) -> bytes:
        nonlocal read
        read += at_most
        return b"\x01" * at_most

    with pytest.raises(InvalidRecord):
        list(unfold(SNAPPY, endless, LIMIT))
    assert read <= 2 * STEP_BYTES


def test_a_codec_that_nobody_has_defined() -> None:
    with pytest.raises(UnsupportedCompression):
        list(pieces(6, b""))


EMPTY_MEMBER = zlib.compressobj(9, zlib.DEFLATED, 31).flush()
EMPTY_FRAME = zstandard.ZstdCompressor().compress(b"")
NOTHING = {
    "members": (GZIP, b"", EMPTY_MEMBER, b"", 100),
    "a long file name": (GZIP, b"\x1f\x8b\x08\x08" + bytes(6), b"n", b"\0" + EMPTY_MEMBER[10:], 0),
    "stored blocks": (GZIP, EMPTY_MEMBER[:10], b"\0\0\0\xff\xff", EMPTY_MEMBER[10:], 0),
    "headers of streams": (SNAPPY, b"", XERIAL_HEADER, b"", 100),
    "blocks of nothing": (SNAPPY, XERIAL_HEADER, b"\0\0\0\1\0", b"", 0),
    "lz4 blocks": (LZ4, compress(LZ4, b"")[:-4], b"\0\0\0\x80", bytes(4), 0),
    "frames": (ZSTD, b"", EMPTY_FRAME, b"", 0),
    "skippable frames": (ZSTD, b"", b"\x50\x2a\x4d\x18" + bytes(4), b"", 0),
    "zstd blocks": (ZSTD, b"\x28\xb5\x2f\xfd\0\x58", bytes(3), b"\1\0\0", 0),
}
"""By name: codec, what comes first, what is repeated, what comes last, and after how many repetitions there
is a pause even if nothing is read; 0 if there need not be one."""


@pytest.mark.parametrize(("codec", "first", "repeated", "last", "between"), NOTHING.values(), ids=NOTHING)
def test_what_unfolds_into_nothing_pauses_as_often_as_it_reads(
    codec: int, first: bytes, repeated: bytes, last: bytes, between: int
) -> None:
    count = 10 * STEP_BYTES // len(repeated)
    data = first + repeated * count + last
    assert decompress(codec, data, LIMIT) == b""
    read = most = pauses = 0
    source = portions(data, lambda: STEP_BYTES)

    def counted(at_most: int) -> bytes:
        nonlocal read, most
        read += 1
        most = max(most, read)
        return source(at_most)

    for piece in unfold(codec, counted, LIMIT):
        assert piece == b""
        pauses, read = pauses + 1, 0
    assert most <= 2
    assert pauses >= (count // between if between else 10)


def test_what_comes_behind_nothing_is_not_lost() -> None:
    plain = mixed(100_000, 7)
    skipped = b"\x50\x2a\x4d\x18" + (2 * STEP_BYTES).to_bytes(4, "little") + bytes(2 * STEP_BYTES)
    for codec, nothing in ((GZIP, EMPTY_MEMBER * 5000), (SNAPPY, XERIAL_HEADER * 5000), (ZSTD, skipped)):
        packed = nothing + compress(codec, plain) + nothing + compress(codec, plain)
        for step in (1000, STEP_BYTES):
            assert b"".join(pieces(codec, packed, step=step)) == 2 * plain
