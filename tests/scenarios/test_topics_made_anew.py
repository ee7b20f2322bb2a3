"""Topics deleted and made anew while producers write to them by id: what was acknowledged can be read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from protocol.errors import ErrorCode
from protocol.framing import decode_response
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.wire_client import WireClient

TOPICS: Final = 80
PARTITIONS: Final = 10
ROUNDS: Final = 4

NAMES: Final = [f"made-anew-{number}" for number in range(TOPICS)]
MAY_COME: Final = {
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}

Acknowledged = tuple[bytes, int, int, bytes]
"""Topic id, partition, offset and value."""


def create(client: WireClient) -> list[bytes] | None:
    """The ids of the topics; None if they are still there."""
    topics = [CreateTopicsRequest.CreatableTopic(name, PARTITIONS, 1) for name in NAMES]
    response = client.ask_for(CreateTopicsResponse, CreateTopicsRequest(topics, 30_000), 7)
    errors = {each.error_code for each in response.topics}
    if errors == {ErrorCode.TOPIC_ALREADY_EXISTS}:
        return None
    assert errors == {0}
    return [each.topic_id for each in response.topics]


def make_anew(client: WireClient, other: WireClient) -> list[bytes]:
    """All topics deleted and created, the second before the first is answered: both are committed at once,
    and the broker hears of them in one breath."""
    topics = [DeleteTopicsRequest.DeleteTopicState(name) for name in NAMES]
    client.send(DeleteTopicsRequest(topics, timeout_ms=30_000), 6)
    while (ids := create(other)) is None:
        pass
    _, deleted = decode_response(DeleteTopicsResponse, 6, client.receive())
    assert {each.error_code for each in deleted.responses} == {0}
    return ids


class Producer(threading.Thread):
    """Writes to all partitions of topics, and notes what the broker acknowledged and refused."""

    def __init__(self, address: str, ids: Sequence[bytes]) -> None:
        super().__init__(daemon=True)
        self._client = WireClient(address)
        self._ids = ids
        self.acknowledged: list[Acknowledged] = []
        self.refused: set[ErrorCode] = set()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with self._client as client:
                for index in range(PARTITIONS):
                    for made in self._ids:
                        self._write(client, made, index)
        except BaseException as problem:
            self.problem = problem

    def _write(self, client: WireClient, made: bytes, index: int) -> None:
        value = f"{self.name}.{made.hex()}.{index}.{len(self.acknowledged)}.".encode()
        batch = bytes(build_batch([SimpleRecord(None, value, 1)]))
        partition = ProduceRequest.PartitionProduceData(index, batch)
        topic = ProduceRequest.TopicProduceData("", made, [partition])
        response = client.ask_for(ProduceResponse, ProduceRequest(None, 1, 5_000, [topic]), 13)
        (answer,) = response.responses[0].partition_responses
        if answer.error_code:
            self.refused.add(ErrorCode(answer.error_code))
        else:
            self.acknowledged.append((made, index, answer.base_offset, value))


def lost(client: WireClient, acknowledged: Sequence[Acknowledged]) -> Iterator[Acknowledged]:
    """What is not where the broker said."""
    logs: dict[tuple[bytes, int], bytes] = {}
    for made, index, offset, value in acknowledged:
        if (made, index) not in logs:
            partition = FetchRequest.FetchPartition(index, -1, 0, partition_max_bytes=1 << 24)
            topic = FetchRequest.FetchTopic(topic_id=made, partitions=[partition])
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[topic])
            data = client.ask_for(FetchResponse, request, 13).responses[0].partitions[0]
            assert data.error_code == 0
            logs[made, index] = bytes(data.records or b"")  # type: ignore[arg-type]
        place = logs[made, index].find(value)
        # One record a batch: the offset stands at the batch's begin.
        batch_at = logs[made, index].rfind(offset.to_bytes(8), 0, max(place, 0))
        if offset < 0 or place < 0 or batch_at < 0 or place - batch_at > 120:
            yield made, index, offset, value


def test_what_was_acknowledged_to_a_topic_made_anew_can_be_read(tmp_path: Path) -> None:
    broker = BarnabasProcess(tmp_path / "data")
    with (
        broker.start(),
        WireClient(broker.bootstrap_servers) as client,
        WireClient(broker.bootstrap_servers) as other,
    ):
        known = create(client)
        assert known is not None
        written = 0
        for _ in range(ROUNDS):
            made_anew = make_anew(client, other)
            everywhere = [*reversed(made_anew), *known, *made_anew]
            producers = [Producer(broker.bootstrap_servers, ids) for ids in (made_anew[::-1], everywhere)]
            for producer in producers:
                producer.start()
            for producer in producers:
                producer.join(240)
                assert not producer.is_alive()
                assert producer.problem is None
                assert producer.refused <= MAY_COME
                assert all(offset >= 0 for _, _, offset, _ in producer.acknowledged)
                readable = [each for each in producer.acknowledged if each[0] in made_anew]
                assert list(lost(client, readable)) == []
                written += len(readable)
            known = made_anew
        assert written > ROUNDS * TOPICS * PARTITIONS
