"""How long the codecs take, beside what they are meant to take.

    PYTHONPATH=. python tests/performance/codec.py

Best of several runs, in microseconds. The targets hold on the machine on which the design was measured.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from protocol.codec.compiler import decoder, encode, encoder, piece_encoder
from protocol.codec.message import Message
from protocol.codec.reading import Buffer
from protocol.framing import encode_request_frame, encode_response_frame
from protocol.headers import decode_request_header
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.metadata import MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.primitives import Records

TOPIC_ID: Final = bytes(range(16))


class Case(NamedTuple):
    name: str
    target_us: float | None
    run: Callable[[], object]


def produce_request(partitions: int) -> ProduceRequest:
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=bytes(1000)) for index in range(partitions)
    ]
    topic = ProduceRequest.TopicProduceData(name="measurements", partition_data=data)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response(partitions: int) -> ProduceResponse:
    answers = [
        ProduceResponse.PartitionProduceResponse(index=index, base_offset=1_000_000, log_start_offset=0)
        for index in range(partitions)
    ]
    topic = ProduceResponse.TopicProduceResponse(name="measurements", partition_responses=answers)
    return ProduceResponse(responses=[topic])


def fetch_request(partitions: int) -> FetchRequest:
    wanted = [
        FetchRequest.FetchPartition(
            partition=index, current_leader_epoch=3, fetch_offset=1_000_000, partition_max_bytes=1 << 20
        )
        for index in range(partitions)
    ]
    topic = FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=wanted)
    return FetchRequest(max_wait_ms=500, min_bytes=1, session_id=7, session_epoch=9, topics=[topic])


class FileSlice:
    """Stands for a piece of a segment file."""

    size_bytes = 1 << 20


def fetch_response(partitions: int, records: Records = bytes(1000)) -> FetchResponse:
    given = [
        FetchResponse.PartitionData(
            partition_index=index,
            high_watermark=1_000_000,
            last_stable_offset=1_000_000,
            log_start_offset=0,
            aborted_transactions=None,
            records=records,
        )
        for index in range(partitions)
    ]
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=given)
    return FetchResponse(session_id=7, responses=[topic])


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    given = [
        MetadataResponse.MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=2, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for index in range(partitions)
    ]
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=n, host="localhost", port=9092) for n in range(3)
    ]
    named = [
        MetadataResponse.MetadataResponseTopic(name=f"topic-{number}", topic_id=TOPIC_ID, partitions=given)
        for number in range(topics)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="cluster", controller_id=1, topics=named)


def cases() -> Iterator[Case]:
    frame = memoryview(encode_request_frame(produce_request(1), 12, 5, "producer-1"))[4:]
    yield Case("request header", 1.5, lambda: decode_request_header(frame, 0))
    for partitions, target in ((1, 4.0), (100, None)):
        raw = memoryview(encode(produce_request(partitions), 12))
        read = decoder(ProduceRequest, 12)
        yield Case(f"Produce 12 request, {partitions} partitions, decode", target, _call(read, raw))
    for partitions, target in ((1, None), (100, 100.0)):
        raw = memoryview(encode(fetch_request(partitions), 17))
        read_fetch = decoder(FetchRequest, 17)
        yield Case(f"Fetch 17 request, {partitions} partitions, decode", target, _call(read_fetch, raw))
    for partitions in (1, 100):
        answer = produce_response(partitions)
        write = encoder(ProduceResponse, 12)
        yield Case(f"Produce 12 response, {partitions} partitions, encode", None, _given(write, answer))
        pieces = piece_encoder(FetchResponse, 17)
        yield Case(
            f"Fetch 17 response, {partitions} partitions, encode",
            None,
            _given(pieces, fetch_response(partitions)),
        )
    sliced = fetch_response(1, FileSlice())
    yield Case("Fetch 17 response, 1 file slice, frame", None, lambda: encode_response_frame(sliced, 17, 5))
    whole = produce_response(1)
    yield Case("Produce 12 response, 1 partition, frame", None, lambda: encode_response_frame(whole, 12, 5))
    large = metadata_response(100, 10)
    yield Case(
        "Metadata 13 response, 100 topics of 10, encode", None, _given(encoder(MetadataResponse, 13), large)
    )
    raw_metadata = encode(large, 13)
    yield Case(
        "Metadata 13 response, 100 topics of 10, decode",
        None,
        _call(decoder(MetadataResponse, 13), raw_metadata),
    )


def _call(function: Callable[[Any, int], object], buffer: Buffer) -> Callable[[], object]:
    return lambda: function(buffer, 0)


def _given(function: Callable[[Any], object], message: Message) -> Callable[[], object]:
    return lambda: function(message)


def best_us(run: Callable[[], object]) -> float:
    """The best of many runs of some 2 ms each: short enough that a busy machine leaves some of them alone."""
    once = min(timeit.repeat(run, number=3, repeat=3)) / 3
    number = max(1, int(0.002 / once))
    return min(timeit.repeat(run, number=number, repeat=100)) / number * 1e6


def main() -> None:
    print(f"{'':52}{'µs':>9}{'target':>9}")
    for case in cases():
        target = f"≤ {case.target_us:g}" if case.target_us else ""
        print(f"{case.name:52}{best_us(case.run):9.2f}{target:>9}")


if __name__ == "__main__":
    main()
