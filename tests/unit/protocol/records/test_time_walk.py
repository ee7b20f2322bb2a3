"""The first record at or after a time: the one that reading all records finds, however the batch comes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from protocol.records.errors import InvalidRecord, RecordsError
from protocol.records.header import HEADER_BYTES, read_header
from protocol.records.reader import records
from protocol.records.time_walk import RECORDS_PER_STEP, FoundRecord, first_at_or_after
from protocol.records.unfolding import Pieces, unfold
from tests.support.samples import bad_batches as bad
from tests.unit.protocol.records.test_unfolding import portions

T0 = 1_700_000_000_000
LIMIT = 1 << 27
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


def walked(batch: bytes, timestamp: int, least_offset: int = 0, step: int = 32 * 1024) -> FoundRecord | None:
    """What the walk finds, reading so many bytes at a time."""
    header = read_header(batch)
    pieces = unfold(header.codec, portions(batch[HEADER_BYTES : header.size_bytes], lambda: step), LIMIT)
    found: FoundRecord | None = run(first_at_or_after(pieces, header, timestamp, least_offset))[0]
    return found


def run(steps: Any) -> tuple[Any, int]:
    """The outcome, and after how many steps."""
    result, count = None, 0
    try:
        while True:
            count += 1
            call = steps.send(result)
            result = None if call is None else call()
    except StopIteration as stop:
        return stop.value, count


def read_all(batch: bytes, timestamp: int, least_offset: int = 0) -> FoundRecord | None:
    """The same, found slowly."""
    for record in records(batch):
        if record.timestamp >= timestamp and record.offset >= least_offset:
            return FoundRecord(record.timestamp, record.offset)
    return None


def random_records(random_source: random.Random, count: int) -> Iterator[SimpleRecord]:
    at = T0
    spread = random_source.choice((0, 1, 100, 5000, 10**6, 10**10))
    for _ in range(count):
        at += random_source.randint(-spread // 4, spread)
        key = (
            None
            if random_source.random() < 0.5
            else random_source.randbytes(random_source.choice((0, 5, 70)))
        )
        value = (
            None
            if random_source.random() < 0.2
            else bytes(random_source.choice((0, 1, 50, 64, 130, 9000, 20_000)))
        )
        headers = (("h", b"v"),) * random_source.choice((0, 0, 0, 3))
        yield SimpleRecord(key, value, at, headers)


@pytest.mark.parametrize("seed", range(40))
def test_any_batch_any_time_any_portions(seed: int) -> None:
    random_source = random.Random(seed)
    made = list(random_records(random_source, random_source.choice((1, 2, 30, 200))))
    batch = bytes(
        build_batch(
            made, codec=random_source.choice(CODECS), base_offset=random_source.choice((0, 77, 1 << 40))
        )
    )
    header = read_header(batch)
    times = sorted({record.timestamp for record in made})
    asked = [times[0] - 1, times[-1], times[-1] + 1, *random_source.choices(times, k=5)]
    for timestamp in asked:
        for least_offset in (
            0,
            header.base_offset,
            random_source.randint(header.base_offset, header.last_offset),
        ):
            expected = read_all(batch, timestamp, least_offset)
            for step in (random_source.choice((1, 3, 20)) if len(batch) < 5000 else 999, 32 * 1024):
                assert walked(batch, timestamp, least_offset, step) == expected


def test_with_log_append_time_every_record_has_the_batch_s() -> None:
    made = build_batch([SimpleRecord(None, b"v", T0)] * 3, base_offset=5)
    batch = bytes(bad.lying(made, attributes=8, max_timestamp=T0 + 9))
    assert walked(batch, T0 + 9) == FoundRecord(T0 + 9, 5) == read_all(batch, T0 + 9)
    assert walked(batch, T0 + 9, 7) == FoundRecord(T0 + 9, 7)


@pytest.mark.parametrize(
    ("base", "delta", "timestamp"), [(2**63 - 1, 9, 8 - 2**63), (-(2**63), -9, 2**63 - 9)]
)
def test_timestamps_wrap_as_a_long_does_in_java(base: int, delta: int, timestamp: int) -> None:
    """The cleaner of Apache Kafka writes such batches: the base timestamp is the delete horizon."""
    made = build_batch([SimpleRecord(None, b"v", T0), SimpleRecord(None, b"v", T0 + delta)])
    batch = bytes(bad.lying(made, base_timestamp=base))
    assert [record.timestamp for record in records(batch)] == [base, timestamp]
    assert walked(batch, timestamp, 1) == FoundRecord(timestamp, 1) == read_all(batch, timestamp, 1)
    for wanted in (base, timestamp, timestamp + 1):
        assert walked(batch, wanted) == read_all(batch, wanted)


NONSENSE: dict[str, Callable[[], bytearray]] = {
    "longer": lambda: bad.wrong_inner_length(100),
    "negative": bad.negative_record_length,
    "varint": bad.endless_varint,
    "one missing": lambda: bad.with_records(bad.plain_records(2), 3),
    "one too many": lambda: bad.with_records(bad.plain_records(4), 3),
    "empty": lambda: bad.with_records(b"", 1),
    "largest count": lambda: bad.with_records(bad.plain_records(1), 2**31 - 1),
    "negative count": lambda: bad.lying(record_count=-1),
    "records of nothing": lambda: bad.with_records(bytes(100), 3),
    "half a record": lambda: bad.with_records(bad.plain_records(1)[:4], 1),
}


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("step", [1, 10, 1000])
def test_nonsense_is_told_as_such(name: str, step: int) -> None:
    batch = bytes(NONSENSE[name]())
    later = bad.now_ms() + 10**9
    with pytest.raises(RecordsError):
        read_all(batch, later)
    with pytest.raises(InvalidRecord):
        walked(batch, later, step=step)


@pytest.mark.parametrize("seed", range(10))
def test_flipped_bits_end_in_an_answer_or_in_a_refusal(seed: int) -> None:
    random_source = random.Random(seed)
    whole = bytearray(build_batch(list(random_records(random_source, 40))))
    for _ in range(200):
        batch = bytearray(whole)
        for _ in range(random_source.randint(1, 5)):
            batch[random_source.randrange(HEADER_BYTES, len(batch))] ^= 1 << random_source.randrange(8)
        try:
            found = walked(
                bytes(batch),
                T0 + random_source.randint(-(10**6), 10**9),
                step=random_source.choice((7, 1000)),
            )
        except InvalidRecord:
            continue
        assert found is None or isinstance(found, FoundRecord)


def test_many_records_are_many_steps() -> None:
    batch = bytes(bad.crowded(ZSTD, 100_000, at=T0))
    header = read_header(batch)
    pieces = unfold(ZSTD, portions(batch[HEADER_BYTES:], lambda: 1 << 20), LIMIT)
    found, steps = run(first_at_or_after(pieces, header, T0 + 1, 0))
    assert found is None
    assert steps > 100_000 // RECORDS_PER_STEP


def test_what_lies_behind_the_record_that_is_found_is_not_unfolded() -> None:
    batch = bytes(build_batch([SimpleRecord(None, bytes(1000), T0 + number) for number in range(5000)]))
    header = read_header(batch)
    read = 0

    def source(at_most: int) -> bytes:
        nonlocal read
        piece = batch[HEADER_BYTES + read : HEADER_BYTES + read + at_most]
        read += len(piece)
        return piece

    found, _ = run(first_at_or_after(unfold(NONE, source, LIMIT), header, T0 + 10, 0))
    assert found == FoundRecord(T0 + 10, 10)
    assert read < len(batch) // 10


def test_pauses_and_calls_of_the_pieces_are_passed_on() -> None:
    section: Sequence[bytes] = (b"\x0c\0\0", b"", b"\0\x01\x01\0")

    def pieces() -> Pieces:
        yield section[0]
        yield b""
        sent = yield lambda: section[2]
        assert isinstance(sent, bytes)
        yield sent

    header = read_header(bytes(bad.crowded(NONE, 1, at=T0)))
    steps = first_at_or_after(pieces(), header, T0, 0)
    pauses = 0
    while (step := next(steps)) is None:
        pauses += 1
    assert pauses >= 2
    steps.send(step())
    found, _ = run(steps)
    assert found == FoundRecord(T0, 0)
