"""`<offset>.snapshot`: the producers of a partition as they were when the log ended at that offset.

    int16   version (1)
    uint32  crc32c of all that follows
    int32   number of producers, then for each 46 bytes:

      int64 producer id    int16 epoch    int32 last sequence    int64 last offset    int32 offset delta
      int64 timestamp      int32 coordinator epoch               int64 first offset of the open transaction

Written at each roll and at a clean shutdown. A start takes the newest one and reads the headers of what
follows it. Only the last batch of each producer is kept: a duplicate of an older one is not recognised
after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from protocol.crc import crc32c
from storage.producer_state import NO_OFFSET, NO_SEQUENCE, ProducerBatch, ProducerEntry

_VERSION: Final = 1
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_SEQUENCE_MASK: Final = 0x7FFFFFFF


class CorruptProducerSnapshot(Exception):
    """The file is no snapshot, or damaged. The producers are then found from an older one or from the log."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_pack(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decodes a snapshot. Raises MalformedSnapshot."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptProducerSnapshot(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptProducerSnapshot(f"Producer snapshot has version {version}, known is {_VERSION}")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptProducerSnapshot("Producer snapshot has a wrong checksum")
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if count < 0 or len(entries) != count * _ENTRY.size:
        raise CorruptProducerSnapshot(f"Producer snapshot promises {count} producers in {len(entries)} bytes")
    return [_unpack(fields) for fields in _ENTRY.iter_unpack(entries)]


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_offset,
        last.last_offset - last.first_offset if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def _unpack(fields: tuple[int, int, int, int, int, int, int, int]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction = fields
    batches: tuple[ProducerBatch, ...] = ()
    if last_offset != NO_OFFSET:
        first_sequence = NO_SEQUENCE
        if last_sequence != NO_SEQUENCE:
            first_sequence = (last_sequence - delta) & _SEQUENCE_MASK
        batches = (ProducerBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp),)
    return ProducerEntry(producer_id, epoch, batches, timestamp, coordinator_epoch, transaction)
