"""The walk and the reader: what they see, and that they refuse the same batches."""

import os

import pytest

from protocol.records.builder import BatchBuilder, SimpleRecord, append_record, build_batch
from protocol.records.errors import InvalidRecord
from protocol.records.header import HEADER_BYTES, seal
from protocol.records.reader import records
from protocol.records.walk import WalkDepth, walk


def section(*rows: tuple[int, bytes | None, bytes | None]) -> bytes:
    """Records from (timestamp delta, key, value)."""
    written = bytearray()
    for index, (delta, key, value) in enumerate(rows):
        append_record(written, index, delta, key, value, ())
    return bytes(written)


def batch_of(raw: bytes, count: int) -> bytearray:
    """A batch with a good header and checksum around any bytes."""
    batch = build_batch([SimpleRecord(b"", b"")])[:HEADER_BYTES] + raw
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[23:27] = (count - 1).to_bytes(4, signed=True)
    batch[57:61] = count.to_bytes(4, signed=True)
    seal(batch, 0, len(batch))
    return batch


def test_the_walk_sees_bounds_and_places() -> None:
    walked = walk(section((0, b"a", b"1"), (70_000, b"b", None), (-5, None, b"3"), (70_000, None, None)), 4)
    assert walked.record_count == 4
    assert (walked.min_timestamp_delta, walked.max_timestamp_delta) == (-5, 70_000)
    assert walked.max_timestamp_index == 1, "the first of those with the largest timestamp"
    assert walked.first_without_key == 2
    assert walked.offsets_are_sequential


def test_no_records_are_a_walk_of_nothing() -> None:
    assert walk(b"", 0).record_count == 0
    with pytest.raises(InvalidRecord, match="records still remaining"):
        walk(b"\0", 0)
    with pytest.raises(InvalidRecord, match="invalid record count -1"):
        walk(b"", -1)


@pytest.mark.parametrize(
    "size", [0, 1, 50, 63, 64, 100, 8183, 8184, 8185, 8191, 8192, 8193, 70_000, 3_000_000]
)
def test_sizes_around_the_widths_of_their_numbers(size: int) -> None:
    data = os.urandom(size)
    rows = [(0, b"k", data), (1, data, None), (2, None, data), (3, b"k" * 70, data[:70])]
    raw = section(*rows)
    for want in WalkDepth:
        assert walk(raw, 4, want).record_count == 4
    assert walk(raw, 4).first_without_key == 2
    found = [(record.key, record.value) for record in records(batch_of(raw, 4))]
    assert found == [(key, value) for _, key, value in rows]


def test_ten_thousand_records_are_still_in_order() -> None:
    builder = BatchBuilder()
    for index in range(10_000):
        builder.append(b"%d" % index, b"v" * (index % 90), 1000 + index * 17)
    walked = walk(bytes(builder.build()[HEADER_BYTES:]), 10_000)
    assert walked.offsets_are_sequential
    assert (walked.max_timestamp_delta, walked.max_timestamp_index) == (9_999 * 17, 9_999)


@pytest.mark.parametrize("index", [0, 3, 70, 8200])
def test_a_gap_is_seen_wherever_it_is(index: int) -> None:
    builder = BatchBuilder()
    for position in range(8300):
        builder.append(b"k", b"v", offset_delta=position + (position >= index))
    assert not walk(bytes(builder.build()[HEADER_BYTES:]), 8300).offsets_are_sequential


HEADERS = (("name", b"value"), ("nothing", None), ("", b""))


def test_headers_are_stepped_over() -> None:
    written = bytearray()
    for index in range(3):
        append_record(written, index, index, None, b"v", HEADERS)
    assert walk(written, 3).first_without_key == 0
    assert [record.headers for record in records(batch_of(bytes(written), 3))] == [HEADERS] * 3


BROKEN = {
    "nothing where a record should be": (b"", 1),
    "a record of no bytes": (b"\x00", 1),
    "a negative length": (b"\x01" + bytes(5), 1),
    "a length of two gigabytes": (b"\xfe\xff\xff\xff\x0f" + bytes(5), 1),
    "a length of six bytes": (b"\x80\x80\x80\x80\x80\x01" + bytes(9), 1),
    "a length beyond the end": (b"\x12\0\0\0\x02k\x02v\0", 1),
    "a length cut off": (b"\x80", 1),
    "bytes left behind the last record": (section((0, b"k", b"v")) + b"\0", 1),
    "fewer records than announced": (section((0, b"k", b"v")), 2),
    "more records than announced": (section((0, b"k", b"v"), (0, b"k", b"v")), 1),
    "a key longer than its record": (b"\x0e\0\0\0\x40k\x02v\0", 1),
    "a value longer than its record": (b"\x0e\0\0\0\x02k\x40v\0", 1),
    "more headers than bytes": (b"\x0e\0\0\0\x02k\0\x7e", 1),
    "fewer than no headers": (b"\x0e\0\0\0\x02k\0\x01", 1),
    "a header without a name": (b"\x10\0\0\0\x02k\x00\x02\x01", 1),
    "a byte too many in a record": (b"\x12\0\0\0\x02k\x02v\0\0", 1),
    "a timestamp without an end": (b"\x0e\0" + b"\xff" * 6, 1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_records_are_refused_by_walk_and_reader(name: str) -> None:
    raw, count = BROKEN[name]
    with pytest.raises(InvalidRecord):
        walk(raw, count)
    with pytest.raises(InvalidRecord):
        list(records(batch_of(raw, count)))


def test_any_negative_length_of_key_or_value_means_null_as_in_kafka() -> None:
    raw = b"\x0c\0\0\0\x03\x05\0"
    assert walk(raw, 1).first_without_key == 0
    (record,) = records(batch_of(raw, 1))
    assert (record.key, record.value) == (None, None)


def test_whole_records_in_front_of_a_broken_one_can_be_saved() -> None:
    reading = records(batch_of(section((0, b"a", b"1"), (0, b"b", b"2")) + b"\x01", 3))
    assert [next(reading).key, next(reading).key] == [b"a", b"b"]
    with pytest.raises(InvalidRecord):
        next(reading)
