"""Batches on their way to the leaders of their partitions, as producers send them.

A round sends each batch once: all that go to one broker in requests that follow each other without waiting,
the first batch of each partition in the first request, the second in the second one, and so on. What is to
be done about each answer is the producer's to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from broker.simulation.clients.answer_errors import NOT_WRITTEN, REFRESHES
from broker.simulation.clients.client_metadata import PartitionLeader
from broker.simulation.clients.cluster_client import ClusterClient
from broker.simulation.cluster.cluster_world import AskedBroker
from broker.simulation.histories.history import Record
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.peer_channel import PeerError
from protocol.values import ZERO_UUID

__all__ = [
    "OutgoingBatch",
    "Place",
    "by_place",
    "is_out_of_order",
    "send_round",
    "send_unanswered",
    "written",
]

PRODUCE_TIMEOUT_MS: Final = 10_000

Place = tuple[str, int]
"""Topic and partition."""


class OutgoingBatch:
    """values, keys: of its records, in their order. data: the batch as it is sent, each time the same.

    code: of the last answer; None if there was none. is_sent: whether it may have reached a broker at all.
    is_uncertain: some try of it may have been written without anybody saying so.
    outcome: what has become of it; empty while that is open. asked_node, topic_id: of the last try.
    """

    def __init__(
        self, place: Place, values: Sequence[str], keys: Iterable[str], data: bytes, base_sequence: int = -1
    ) -> None:
        self.place = place
        self.values = tuple(values)
        self.keys = tuple(keys)
        self.data = data
        self.base_sequence = base_sequence
        self.code: int | None = None
        self.is_uncertain = False
        self.outcome: Literal["", "ok", "fail", "info"] = ""
        self.base_offset: int | None = None
        self.asked_node: AskedBroker | None = None
        self.topic_id = ZERO_UUID

    def give_up(self) -> None:
        """It is not sent any more."""
        self.outcome = "info" if self.is_uncertain else "fail"

    def answered(self, code: int, base_offset: int) -> None:
        self.code = code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.outcome = "ok"
            self.base_offset = base_offset if code == ErrorCode.NONE and base_offset >= 0 else None
        elif code not in NOT_WRITTEN:
            self.is_uncertain = True

    @property
    def records(self) -> list[Record]:
        """For the history, with offsets as far as they are known."""
        topic, partition = self.place
        base = self.base_offset
        return [
            Record(f"{topic}-{partition}", value, None if base is None else base + index, key)
            for index, (value, key) in enumerate(zip(self.values, self.keys, strict=True))
        ]


def by_place(batches: Iterable[OutgoingBatch]) -> dict[Place, list[OutgoingBatch]]:
    """Those of which it is open what becomes of them, in their order."""
    found: dict[Place, list[OutgoingBatch]] = {}
    for batch in batches:
        if not batch.outcome:
            found.setdefault(batch.place, []).append(batch)
    return found


def written(batches: Iterable[OutgoingBatch]) -> list[Record]:
    """The records whose offsets were told."""
    return [record for batch in batches if batch.base_offset is not None for record in batch.records]


def is_out_of_order(client: ClusterClient, queue: Sequence[OutgoingBatch], index: int) -> bool:
    """Whether a batch of a partition was refused for its sequence, though all before it in the queue are
    written; else it has only come too early. Shows such a refusal to those who judge it, unless a try of it
    may have been written: a leader need not know that batch again when it has one behind it."""
    batch = queue[index]
    is_first = all(each.outcome for each in queue[:index])
    if batch.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not is_first:
        return False
    if batch.asked_node is not None and not batch.is_uncertain:
        why = f"sequence {batch.base_sequence} is out of order"
        client.is_refused(batch.asked_node, batch.topic_id, batch.place[1], why)
    return True


async def send_round(
    client: ClusterClient,
    batches: Mapping[Place, Sequence[OutgoingBatch]],
    *,
    acks: int,
    transactional_id: str | None = None,
) -> None:
    """Sends each batch once, if its partition has a leader, and notes the answers in the batches."""
    requests = await _by_request(client, batches)

    async def send(node_id: int, members: list[tuple[PartitionLeader, OutgoingBatch]]) -> None:
        asked_node = client.asks(node_id)
        for leader, batch in members:
            batch.asked_node, batch.topic_id = asked_node, leader.topic_id
        answer = await client.ask_node(node_id, _request(members, acks, transactional_id))
        if isinstance(answer, ProduceResponse):
            _take_answer(client, answer, [batch for _, batch in members])
            return
        client.metadata.expire()
        if not (isinstance(answer, PeerError) and answer.is_unsupported):
            for _, batch in members:
                batch.is_uncertain = True

    await client.together([send(node_id, members) for (_, node_id), members in sorted(requests.items())])


async def send_unanswered(client: ClusterClient, batches: Mapping[Place, Sequence[OutgoingBatch]]) -> None:
    """With acks=0: nobody says what becomes of them."""
    for (_, node_id), members in sorted((await _by_request(client, batches)).items()):
        client.send(*client.metadata.brokers[node_id], _request(members, 0, None))
        for _, batch in members:
            batch.is_uncertain = True


async def _by_request(
    client: ClusterClient, batches: Mapping[Place, Sequence[OutgoingBatch]]
) -> dict[tuple[int, int], list[tuple[PartitionLeader, OutgoingBatch]]]:
    """By the number of the request and the broker to which it goes."""
    requests: dict[tuple[int, int], list[tuple[PartitionLeader, OutgoingBatch]]] = {}
    leaders = {place: await client.leader(*place) for place in batches}
    for place, queue in batches.items():
        leader = leaders[place]
        for index, batch in enumerate(queue):
            batch.code = None
            if leader is not None:
                requests.setdefault((index, leader.node_id), []).append((leader, batch))
    return requests


def _request(
    members: Iterable[tuple[PartitionLeader, OutgoingBatch]], acks: int, transactional_id: str | None
) -> ProduceRequest:
    topics: dict[str, ProduceRequest.TopicProduceData] = {}
    for leader, batch in members:
        name, partition = batch.place
        topic = topics.setdefault(name, ProduceRequest.TopicProduceData(name, leader.topic_id, []))
        topic.partition_data.append(ProduceRequest.PartitionProduceData(partition, batch.data))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=list(topics.values()),
    )


def _take_answer(client: ClusterClient, answer: ProduceResponse, batches: list[OutgoingBatch]) -> None:
    metadata = client.metadata
    for endpoint in answer.node_endpoints:
        metadata.told_broker(endpoint.node_id, endpoint.host, endpoint.port)
    waiting = {batch.place: batch for batch in batches}
    for topic in answer.responses:
        name = topic.name or metadata.name(topic.topic_id)
        for each in topic.partition_responses:
            batch = waiting.pop((name, each.index), None)
            if batch is not None:
                batch.answered(each.error_code, each.base_offset)
            if each.error_code in REFRESHES:
                metadata.expire()
            if each.current_leader is not None:
                told = each.current_leader
                metadata.told_leader(name, each.index, told.leader_id, told.leader_epoch)
    for batch in waiting.values():
        batch.is_uncertain = True
