"""What record batches cost, and why these compression libraries.

    python -m tests.performance.records [--quick]

Prints two tables in Markdown. On 2 shared cores with Python 3.11.7, the best of five, µs of processor time
for a batch of records with values of 100 bytes; compression of JSON lines:

    | one batch, µs | 1 KB | 16 KB | 1 MB |
    |---|---|---|---|
    | checksum | 0.30 | 1.11 | 44 |
    | checksum by crcmod | 3.21 | 43 | 2,688 |
    | read_header | 0.45 | 0.45 | 0.48 |
    | verdict, header and checksum decide | 1.54 | 2.35 | 45 |
    | place: offset and epoch | 0.29 | 0.29 | 0.28 |
    | verdict with a walk | 10 | 107 | 6,564 |
    | walk, lengths only | 2.52 | 24 | 1,537 |
    | walk, structure | 8.17 | 89 | 6,284 |
    | records as objects | 23 | 332 | 23,064 |
    | recompressed to lz4 | 16 | 111 | 6,898 |

    | codec, µs (in: compress, out: decompress) | 16 KB in | 16 KB out | 1 MB in | 1 MB out |
    |---|---|---|---|---|
    | gzip: zlib | 162 | 22 | 15,662 | 2,582 |
    | gzip: cramjam | 229 | 21 | 24,921 | 1,870 |
    | snappy: python-snappy | 12 | 6.04 | 1,500 | 614 |
    | snappy: cramjam | 13 | 5.67 | 1,467 | 587 |
    | lz4: lz4 | 12 | 3.77 | 1,280 | 225 |
    | lz4: cramjam | 18 | 12 | 1,695 | 995 |
    | lz4: lz4, level 9 | 152 | 2.75 | 42,713 | 277 |
    | lz4: cramjam, level 9 | 145 | 12 | 36,421 | 1,094 |
    | zstd: zstandard | 49 | 25 | 2,865 | 629 |
    | zstd: cramjam | 50 | 25 | 3,029 | 719 |
    | gzip: ours, bounded | 146 | 24 | 15,932 | 2,270 |
    | snappy: ours, bounded | 13 | 7.92 | 1,548 | 766 |
    | lz4: ours, bounded | 14 | 6.05 | 1,550 | 400 |
    | zstd: ours, bounded | 52 | 31 | 2,850 | 833 |

    import zlib: 0.4 ms
    import lz4.frame: 1.5 ms
    import zstandard: 14.3 ms
    import snappy: 2.7 ms
    import cramjam: 1.5 ms

The libraries are therefore lz4, zstandard, python-snappy, and zlib for gzip. cramjam would be one dependency
for all and is imported faster than zstandard. It compresses zstd as fast, lz4 in 1.4 times the time at level
0 and about as fast at level 9 (where no level is named it takes level 4, and lz4 level 0), and reads its own
lz4 three to four times slower. But it cannot stop at a bound: its `decompress` takes what the data says, its
streams hold all that a piece unfolds to, and its `decompress_into` stops only at the end of a buffer that was
taken before, for a size that Kafka's batches do not tell. Blocks of snappy announce their size; python-snappy
is a thin layer over cramjam's snappy, so these two are equal.
"""

import argparse
import json
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import cramjam
import lz4.frame
import snappy
import zstandard

from protocol.crc import crc32c, load_crcmod
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from protocol.records.header import HEADER_BYTES, read_header
from protocol.records.reader import records
from protocol.records.record_validation import rebuild
from protocol.records.validation import place, validate_client_batch
from protocol.records.verdict import ValidationRules
from protocol.records.walk import WalkDepth, walk

NOW: Final = 1_700_000_000_000
RULES: Final = ValidationRules("bench-0", 16 << 20)
SNAPPY_BLOCK_BYTES: Final = 32 * 1024

Pack: TypeAlias = Callable[[memoryview], Any]
Unpack: TypeAlias = Callable[[Any], Any]


class Line(NamedTuple):
    """One row of a table."""

    what: str
    micros: tuple[float, ...]


