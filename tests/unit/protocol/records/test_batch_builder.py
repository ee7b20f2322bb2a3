"""The builder used as a stream: room, estimates, gaps, limits."""

import pytest

from protocol.errors import InvariantViolated
from protocol.records.builder import BatchBuilder, SimpleRecord, build_batch, build_empty_batch
from protocol.records.errors import BatchTooLarge
from protocol.records.header import HEADER_BYTES, is_intact, read_header
from protocol.records.reader import records


def test_a_full_batch_says_so_before_it_is_too_large() -> None:
    builder = BatchBuilder(max_bytes=1000)
    added = 0
    while builder.has_room_for(b"key", b"x" * 50):
        builder.append(b"key", b"x" * 50)
        added += 1
    batch = builder.build()
    assert builder.estimated_size_bytes == len(batch) <= 1000
    assert added == builder.record_count == read_header(batch).record_count
    assert len(batch) + 100 > 1000, "there was no room for another"


def test_the_first_record_always_fits_but_the_limit_holds() -> None:
    builder = BatchBuilder(max_bytes=100)
    assert builder.has_room_for(None, bytes(500))
    builder.append(None, bytes(500))
    assert not builder.has_room_for(None, b"")
    with pytest.raises(BatchTooLarge, match="exceeds the maximum of 100"):
        builder.build()
    with pytest.raises(BatchTooLarge):
        build_batch([SimpleRecord(None, bytes(500))], max_bytes=200)


def test_building_does_not_end_the_collecting() -> None:
    builder = BatchBuilder(base_offset=10, codec=1)
    assert builder.append(b"a", None) == 10
    first = builder.build()
    assert builder.append(b"b", None) == 11
    assert [r.key for r in records(first)] == [b"a"]
    assert [r.key for r in records(builder.build())] == [b"a", b"b"]
    assert builder.next_offset == 12


def test_a_range_outlives_its_records() -> None:
    builder = BatchBuilder(base_offset=100, producer_id=1, producer_epoch=2, base_sequence=30)
    builder.append(b"kept", b"v", 5, offset_delta=4)
    batch = builder.build(last_offset_delta=9)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (100, 109, 1)
    assert header.last_sequence == 39
    empty = build_empty_batch(header)
    left = read_header(empty)
    assert len(empty) == HEADER_BYTES
    assert is_intact(empty, 0, left)
    assert (left.base_offset, left.last_offset, left.record_count, left.last_sequence) == (100, 109, 0, 39)
    assert left.max_timestamp == 5
    assert list(records(empty)) == []


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    builder = BatchBuilder(delete_horizon_ms=10**12)
    builder.append(b"k", None, 500)
    batch = builder.build()
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 10**12
    assert [record.timestamp for record in records(batch)] == [500]
    assert read_header(build_empty_batch(header)).base_timestamp == 10**12


def test_offsets_only_ascend_and_a_batch_has_at_least_one() -> None:
    builder = BatchBuilder()
    with pytest.raises(InvariantViolated, match="has a last offset"):
        builder.build()
    builder.append(None, b"", offset_delta=3)
    with pytest.raises(InvariantViolated, match="ascend"):
        builder.append(None, b"", offset_delta=3)
    with pytest.raises(InvariantViolated):
        builder.build(last_offset_delta=2)


def test_names_of_headers_that_are_not_utf8_survive() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    batch = build_batch([SimpleRecord(b"k", b"v", 0, ((name, b"1"),))])
    (record,) = records(batch)
    assert record.headers == ((name, b"1"),)
    assert b"\x04\xff\xfe\x021" in batch
