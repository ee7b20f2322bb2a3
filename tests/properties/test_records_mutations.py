"""Damaged batches: only the declared errors, never more memory than a small multiple of what came in."""

import contextlib
import tracemalloc
from collections.abc import Callable
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import CODECS, decompress
from protocol.records.control import control_type, read_marker
from protocol.records.errors import RecordsError
from protocol.records.header import HEADER_BYTES, headers, seal
from protocol.records.reader import batch_records, records
from protocol.records.record_validation import rebuild
from protocol.records.validation import validate_client_batch
from protocol.records.verdict import ValidationRules
from protocol.records.walk import WalkDepth, walk

CODEC_NUMBERS = st.sampled_from([codec.number for codec in CODECS])
HEADERS: Final = (("name", b"value"), ("other", None))
CONTENTS: Final = tuple(
    SimpleRecord(b"key %d" % (i % 5) if i % 4 else None, b"value " * (i % 9), 1000 + i, HEADERS[: i % 3])
    for i in range(40)
)
PRISTINE: Final = {codec.number: bytes(build_batch(CONTENTS, codec=codec.number)) for codec in CODECS}
LIMIT: Final = 1 << 20
EDITS = st.lists(
    st.tuples(st.integers(0, 2**16), st.sampled_from(["set", "drop", "double", "cut"]), st.integers(0, 255)),
    min_size=1,
    max_size=6,
)


def mutate(batch: bytes, edits: list[tuple[int, str, int]], first: int) -> bytearray:
    """Edit bytes from `first` on."""
    mutant = bytearray(batch)
    for where, what, value in edits:
        position = first + where % max(len(mutant) - first, 1)
        if what == "set" and position < len(mutant):
            mutant[position] = value
        elif what == "drop":
            del mutant[position : position + 1 + value % 8]
        elif what == "double":
            mutant[position:position] = mutant[position : position + 1 + value]
        elif what == "cut":
            del mutant[max(position, HEADER_BYTES) :]
    return mutant


def reseal(mutant: bytearray) -> bytearray:
    """Make length and checksum good again, so that the damage lies deeper."""
    if len(mutant) >= HEADER_BYTES:
        mutant[8:12] = (len(mutant) - 12).to_bytes(4)
        seal(mutant, 0, len(mutant))
    return mutant


def exercise(mutant: bytearray) -> None:
    """Everything that may meet foreign bytes; anything but a RecordsError fails the test."""
    for compacted in (False, True):
        rules = ValidationRules("t-0", LIMIT, compacted=compacted, codec=0, limit_bytes=LIMIT)
        for walked in (False, True):
            try:
                accepted = validate_client_batch(
                    mutant, 0, len(mutant), rules, now_ms=5000, walk=walked, request_version=9
                )
                if accepted.must_rebuild:
                    assert list(records(rebuild(accepted, rules, 0, 0)))
            except RecordsError as error:
                assert int(error.code) > 0  # noqa: PT017
    try:
        for position, _ in headers(mutant):
            for record in records(mutant, position, limit_bytes=LIMIT):
                read_marker(record.key, record.value)
                control_type(record.key)
    except RecordsError:
        pass
    with contextlib.suppress(RecordsError):
        list(batch_records(mutant, limit_bytes=LIMIT))


@given(CODEC_NUMBERS, EDITS)
def test_damage_anywhere(codec: int, edits: list[tuple[int, str, int]]) -> None:
    exercise(mutate(PRISTINE[codec], edits, 0))


@given(CODEC_NUMBERS, EDITS)
def test_damage_under_a_good_checksum(codec: int, edits: list[tuple[int, str, int]]) -> None:
    exercise(reseal(mutate(PRISTINE[codec], edits, 17)))


@given(EDITS)
def test_damaged_records_behind_an_honest_header(edits: list[tuple[int, str, int]]) -> None:
    exercise(reseal(mutate(PRISTINE[0], edits, HEADER_BYTES)))


def count_or_refusal(look: Callable[[], int]) -> int | None:
    try:
        return look()
    except RecordsError:
        return None


def walk_and_reader_agree(data: bytes, count: int) -> None:
    """What the walk lets through, the reader reads; what the reader refuses, the walk has refused."""
    batch = bytearray(PRISTINE[0][:HEADER_BYTES]) + data
    batch[57:61] = count.to_bytes(4)
    reseal(batch)
    walked = count_or_refusal(lambda: walk(data, count).record_count)
    assert walked == count_or_refusal(lambda: len(list(records(batch))))


@given(st.binary(max_size=400), st.integers(0, 60))
def test_walk_and_reader_agree_on_random_bytes(data: bytes, count: int) -> None:
    walk_and_reader_agree(data, count)


@given(EDITS)
def test_walk_and_reader_agree_on_damaged_records(edits: list[tuple[int, str, int]]) -> None:
    walk_and_reader_agree(bytes(mutate(PRISTINE[0][HEADER_BYTES:], edits, 0)), len(CONTENTS))


@given(CODEC_NUMBERS, st.binary(max_size=300))
def test_random_bytes_are_no_compressed_records(codec: int, data: bytes) -> None:
    with contextlib.suppress(RecordsError):
        assert len(decompress(codec, data, LIMIT)) <= LIMIT


def test_announced_sizes_take_no_memory() -> None:
    """Every length and count in turn says two gigabytes; the peak stays near the size of the batch."""
    huge = b"\xfe\xff\xff\xff\x0f"
    plain = PRISTINE[0]
    tracemalloc.start()
    try:
        for position in range(HEADER_BYTES, len(plain), 5):
            mutant = reseal(bytearray(plain[:position] + huge + plain[position + 1 :]))
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for want in WalkDepth:
                with contextlib.suppress(RecordsError):
                    walk(mutant[HEADER_BYTES:], len(CONTENTS), want)
            exercise(mutant)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 30 * len(mutant) + 100_000
    finally:
        tracemalloc.stop()