def micros(call: Callable[[], object], seconds: float) -> float:
    """Microseconds of processor time for one call: the best of five runs that fill `seconds` together."""
    count, taken = 1, 0.0
    while taken < seconds / 10:
        start = time.process_time()
        for _ in range(count):
            call()
        taken = time.process_time() - start
        count *= 2
    best = taken / (count // 2)
    for _ in range(5):
        start = time.process_time()
        for _ in range(count // 2):
            call()
        best = min(best, (time.process_time() - start) / (count // 2))
    return best * 1e6


def batches() -> list[bytearray]:
    """1 KB, 16 KB and 1 MB of records with values of 100 bytes, no keys."""
    value = bytes(100)
    return [build_batch([SimpleRecord(None, value, NOW)] * count) for count in (9, 150, 9500)]


def batch_lines(seconds: float) -> Iterator[Line]:
    """What happens to a batch, for each size."""
    walked = ValidationRules("bench-0", 16 << 20, codec=LZ4)
    crcmod = load_crcmod()
    measures: list[tuple[str, Callable[[memoryview], Callable[[], object]]]] = [
        ("checksum", lambda b: lambda: crc32c(b[21:])),
        ("checksum by crcmod", lambda b: lambda: crcmod(b[21:]) if crcmod else None),
        ("read_header", lambda b: lambda: read_header(b, 0)),
        ("verdict, header and checksum decide", lambda b: lambda: verdict(b, RULES, False)),
        ("place: offset and epoch", placing),
        ("verdict with a walk", lambda b: lambda: verdict(b, RULES, True)),
        ("walk, lengths only", lambda b: walking(b, WalkDepth.LENGTHS)),
        ("walk, structure", lambda b: walking(b, WalkDepth.STRUCTURE)),
        ("records as objects", lambda b: lambda: sum(1 for _ in records(b))),
        ("recompressed to lz4", lambda b: lambda: rebuild(verdict(b, walked, False), walked, 0, 0)),
    ]
    sizes = [memoryview(batch) for batch in batches()]
    for what, prepare in measures:
        yield Line(what, tuple(micros(prepare(batch), seconds) for batch in sizes))


def verdict(batch: memoryview, rules: ValidationRules, walked: bool) -> Any:
    return validate_client_batch(batch, 0, len(batch), rules, now_ms=NOW, walk=walked, request_version=12)


def placing(batch: memoryview) -> Callable[[], object]:
    accepted = verdict(batch, RULES, False)
    return lambda: place(batch, 0, accepted, 0, 5)


def walking(batch: memoryview, want: WalkDepth) -> Callable[[], object]:
    plain, count = bytes(batch[HEADER_BYTES:]), read_header(batch).record_count
    return lambda: walk(plain, count, want)


def sample(size: int) -> bytes:
    """JSON lines such as applications send."""
    random_source, out = random.Random(1), bytearray()
    while len(out) < size:
        event = {
            "user": random_source.randrange(10**6),
            "event": random_source.choice(["click", "view", "buy"]),
            "at": random_source.randrange(10**12),
            "page": f"/p/{random_source.randrange(1000)}",
        }
        out += json.dumps(event).encode() + b"\0\0"
    return bytes(out[:size])


def xerial(one_block: Callable[[memoryview], Any]) -> Pack:
    step = SNAPPY_BLOCK_BYTES
    return lambda data: [one_block(data[at : at + step]) for at in range(0, len(data), step)]


def gzip_members(data: memoryview) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, 31)
    return stream.compress(data) + stream.flush()


def codec_lines(seconds: float) -> Iterator[Line]:
    """Libraries against each other, then what our table makes of the chosen ones."""
    plains = [memoryview(sample(size)) for size in (16 << 10, 1 << 20)]
    pairs: list[tuple[str, Pack, Unpack]] = [
        ("gzip: zlib", gzip_members, lambda c: zlib.decompressobj(31).decompress(c)),
        ("gzip: cramjam", lambda d: bytes(cramjam.gzip.compress(d, level=6)), cramjam.gzip.decompress),
        ("snappy: python-snappy", xerial(snappy.compress), lambda c: [snappy.decompress(b) for b in c]),
        (
            "snappy: cramjam",
            xerial(lambda block: bytes(cramjam.snappy.compress_raw(block))),
            lambda c: [cramjam.snappy.decompress_raw(b) for b in c],
        ),
        ("lz4: lz4", lz4.frame.compress, lz4.frame.decompress),
        ("lz4: cramjam", lambda d: bytes(cramjam.lz4.compress(d, level=0)), cramjam.lz4.decompress),
        ("lz4: lz4, level 9", lambda d: lz4.frame.compress(d, compression_level=9), lz4.frame.decompress),
        ("lz4: cramjam, level 9", lambda d: bytes(cramjam.lz4.compress(d, level=9)), cramjam.lz4.decompress),
        (
            "zstd: zstandard",
            lambda d: zstandard.ZstdCompressor(level=3).compress(d),
            lambda c: zstandard.ZstdDecompressor().decompress(c),
        ),
        ("zstd: cramjam", lambda d: bytes(cramjam.zstd.compress(d, level=3)), cramjam.zstd.decompress),
    ]
    for name, number in (("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)):
        pairs.append((f"{name}: ours, bounded", *ours(number)))
    for what, pack, unpack in pairs:
        times: list[float] = []
        for plain in plains:
            times += in_and_out(plain, pack, unpack, seconds)
        yield Line(what, tuple(times))


def in_and_out(plain: memoryview, pack: Pack, unpack: Unpack, seconds: float) -> list[float]:
    packed = pack(plain)
    return [micros(lambda: pack(plain), seconds), micros(lambda: unpack(packed), seconds)]


def ours(number: int) -> tuple[Pack, Unpack]:
    return lambda d: compress(number, d), lambda c: decompress(number, memoryview(c), 2 << 20)


def import_millis(module: str) -> float:
    """Milliseconds that importing `module` takes in a fresh interpreter, the best of three."""
    code = f"import time; t = time.perf_counter(); import {module}; print((time.perf_counter() - t) * 1e3)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def show(title: str, columns: tuple[str, ...], lines: Iterator[Line]) -> None:
    print(f"| {title} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for line in lines:
        cells = " | ".join(f"{value:,.2f}" if value < 10 else f"{value:,.0f}" for value in line.micros)
        print(f"| {line.what} | {cells} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record batches and codecs, in microseconds.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, numbers less steady")
    seconds = 0.05 if parser.parse_args().quick else 0.5
    show("one batch, µs", ("1 KB", "16 KB", "1 MB"), batch_lines(seconds))
    columns = ("16 KB in", "16 KB out", "1 MB in", "1 MB out")
    show("codec, µs (in: compress, out: decompress)", columns, codec_lines(seconds))
    for module in ("zlib", "lz4.frame", "zstandard", "snappy", "cramjam"):
        print(f"import {module}: {import_millis(module):.1f} ms")


if __name__ == "__main__":
    main()
