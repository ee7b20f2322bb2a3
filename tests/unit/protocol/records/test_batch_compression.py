"""The codecs: round trips, levels, foreign forms, damaged data and bombs."""

import contextlib
import gzip
import subprocess
import sys
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard

from protocol.records.compression import CODECS, GZIP, LZ4, SNAPPY, ZSTD, codec_named, compress, decompress
from protocol.records.errors import BatchTooLarge, InvalidRecord, RecordsError, UnsupportedCompression

TEXT = b"".join(b"line %d of a text that repeats itself; " % (i % 50) for i in range(5000))
LIMIT = len(TEXT)
EACH = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
EACH_COMPRESSING = pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name)
GIBIBYTE = 1 << 30


@EACH
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "text"])
def test_what_goes_in_comes_out(codec: Any, data: bytes) -> None:
    for form in (bytes, bytearray, memoryview):
        packed = compress(codec.number, form(data))
        assert decompress(codec.number, form(packed), len(data)) == data
    if codec.number and data is TEXT:
        assert len(compress(codec.number, data)) < len(data) / 4


@EACH_COMPRESSING
@pytest.mark.parametrize("level", [-(2**31), -1, 0, 1, 2, 3, 9, 17, 22, 2**31])
def test_any_level_is_brought_into_the_codecs_range(codec: Any, level: int) -> None:
    assert decompress(codec.number, compress(codec.number, TEXT[:3000], level), LIMIT) == TEXT[:3000]


def test_levels_have_an_effect() -> None:
    assert len(compress(GZIP, TEXT, 9)) < len(compress(GZIP, TEXT, 1))
    assert len(compress(ZSTD, TEXT, 19)) < len(compress(ZSTD, TEXT, -100))
    assert len(compress(LZ4, TEXT, 17)) < len(compress(LZ4, TEXT, 9)), "9 is the fast compressor, as in Kafka"


@EACH_COMPRESSING
def test_one_byte_less_than_needed_is_refused(codec: Any) -> None:
    packed = compress(codec.number, TEXT)
    with pytest.raises(BatchTooLarge, match=f"more than {LIMIT - 1} bytes"):
        decompress(codec.number, packed, LIMIT - 1)
    with pytest.raises(BatchTooLarge):
        decompress(codec.number, packed, 0)


def test_several_members_frames_and_streams_follow_one_another() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), 100) == b"one two"
    assert decompress(ZSTD, zstandard.compress(b"one ") + zstandard.compress(b"two"), 100) == b"one two"
    assert decompress(SNAPPY, compress(SNAPPY, b"one ") + compress(SNAPPY, b"two"), 100) == b"one two"
    assert decompress(GZIP, gzip.compress(b"one") + bytes(8), 100) == b"one", "zeros behind it are padding"


def test_many_members_are_read_to_the_last_wherever_the_pieces_end() -> None:
    """Sizes around those of the pieces in which gzip is fed, and empty members among them."""
    parts = [TEXT[:size] for size in (0, 1, 300, 0, 4 * 1024, 30_000, 0, 0, 100_000)] * 7 + [b""] * 3000
    members = [gzip.compress(part, level) for part in parts for level in (0, 6)]
    whole = b"".join(part * 2 for part in parts)
    assert decompress(GZIP, b"".join(members), len(whole)) == whole
    assert decompress(GZIP, b"".join(members) + b"\x1f", len(whole)) == whole
    for cut in (1, 9, 17):
        with pytest.raises(InvalidRecord, match="the data ends within a member"):
            decompress(GZIP, b"".join(members)[:-cut], len(whole))


def test_snappy_is_read_raw_and_written_as_java_frames_it() -> None:
    assert decompress(SNAPPY, snappy.compress(TEXT), LIMIT) == TEXT
    framed = compress(SNAPPY, TEXT)
    assert framed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    first_block = int.from_bytes(framed[16:20])
    assert snappy.decompress(framed[20 : 20 + first_block]) == TEXT[: 32 * 1024]


def test_lz4_frames_are_such_as_the_java_client_reads() -> None:
    info = lz4.frame.get_frame_info(compress(LZ4, TEXT))
    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024
    assert not info["content_checksum"]
    assert info["content_size"] == 0


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_undefined_codecs_are_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=f"Unknown compression type id: {codec}"):
        decompress(codec, b"", 10)


def test_codecs_are_found_by_the_names_of_the_configuration() -> None:
    names = ("none", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    assert [codec_named(name).number for name in names] == [0, 0, 1, 2, 3, 4]
    with pytest.raises(UnsupportedCompression, match="producer"):
        codec_named("producer")


@EACH_COMPRESSING
def test_cut_and_damaged_data_raises_only_what_is_declared(codec: Any) -> None:
    packed = compress(codec.number, TEXT[:5000])
    for end in range(0, len(packed), 7):
        try:
            part = decompress(codec.number, packed[:end], LIMIT)
        except RecordsError:
            continue
        assert TEXT.startswith(part)
        assert len(part) < 5000
    for index in range(len(packed)):
        damaged = bytearray(packed)
        damaged[index] ^= 0x55
        with contextlib.suppress(RecordsError):
            assert len(decompress(codec.number, damaged, LIMIT)) <= LIMIT


@EACH_COMPRESSING
def test_rubbish_is_called_damaged(codec: Any) -> None:
    with pytest.raises(InvalidRecord, match=f"Failed to decompress record stream: {codec.name}"):
        decompress(codec.number, b"this has never been compressed", LIMIT)


def test_snappy_that_announces_more_than_it_can_hold_takes_no_memory() -> None:
    with pytest.raises(BatchTooLarge):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(50), 10**8)
    with pytest.raises(InvalidRecord, match="announces"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(50), 2**33)
    with pytest.raises(InvalidRecord, match="a block of 2147483647 bytes, 3 are there"):
        decompress(SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\x7f\xff\xff\xffabc", LIMIT)


BOMB = """
import resource, sys
from protocol.records.compression import decompress
from protocol.records.errors import BatchTooLarge
codec, path = int(sys.argv[1]), sys.argv[2]
bomb = open(path, "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, 8 << 20)
except BatchTooLarge:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def bomb_of(codec: int) -> bytes:
    """Some megabytes or kilobytes that unfold into one gibibyte."""
    block, count = bytes(1 << 20), GIBIBYTE >> 20
    if codec == GZIP:
        return gzip.compress(block * 16, 6) * (count // 16)
    if codec == ZSTD:
        stream: Any = zstandard.ZstdCompressor(level=3).compressobj()
        return b"".join([*(stream.compress(block) for _ in range(count)), stream.flush()])
    if codec == LZ4:
        stream = lz4.frame.LZ4FrameCompressor()
        return b"".join([stream.begin(), *(stream.compress(block) for _ in range(count)), stream.flush()])
    raw: bytes = snappy.compress(block)
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + (len(raw).to_bytes(4) + raw) * count


@EACH_COMPRESSING
def test_a_bomb_is_refused_without_its_memory(codec: Any, tmp_path: Any) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(bomb_of(codec.number))
    assert path.stat().st_size < GIBIBYTE // 15
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(codec.number), str(path)], capture_output=True, text=True, check=True
    )
    grown_mib = int(done.stdout)
    assert grown_mib < 40, "limit 8 MiB: its pieces, the library and a step"
