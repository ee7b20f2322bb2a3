"""The 61 bytes: reading, iterating over joined batches, patching in place."""

import pytest

from protocol.crc import crc32c
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.errors import CorruptRecord
from protocol.records.header import (
    HEADER_BYTES,
    headers,
    is_intact,
    patch_offset_and_epoch,
    patch_timestamps,
    read_header,
)
from protocol.records.reader import records


def batch(count: int = 3, **options: object) -> bytearray:
    return build_batch([SimpleRecord(b"k%d" % i, b"v", 1000 + i) for i in range(count)], **options)  # type: ignore[arg-type]


def test_every_field_is_where_kafka_has_it() -> None:
    built = batch(
        base_offset=2**40,
        leader_epoch=7,
        codec=3,
        producer_id=2**50,
        producer_epoch=9,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    header = read_header(built)
    assert header.base_offset == int.from_bytes(built[0:8]) == 2**40
    assert header.batch_length == int.from_bytes(built[8:12]) == len(built) - 12
    assert header.size_bytes == len(built)
    assert header.partition_leader_epoch == int.from_bytes(built[12:16]) == 7
    assert header.magic == built[16] == 2
    assert header.crc == int.from_bytes(built[17:21]) == crc32c(built[21:])
    assert header.attributes == int.from_bytes(built[21:23]) == 3 | 0x10
    assert header.last_offset_delta == int.from_bytes(built[23:27]) == 2
    assert (header.last_offset, header.next_offset) == (2**40 + 2, 2**40 + 3)
    assert header.base_timestamp == int.from_bytes(built[27:35]) == 1000
    assert header.max_timestamp == int.from_bytes(built[35:43]) == 1002
    assert header.producer_id == int.from_bytes(built[43:51]) == 2**50
    assert header.producer_epoch == int.from_bytes(built[51:53]) == 9
    assert header.base_sequence == int.from_bytes(built[53:57]) == 2**31 - 2
    assert header.last_sequence == 0, "sequence numbers wrap to 0 after 2147483647"
    assert header.record_count == int.from_bytes(built[57:61]) == 3
    assert header.codec == 3
    assert header.is_transactional
    assert not header.is_control
    assert header.has_producer_id
    assert header.timestamp_type == 0


def test_joined_batches_are_walked_and_a_cut_tail_is_left_out() -> None:
    first, second, third = batch(1), batch(2, base_offset=1), batch(3, base_offset=3)
    joined = bytes(first + second + third)
    expected = [(0, 1), (len(first), 2), (len(first) + len(second), 3)]
    assert [(position, header.record_count) for position, header in headers(joined)] == expected
    start_of_third = len(first) + len(second)
    for end in (start_of_third, start_of_third + 1, start_of_third + HEADER_BYTES, len(joined) - 1):
        assert [position for position, _ in headers(memoryview(joined)[:end])] == [0, len(first)]
    assert [p for p, _ in headers(joined, len(first))] == [len(first), start_of_third]


@pytest.mark.parametrize("position", [-1, 1, 10_000])
def test_a_header_beyond_the_buffer_is_refused(position: int) -> None:
    built = batch(1)
    with pytest.raises(CorruptRecord, match="cut off"):
        read_header(built[:HEADER_BYTES], position)


def test_a_wrong_magic_and_an_impossible_length_are_refused() -> None:
    built = batch()
    built[16] = 1
    with pytest.raises(CorruptRecord, match="Invalid magic found in record: 1"):
        list(headers(built))
    for length in (-(2**31), -1, 0, HEADER_BYTES - 12 - 1):
        built = batch()
        built[8:12] = length.to_bytes(4, signed=True)
        with pytest.raises(CorruptRecord, match="smaller than the minimum"):
            list(headers(built))


def test_offset_and_epoch_are_patched_without_touching_the_checksum() -> None:
    joined = bytearray(batch(1) + batch(2))
    position = len(batch(1))
    before = bytes(joined)
    patch_offset_and_epoch(memoryview(joined), position, 2**60, 41)
    header = read_header(joined, position)
    assert (header.base_offset, header.partition_leader_epoch) == (2**60, 41)
    assert is_intact(joined, position, header)
    changed = {i for i in range(len(joined)) if joined[i] != before[i]}
    assert changed <= {position + i for i in (*range(8), *range(12, 16))}
    assert [record.offset for record in records(joined, position)] == [2**60, 2**60 + 1]


def test_append_time_renews_the_checksum_and_is_every_records_timestamp() -> None:
    joined = bytearray(batch(1) + batch(2) + batch(1))
    position, size = len(batch(1)), len(batch(2))
    before = bytes(joined)
    checksum = patch_timestamps(joined, position, size, max_timestamp=5555, log_append_time=True)
    header = read_header(joined, position)
    assert header.crc == checksum != read_header(before, position).crc
    assert is_intact(joined, position, header)
    assert header.timestamp_type == 1
    assert [record.timestamp for record in records(joined, position)] == [5555, 5555]
    assert joined[:position] == before[:position]
    assert joined[position + size :] == before[position + size :]
    patch_timestamps(joined, position, size, max_timestamp=1001, log_append_time=False)
    assert joined == before


def test_any_flipped_bit_under_the_checksum_is_noticed() -> None:
    built = batch(1)
    header = read_header(built)
    assert is_intact(built, 0, header)
    for index in range(21, len(built)):
        damaged = bytearray(built)
        damaged[index] ^= 0x10
        assert not is_intact(damaged, 0, header)
    assert not is_intact(built[:-1], 0, header), "a cut batch is not intact"
