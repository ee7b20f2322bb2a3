"""The verdict on large batches, taken in steps: the same as at once, with pauses, and library calls apart."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, NONE, ZSTD
from protocol.records.errors import InvalidRecord, InvalidTimestamp
from protocol.records.header import HEADER_BYTES, is_intact, read_header
from protocol.records.reader import records
from protocol.records.record_validation import finish, judge_and_rebuild, rebuild
from protocol.records.validation import validate_client_batch
from protocol.records.verdict import ValidatedBatch, ValidationRules
from protocol.records.walk import HEADERS_PER_SLICE, RECORDS_PER_SLICE, walk, walk_in_slices
from tests.support.samples import bad_batches as bad
from tests.support.samples.record_corpus import T


def batch_of(count: int, codec: int = NONE, *, size: int = 10, keyless_at: int = -1) -> bytearray:
    random_source = random.Random(count)
    return build_batch(
        [
            SimpleRecord(
                None if n == keyless_at else b"k",
                random_source.randbytes(size),
                T + random_source.randrange(1000),
            )
            for n in range(count)
        ],
        codec=codec,
    )


def header_verdict(batch: bytearray, inline_bytes: int, **options: Any) -> ValidatedBatch:
    rules = ValidationRules("t-0", 10_000_000, **options)
    return validate_client_batch(
        batch, 0, len(batch), rules, now_ms=T, walk=True, request_version=13, inline_bytes=inline_bytes
    )


@pytest.mark.parametrize(
    "count", [1, 7, RECORDS_PER_SLICE, RECORDS_PER_SLICE + 1, 2 * RECORDS_PER_SLICE, 9001]
)
def test_slices_see_what_one_walk_sees(count: int) -> None:
    for keyless in (-1, 0, count - 1, count // 2):
        plain = bytes(batch_of(count, keyless_at=keyless)[HEADER_BYTES:])
        steps = list(iter_steps(plain, count))
        assert steps[-1] == walk(plain, count)
        assert len(steps) - 1 == (count - 1) // RECORDS_PER_SLICE
        within = list(iter_steps(bytearray(b"\xff" * HEADER_BYTES + plain), count, HEADER_BYTES))
        assert within == steps, "where they lie behind the header of their batch"


def iter_steps(plain: bytes | bytearray, count: int, begin: int = 0) -> Any:
    yield (yield from walk_in_slices(plain, count, begin))


def batch_with_headers(*counts: int, codec: int = NONE) -> bytearray:
    """A record for each number of headers, each header with an empty name and no value: two bytes."""
    return build_batch([SimpleRecord(b"k", b"v", T, (("", None),) * n) for n in counts], codec=codec)


@pytest.mark.parametrize(
    ("counts", "pauses"),
    [
        ([HEADERS_PER_SLICE], 0),
        ([HEADERS_PER_SLICE + 1], 1),
        ([10 * HEADERS_PER_SLICE], 9),
        ([HEADERS_PER_SLICE // 10] * 101, 10),
        ([1, 3 * HEADERS_PER_SLICE, 0, 5, HEADERS_PER_SLICE], 4),
        ([0] * RECORDS_PER_SLICE + [2 * HEADERS_PER_SLICE], 2),
    ],
)
def test_headers_count_towards_a_slice(counts: list[int], pauses: int) -> None:
    plain = bytes(batch_with_headers(*counts)[HEADER_BYTES:])
    steps = list(iter_steps(plain, len(counts)))
    assert steps == [None] * pauses + [walk(plain, len(counts))]


@pytest.mark.parametrize(("behind", "length"), [(1, 2), (2, 1), (HEADERS_PER_SLICE, 0x7F)])
def test_headers_are_broken_far_behind_the_start_of_their_record(behind: int, length: int) -> None:
    plain = bytearray(batch_with_headers(3 * HEADERS_PER_SLICE)[HEADER_BYTES:])
    plain[-behind] = length  # of the last value one byte that is not there, of a name a negative number
    with pytest.raises(InvalidRecord) as at_once:
        walk(plain, 1)
    with pytest.raises(InvalidRecord) as sliced:
        list(iter_steps(plain, 1))
    assert sliced.value.message == at_once.value.message


@pytest.mark.parametrize("spoiled", ["last record gone", "byte behind", "length in the third slice"])
def test_slices_find_what_is_wrong(spoiled: str) -> None:
    count = 3 * RECORDS_PER_SLICE
    plain = bytearray(batch_of(count)[HEADER_BYTES:])
    if spoiled == "byte behind":
        plain += b"\0"
    elif spoiled == "last record gone":
        del plain[-3:]
    else:
        plain[len(plain) * 5 // 6] ^= 0xFF
    with pytest.raises(InvalidRecord) as at_once:
        walk(plain, count)
    with pytest.raises(InvalidRecord) as sliced:
        list(iter_steps(bytes(plain), count))
    assert sliced.value.message == at_once.value.message


@pytest.mark.parametrize("source", [NONE, GZIP, LZ4, ZSTD])
@pytest.mark.parametrize("target", [None, NONE, GZIP, LZ4, ZSTD])
def test_what_is_small_is_judged_at_once_and_what_is_large_is_not(source: int, target: int | None) -> None:
    small, large = batch_of(5, source), batch_of(300, source, size=1000)
    assert header_verdict(small, 65_536, codec=target).is_judged
    needs_library = source != NONE or target not in (None, source)
    assert header_verdict(large, 65_536, codec=target).is_judged != needs_library
    assert header_verdict(large, 0, codec=target).is_judged


def test_what_unfolds_far_is_not_judged_at_once() -> None:
    folded = build_batch([SimpleRecord(b"k", bytes(500_000), T)], codec=ZSTD)
    assert len(folded) < 1000
    assert not header_verdict(folded, 65_536).is_judged
    less = build_batch([SimpleRecord(b"k", bytes(200_000), T)], codec=ZSTD)
    assert header_verdict(less, 65_536).is_judged
    assert not header_verdict(less, 65_536, codec=LZ4).is_judged


def test_many_records_are_not_walked_at_once() -> None:
    assert header_verdict(batch_of(RECORDS_PER_SLICE), 1 << 20).is_judged
    assert not header_verdict(batch_of(RECORDS_PER_SLICE + 1), 1 << 20).is_judged


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_many_headers_are_not_walked_at_once(codec: int) -> None:
    assert header_verdict(batch_with_headers(HEADERS_PER_SLICE, codec=codec), 65_536).is_judged
    assert not header_verdict(batch_with_headers(HEADERS_PER_SLICE + 1, codec=codec), 65_536).is_judged
    spread = [HEADERS_PER_SLICE // 100] * 101
    assert not header_verdict(batch_with_headers(*spread, codec=codec), 65_536).is_judged


@pytest.mark.parametrize("source", [NONE, GZIP, ZSTD])
def test_steps_make_the_batch_that_is_made_at_once(source: int) -> None:
    batch = batch_of(5000, source)
    rules = ValidationRules("t-0", 10_000_000, codec=LZ4)
    header = read_header(batch)
    calls = pauses = 0
    steps = judge_and_rebuild(batch, header, rules, T)
    result: Any = None
    try:
        while True:
            call = steps.send(result)
            calls, pauses = calls + (call is not None), pauses + (call is None)
            result = None if call is None else call()
    except StopIteration as stop:
        judged = stop.value
    assert (calls, pauses) == ((source != NONE) + 1, 2)
    stored = rebuild(judged, rules, 70, 3)
    at_once = rebuild(header_verdict(batch, 0, codec=LZ4), rules, 70, 3)
    assert stored == at_once
    placed = read_header(stored)
    assert is_intact(stored, 0, placed)
    assert (placed.base_offset, placed.partition_leader_epoch, placed.codec) == (70, 3, LZ4)
    assert [r.value for r in records(stored)] == [r.value for r in records(batch)]
    assert [r.timestamp for r in records(stored)] == [r.timestamp for r in records(batch)]


def test_offenders_are_named_in_steps_too() -> None:
    rules = ValidationRules("t-0", 10_000_000, compacted=True, codec=ZSTD)
    batch = batch_of(4000, GZIP, keyless_at=3999)
    with pytest.raises(InvalidRecord) as refused:
        finish(judge_and_rebuild(batch, read_header(batch), rules, T))
    assert [error.batch_index for error in refused.value.record_errors] == [3999]
    early = ValidationRules("t-0", 10_000_000, after_max_ms=10)
    with pytest.raises(InvalidTimestamp) as late:
        finish(judge_and_rebuild(batch, read_header(batch), early, T))
    assert len(late.value.record_errors) == 1000


@pytest.mark.parametrize("flaw", ["offset", "key", "timestamp"])
def test_headers_take_no_memory_where_records_are_looked_at_one_by_one(flaw: str) -> None:
    count = 1 << 18
    batch = bad.many_headers(ZSTD, count, has_key=flaw != "key", offset_delta=int(flaw == "offset"))
    rules = ValidationRules(
        "t-0", 10_000_000, compacted=flaw == "key", after_max_ms=0 if flaw == "timestamp" else 1 << 62
    )
    header = read_header(batch)
    tracemalloc.start()
    try:
        steps = judge_and_rebuild(batch, header, rules, header.base_timestamp - int(flaw == "timestamp"))
        if flaw == "offset":
            assert finish(steps).rebuilt is not None
        else:
            with pytest.raises((InvalidRecord, InvalidTimestamp)) as refused:
                finish(steps)
            assert [error.batch_index for error in refused.value.record_errors] == [0]
        _, highest_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert highest_bytes < 7 * count, "a header takes two bytes, while it is decompressed three times as much"
