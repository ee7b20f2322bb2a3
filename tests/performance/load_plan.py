"""A `Load` as the file that ``load_client.c`` reads: what to send, and where in it numbers change.

All numbers are int64 of the machine::

    magic, duration in ns, max bytes, 1 if offsets are checked, requests in flight, connections
    size of all tails, the tails
    for each connection: its port, the number of its frames, which it sends in turn, and for each frame
        size of the head, position of the tail among the tails, size of the tail
        bytes of the batch, records of the batch
        positions in the head of: sequence, checksum of the batch, fetch offset
        how far a fetch steps, its last offset; position of the session's id and epoch
        what each of the 32 bits of the sequence, from the lowest, does to the checksum
        the head

A position is -1 where a frame has no such number.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.crc import crc32c
from tests.performance.frames import (
    BATCH_CRC,
    BATCH_SEQUENCE,
    FetchFrame,
    ProduceFrame,
    batch_of,
    fetch_frame,
    frame_of,
)
from tests.performance.load import Load

MAGIC: Final = 0x6C6F6164
BATCH_HEADER_BYTES: Final = 61
_CHECKED_FROM: Final = 21
"""The checksum of a batch covers what follows itself."""


class _Planned(NamedTuple):
    numbers: list[int]
    head: bytes


class _Tails:
    """The ends of the requests: the records, kept once for all frames that have the same."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._known: dict[bytes, int] = {}

    def place(self, tail: bytes) -> int:
        if tail not in self._known:
            self._known[tail] = len(self.bytes)
            self.bytes += tail
        return self._known[tail]


def plan_of(load: Load) -> bytes:
    tails = _Tails()
    lanes = [_lane(load, connection, tails) for connection in range(load.connections)]
    duration_ns = int(load.seconds * 1e9)
    start = (MAGIC, duration_ns, load.max_bytes, int(load.checks_offsets), load.in_flight)
    pieces = [_integers(*start, load.connections, len(tails.bytes)), bytes(tails.bytes)]
    for connection, lane in enumerate(lanes):
        pieces.append(_integers(load.port_of(connection), len(lane)))
        pieces += [_integers(*planned.numbers) + planned.head for planned in lane]
    return b"".join(pieces)


def _integers(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}q", *numbers)


def _lane(load: Load, connection: int, tails: _Tails) -> list[_Planned]:
    mine = load.partitions_of(connection)
    if load.kind == "fetch":
        return [
            _fetch(load, fetch_frame(bytes.fromhex(topic_id), index, load.request_bytes), tails)
            for _, topic_id, index in mine
        ]
    producer_id = load.producer_id + connection if load.idempotent else -1
    batch = batch_of(load.request_bytes, load.record_bytes, producer_id)
    bits = _effect_of_sequence(batch[0]) if load.idempotent else [0] * 32
    return [
        _produce(frame_of(batch, topic, index, load.acks), load.idempotent, bits, tails)
        for topic, _, index in mine
    ]


def _produce(frame: ProduceFrame, idempotent: bool, bits: list[int], tails: _Tails) -> _Planned:
    cut = frame.batch_start + BATCH_HEADER_BYTES
    tail = bytes(frame.buffer[cut:])
    numbered = (frame.batch_start + BATCH_SEQUENCE, frame.batch_start + BATCH_CRC) if idempotent else (-1, -1)
    numbers = [cut, tails.place(tail), len(tail), frame.batch_bytes, frame.records]
    return _Planned([*numbers, *numbered, -1, 0, 0, -1, *bits], bytes(frame.buffer[:cut]))


def _fetch(load: Load, frame: FetchFrame, tails: _Tails) -> _Planned:
    batches = max(1, load.request_bytes // load.batch_bytes)
    step = batches * load.records_per_batch
    session = frame.session_position if load.in_session else -1
    head = bytes(frame.buffer)
    numbers = [len(head), 0, 0, 0, 0, -1, -1, frame.offset_position, step, load.end_offset - step, session]
    return _Planned([*numbers, *[0] * 32], head)


def _effect_of_sequence(batch: bytes) -> list[int]:
    """What each bit of the sequence does to the checksum: the same whatever the batch has in it."""
    checked = bytearray(batch[_CHECKED_FROM:])
    position = BATCH_SEQUENCE - _CHECKED_FROM
    plain = crc32c(bytes(checked))
    effects = []
    for bit in range(32):
        checked[position : position + 4] = (1 << bit).to_bytes(4)
        effects.append(crc32c(bytes(checked)) ^ plain)
    return effects
