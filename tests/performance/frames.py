"""Frames built once and sent many times: Produce v12 with one batch, Fetch v17 without a session."""

from __future__ import annotations

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


class ProduceFrame(NamedTuple):
    """A whole request; the batch lies at ``batch_start`` and is ``batch_bytes`` long."""

    topic: str
    buffer: bytearray
    batch_start: int
    batch_bytes: int
    records: int


class FetchFrame(NamedTuple):
    """A whole request; the fetch offset is eight bytes at ``offset_position``."""

    buffer: bytearray
    offset_position: int


def batch_of(size_bytes: int, record_bytes: int, producer_id: int = -1) -> tuple[bytes, int]:
    """A batch of about ``size_bytes`` in records of ``record_bytes`` values, and how many they are."""
    count = max(1, size_bytes // (record_bytes + 10))
    value = bytes(33 + index % 90 for index in range(record_bytes))
    epoch, sequence = (0, 0) if producer_id >= 0 else (-1, -1)
    batch = build_batch(
        [SimpleRecord(key=None, value=value, timestamp=_now_ms()) for _ in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return bytes(batch), count


def _now_ms() -> int:
    import time

    return int(time.time() * 1000)


def produce_frame(
    topic: str, partition: int, size_bytes: int, record_bytes: int, producer_id: int = -1
) -> ProduceFrame:
    batch, count = batch_of(size_bytes, record_bytes, producer_id)
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=-1,
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
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[fetched])],
    )
    frame = bytearray(encode_request_frame(request, FETCH_VERSION, 1, "bench"))
    return FetchFrame(frame, frame.index(_OFFSET_MARK.to_bytes(8)))
