"""Three nodes that replicate a topic; the leader loses its power in the middle of appends.

    python -m tests.simulation.replicated_topic SEED …     one story for each seed, one after the other

All three are brokers and controllers. A client produces with acks=all; then the leader's power is cut while
appends with acks=1 are under way, of which the followers have some. Another node is elected, and goes on. The
old leader starts again from its disk, cuts what nobody else has, and copies the rest. At the end each replica
has the same bytes, and every record that all had acknowledged is there, once and in order.
"""

from __future__ import annotations

import sys
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.header import headers
from protocol.records.reader import batch_records
from storage.memory_files import Torn
from tests.simulation.three_nodes import (
    CLUSTER_ID,
    DATA,
    NODES,
    RECORDS,
    TOPIC,
    Client,
    Story,
    base_offset,
    node_config,
    run_stories,
)

BATCHES: Final = 10
BATCHES_AT_THE_CUT: Final = 6
MOST_CALLS_BEFORE_THE_CUT: Final = 40
NO_LEADER: Final = -1


class ReplicatedStory(Story):
    """kept: what was acknowledged with acks=all, in order."""

    brokers = NODES

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.clients = {number: Client(self, f"node-{number}") for number in NODES}
        self.client = self.clients[1]
        self.kept: list[str] = []

    def run(self) -> None:
        self.start_all()
        self.until(lambda: all(len(self.metadata(number).brokers) == len(NODES) for number in NODES))
        self.replicate_topic()
        self.produce(1, "before")
        self.cut_the_leader()
        leader = self.new_leader()
        self.produce(leader, "after")
        if not self.log_bytes(leader).startswith(self.log_bytes(1)):
            self.tell("node 1 has bytes that no other node has")
        self.machines[0].start(node_config(1, NODES), CLUSTER_ID)
        self.until(self.are_same)
        self.check()
        self.stop()
        self.tell(f"{self.network.arrivals} arrivals, {self.loop.calls} calls, {self.network.digest}")

    def metadata(self, number: int) -> MetadataResponse:
        asked = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
        response = self.clients[number].ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        assert isinstance(response, MetadataResponse), response
        return response

    def leader_of(self, number: int) -> int:
        """As this node knows it."""
        topic = self.metadata(number).topics[0]
        return topic.partitions[0].leader_id if topic.partitions else NO_LEADER

    def replicate_topic(self) -> None:
        placed = CreateTopicsRequest.CreatableReplicaAssignment(0, list(NODES))
        topic = CreateTopicsRequest.CreatableTopic(TOPIC, -1, -1, assignments=[placed])
        response = self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        assert isinstance(response, CreateTopicsResponse), response
        assert response.topics[0].error_code == ErrorCode.NONE, response
        self.topic_id = response.topics[0].topic_id
        self.until(lambda: all(self.leader_of(number) == 1 for number in NODES))

    def produce(self, number: int, name: str) -> None:
        """With acks=all. A batch that is not acknowledged at once, as the leader is new, is sent again."""
        client = self.clients[number]
        for batch in range(BATCHES):
            while True:
                answer = client.ask(self.batch(f"{name}-{batch}"))
                assert isinstance(answer, ProduceResponse), answer
                error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                if error == ErrorCode.NONE:
                    break
                assert error.retriable, error
                self.loop.run_for(100)
            self.acknowledged.append(base_offset(answer))
            self.kept += [f"{name}-{batch}.{each}" for each in range(RECORDS)]
        self.tell(f"produced to offset {self.acknowledged[-1] + RECORDS - 1} at node {number}")

    def unsafe_batch(self, name: str) -> ProduceRequest:
        """One that is acknowledged by the leader alone."""
        request = self.batch(name)
        request.acks = 1
        return request

    def cut_the_leader(self) -> None:
        """When it has taken several batches: the first is on its way to the followers, for their fetches wait
        for it, and the others follow with the next fetches, if these still come."""
        leader = self.machines[0]
        several = self.log_end(1) + 2 * RECORDS
        asked = [self.client.send(self.unsafe_batch(f"at the cut-{n}")) for n in range(BATCHES_AT_THE_CUT)]
        self.until(lambda: self.log_end(1) >= several)
        for _ in range(leader.random.below(MOST_CALLS_BEFORE_THE_CUT)):
            self.loop.step()
        answered = sum(map(bool, asked))
        ends = [self.log_end(number) for number in NODES]
        keeps_all = leader.random.below(2)
        leader.cut_power(
            lambda _path, unsynced_bytes: Torn(
                unsynced_bytes if keeps_all else leader.random.between(0, unsynced_bytes)
            )
        )
        self.tell(f"power cut: {answered} of {len(asked)} answered, the logs end at {ends}")
        self.until(lambda: all(asked))

    def new_leader(self) -> int:
        self.until(lambda: self.leader_of(2) in (2, 3) and self.leader_of(2) == self.leader_of(3))
        leader = self.leader_of(2)
        self.tell(f"node {leader} leads")
        return leader

    # The logs.

    def log_bytes(self, number: int) -> bytes:
        return self.machines[number - 1].files.read_bytes(f"{DATA}/{TOPIC}-0/{0:020}.log")

    def log_end(self, number: int) -> int:
        ends = [header.next_offset for _, header in headers(self.log_bytes(number))]
        return ends[-1] if ends else 0

    def are_same(self) -> bool:
        first = self.log_bytes(1)
        end = self.acknowledged[-1] + RECORDS
        return self.log_end(1) == end and all(self.log_bytes(number) == first for number in NODES[1:])

    def check(self) -> None:
        content = memoryview(self.log_bytes(1))
        values = [(record.value or b"").decode() for record in batch_records(content)]
        safe = [value for value in values if not value.startswith("at the cut")]
        assert safe == self.kept, (safe, self.kept)
        self.tell(f"{len(values)} records are the same on all nodes, {len(values) - len(safe)} of the cut")


if __name__ == "__main__":
    run_stories(ReplicatedStory, sys.argv[1:])
