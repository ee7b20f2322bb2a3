"""Frames built once and sent many times: Produce v12 with one batch, Fetch v17 of one partition."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from protocol.framing import encode_request_frame
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import SimpleRecord, build_batch

BATCH_CRC: Final = 17
BATCH_SEQUENCE: Final = 53
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 17
_OFFSET_MARK: Final = 0x0123456789ABCDEF
_SESSION_MARK: Final = 0x5E5510AD


class ProduceFrame(NamedTuple):
    """A whole request; the batch lies at ``batch_start`` and is ``batch_bytes`` long."""

    topic: str
    buffer: bytearray
    batch_start: int
    batch_bytes: int
    records: int


class FetchFrame(NamedTuple):
    """A whole request; the fetch offset is eight bytes at ``offset_position``, the id of the session four at
    ``session_position`` with its epoch in four behind it."""

    buffer: bytearray
    offset_position: int
    session_position: int


def batch_of(size_bytes: int, record_bytes: int, producer_id: int = -1) -> tuple[bytes, int]:
    """A batch of about ``size_bytes`` in records of ``record_bytes`` values, and how many they are."""
    count = max(1, size_bytes // (record_bytes + 10))
    value = bytes(33 + index % 90 for index in range(record_bytes))
    epoch, sequence = (0, 0) if producer_id >= 0 else (-1, -1)
    now_ms = int(time.time() * 1000)
    batch = build_batch(
        [SimpleRecord(key=None, value=value, timestamp=now_ms) for _ in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return bytes(batch), count


def produce_frame(
    topic: str, partition: int, size_bytes: int, record_bytes: int, producer_id: int = -1, acks: int = -1
) -> ProduceFrame:
    return frame_of(batch_of(size_bytes, record_bytes, producer_id), topic, partition, acks)


def frame_of(counted: tuple[bytes, int], topic: str, partition: int, acks: int = -1) -> ProduceFrame:
    """A request with a batch that `batch_of` made."""
    batch, count = counted
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    frame = bytearray(encode_request_frame(request, PRODUCE_VERSION, 1, "bench"))
    return ProduceFrame(topic, frame, frame.index(batch), len(batch), count)


def fetch_frame(
    topic_id: bytes, partition: int, max_bytes: int, *, max_wait_ms: int = 500, min_bytes: int = 1
) -> FetchFrame:
    fetched = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=_OFFSET_MARK, partition_max_bytes=max_bytes
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max(max_bytes, 1),
        session_id=_SESSION_MARK,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[fetched])],
    )
    frame = bytearray(encode_request_frame(request, FETCH_VERSION, 1, "bench"))
    session = frame.index(_SESSION_MARK.to_bytes(4))
    frame[session : session + 4] = bytes(4)
    return FetchFrame(frame, frame.index(_OFFSET_MARK.to_bytes(8)), session)
