"""Coordinators' records in batches, there and back, and what damage does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.runtime.batches import coordinator_batch, key_values, loaded_batches, split_records
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.records.errors import CorruptRecord, InvalidRecord
from protocol.records.header import HEADER_BYTES, patch_offset_and_epoch, seal

RECORDS = st.lists(
    st.builds(CoordinatorRecord, st.binary(max_size=300), st.none() | st.binary(max_size=300)),
    min_size=1,
    max_size=200,
)


def at(offset: int, batch: bytes | bytearray) -> bytes:
    placed = bytearray(batch)
    patch_offset_and_epoch(placed, 0, offset, 3)
    return bytes(placed)


@given(RECORDS)
def test_what_was_written_is_loaded(records: list[CoordinatorRecord]) -> None:
    (batch,) = loaded_batches(coordinator_batch(records, timestamp_ms=1), 0)
    assert batch.problem == ""
    assert batch.next_offset == len(records)
    assert batch.records == [tuple(record) for record in records]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_of_other_brokers_are_loaded(codec: int) -> None:
    data = build_batch([SimpleRecord(b"k", b"v" * 500, 1)], codec=codec)
    (batch,) = loaded_batches(bytes(data), 0)
    assert batch.records == [(b"k", b"v" * 500)]


def test_offsets_that_do_not_grow_are_no_log() -> None:
    one = coordinator_batch([CoordinatorRecord(b"a", b"1"), CoordinatorRecord(b"b", b"2")], timestamp_ms=1)
    with pytest.raises(CorruptRecord, match="offsets 2 to 3"):
        list(loaded_batches(at(4, one) + at(2, one), 4))
    with pytest.raises(CorruptRecord, match="offset 3 should be"):
        list(loaded_batches(at(2, one), 3))
    assert [batch.next_offset for batch in loaded_batches(at(4, one) + at(9, one), 2)] == [6, 11]


def test_a_cut_off_batch_at_the_end_is_left_for_the_next_read() -> None:
    one = coordinator_batch([CoordinatorRecord(b"a", b"1")], timestamp_ms=1)
    assert [batch.next_offset for batch in loaded_batches(at(0, one) + at(1, one)[:-1], 0)] == [1]


def test_a_marker_says_how_its_transaction_ended() -> None:
    for committed in (True, False):
        data = build_marker_batch(
            TransactionMarker(committed, 0), timestamp_ms=1, producer_id=9, producer_epoch=0
        )
        (batch,) = loaded_batches(bytes(data), 0)
        assert (batch.marker, batch.producer_id, batch.records) == (committed, 9, [])


def test_a_wrong_checksum_loses_the_batch_and_not_the_ones_behind_it() -> None:
    one = coordinator_batch([CoordinatorRecord(b"a", b"1")], timestamp_ms=1)
    bad = bytearray(at(0, one))
    bad[-1] ^= 1
    first, second = loaded_batches(bytes(bad) + at(1, one), 0)
    assert "checksum" in first.problem
    assert (first.next_offset, first.is_in_doubt, second.is_in_doubt) == (1, True, False)
    assert second.records == [(b"a", b"1")]


def test_records_that_contradict_their_header_lose_only_their_batch() -> None:
    bad = bytearray(coordinator_batch([CoordinatorRecord(b"a", b"1")], timestamp_ms=1))
    bad[57:61] = (7).to_bytes(4, "big")  # seven records announced
    seal(bad, 0, len(bad))
    (batch,) = loaded_batches(bytes(bad), 0)
    assert batch.problem
    assert batch.next_offset == 1


def test_what_is_no_batch_at_all_ends_the_reading() -> None:
    one = coordinator_batch([CoordinatorRecord(b"a", b"1")], timestamp_ms=1)
    batches = loaded_batches(one + b"\xff" * 200, 0)
    assert next(batches).records == [(b"a", b"1")]
    with pytest.raises(CorruptRecord, match="magic"):
        next(batches)


@given(st.binary(max_size=200), st.integers(0, 20))
def test_random_bytes_are_refused_or_read_and_nothing_else(section: bytes, count: int) -> None:
    try:
        pairs = key_values(section, count)
    except InvalidRecord:
        return
    assert len(pairs) <= count


@given(RECORDS, st.integers(100, 2000))
def test_splitting_keeps_order_and_stays_within_the_limit(
    records: list[CoordinatorRecord], limit: int
) -> None:
    runs = split_records(records, limit)
    assert [record for run in runs for record in run] == records
    for run in runs:
        assert len(run) == 1 or len(coordinator_batch(run, timestamp_ms=1)) <= limit
    assert limit > HEADER_BYTES
