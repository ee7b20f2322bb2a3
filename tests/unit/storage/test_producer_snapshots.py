"""Producer snapshots: bytes and bounds; and markers, which raise epochs without writing sequences."""

from __future__ import annotations

import pytest

from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.records.header import read_header
from storage.producer_snapshot import CorruptProducerSnapshot, decode_snapshot, encode_snapshot
from storage.producer_state import ProducerBatch, ProducerEntry, ProducerState, check_sequence, successor
from tests.support.rigs.log_rig import client_batch


def test_only_the_last_batch_is_kept() -> None:
    batches = (ProducerBatch(0, 3, 10, 13, 100), ProducerBatch(4, 4, 14, 14, 101))
    entry = ProducerEntry(7, 2, batches, 101, 5, 10)
    empty = ProducerEntry(8, 1, (), 90)
    data = encode_snapshot([entry, empty])
    assert len(data) == 10 + 2 * 46
    assert data[:2] == b"\0\1"
    assert decode_snapshot(data) == [ProducerEntry(7, 2, batches[1:], 101, 5, 10), empty]
    wrapped = ProducerEntry(7, 2, (ProducerBatch(2147483646, 1, 10, 13, 100),), 100)
    assert decode_snapshot(encode_snapshot([wrapped])) == [wrapped]


def test_damaged_snapshots_are_refused() -> None:
    data = encode_snapshot([ProducerEntry(7, 2, (ProducerBatch(0, 3, 10, 13, 100),), 100)])
    for cut in range(len(data)):
        with pytest.raises(CorruptProducerSnapshot):
            decode_snapshot(data[:cut])
    for place in range(len(data)):
        with pytest.raises(CorruptProducerSnapshot):
            decode_snapshot(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def test_a_marker_keeps_or_raises_the_epoch() -> None:
    state = ProducerState()
    state.update(read_header(client_batch(b"x", producer=(7, 1, 0))))
    for epoch, remembered in ((1, 1), (2, 0)):
        marker = build_marker_batch(
            TransactionMarker(True, 0), timestamp_ms=5, producer_id=7, producer_epoch=epoch
        )
        state.update(read_header(marker))
        entry = state.get(7)
        assert entry is not None
        assert (entry.epoch, len(entry.batches)) == (epoch, remembered)
    assert check_sequence(entry, 7, 2, 0, 0) is None


def test_five_batches_are_remembered() -> None:
    entry = None
    for number in range(8):
        header = read_header(client_batch(b"x", producer=(7, 0, number)))
        header.base_offset = number
        entry = successor(entry, header)
    assert entry is not None
    assert [batch.first_sequence for batch in entry.batches] == [3, 4, 5, 6, 7]
    found = check_sequence(entry, 7, 0, 3, 3)
    assert found is not None
    assert found.first_offset == 3
