"""A cluster of three under measurement: its topics, what it has cost so far, its failures.

`Side` is the same for ours and for Apache Kafka's. What it asks for goes over the wire in the house's own
messages, on connections that live for one question, so that nothing of a client library is measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.messages.metadata import MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP, TOPIC_CONFIG
from tests.performance.frames import PRODUCE_VERSION, batch_of
from tests.performance.processor_time import Spent, spent
from tests.support.brokers.cluster import BOTH, BROKER, CONTROLLER, KAFKAS, OURS, Cluster, Node
from tests.support.brokers.quorum import ABOUT_METADATA
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.genuine.tool_server import ToolServer

__all__ = ["Side"]

NODES: Final = 3
PLACES: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
"""The replicas of partitions in turn: each node leads a third of them."""
PREFERRED: Final = 0
SESSION_MS: Final = 3_000
PROPERTIES: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(SESSION_MS),
    "auto.leader.rebalance.enable": "false",
}
"""The same for both; all else is as it comes."""
NAMES: Final = {OURS: "Barnabas", KAFKAS: "Apache Kafka"}
ANSWER_SECONDS: Final = 120
POLL_SECONDS: Final = 0.005
SMALL_BATCH_BYTES: Final = 100
LONG_SECONDS: Final = 600
"""Apache Kafka with ten thousand partitions may need minutes for what is waited for."""
LONG_POLL_SECONDS: Final = 0.1
"""Between two looks at thousands of partitions, of which each costs some milliseconds."""

PartitionView = MetadataResponse.MetadataResponsePartition


class Side:
    """A running cluster of one kind; `close` ends it.

    with_controller: node 4 is the controller, and the other three are brokers only.
    """

    def __init__(self, kind: str, folder: Path, tools: ToolServer, *, with_controller: bool = False) -> None:
        self.name = NAMES[kind]
        roles = [*[BROKER] * NODES, CONTROLLER] if with_controller else [BOTH] * NODES
        self.cluster = Cluster(
            folder,
            [kind] * len(roles),
            roles=roles,
            tools=tools,
            properties=PROPERTIES,
            heap=KAFKA_HEAP,
            java_flags=KAFKA_FLAGS,
        )
        self._made = 0
        try:
            self.cluster.format().start().await_brokers()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.cluster.close()

    @property
    def nodes(self) -> list[Node]:
        return list(self.cluster.nodes.values())

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes if node.is_broker]

    def spent(self, nodes: Sequence[Node] = ()) -> Spent:
        """Of these nodes together, or of all."""
        each = [spent(node.pid) for node in nodes or self.nodes]
        return Spent(
            sum(one.user for one in each),
            sum(one.system for one in each),
            sum(one.page_faults for one in each),
        )

    def resident_bytes(self, nodes: Sequence[Node] = ()) -> float:
        """Of one of these nodes, or of all, on the average."""
        chosen = nodes or self.nodes
        return sum(node.resident_bytes() for node in chosen) / len(chosen)

    # Topics.

    def make_topic(self, replicas: Sequence[Sequence[int]]) -> str:
        """replicas: of each partition, the first one leads. Each has acknowledged a batch with acks=all: the
        metadata tells of a topic before its leaders lead, and before anybody follows."""
        self._made += 1
        name = f"bench-{self._made}"
        request = CreateTopicsRequest
        topic = request.CreatableTopic(
            name,
            -1,
            -1,
            [request.CreatableReplicaAssignment(index, list(ids)) for index, ids in enumerate(replicas)],
            [request.CreatableTopicConfig(key, value) for key, value in TOPIC_CONFIG.items()],
        )
        with self._client() as client:
            made = client.ask_for(CreateTopicsResponse, request([topic], 30_000), 7)
        _check(f"{self.name}: {name} was not made", made.topics[0].error_code)
        self.await_in_sync(name, replicas)
        self.await_taken(name, [ids[0] for ids in replicas])
        return name

    def await_taken(self, topic: str, leaders: Sequence[int]) -> None:
        """leaders: of each partition. Each has acknowledged a batch with acks=all."""
        for node_id in sorted(set(leaders)):
            led = [index for index, leader in enumerate(leaders) if leader == node_id]
            with WireClient(self.cluster.nodes[node_id].client_address) as client:
                self._await_acknowledged([client], topic, led)

    def await_in_sync(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """As every node's metadata says."""
        wanted = {index: sorted(ids) for index, ids in enumerate(replicas)}
        leaders = {index: ids[0] for index, ids in enumerate(replicas)}

        def all_in_sync() -> bool | None:
            for node_id in self.cluster.brokers:
                metadata = self.cluster.metadata(node_id, topic)
                if metadata is None:
                    return None
                found = [each for one in metadata.topics for each in one.partitions]
                if {each.partition_index: sorted(each.isr_nodes) for each in found} != wanted:
                    return None
                if {each.partition_index: each.leader_id for each in found} != leaders:
                    return None
            return True

        what = f"cluster in which all replicas of {topic} are in sync"
        self.cluster.wait(all_in_sync, what, seconds=LONG_SECONDS)

    def partitions_seen_by(self, node: Node, topics: Sequence[str]) -> list[PartitionView] | None:
        """Of all these topics, in their order, as this broker's metadata tell clients; None while it cannot
        be asked, does not know a topic, or a partition has no leader."""
        metadata = self.cluster.metadata(node.node_id, *topics)
        if metadata is None or any(each.error_code for each in metadata.topics):
            return None
        by_name = {each.name: each.partitions for each in metadata.topics}
        found = [
            partition
            for name in topics
            for partition in sorted(by_name[name], key=lambda each: each.partition_index)
        ]
        return None if any(each.error_code or each.leader_id < 0 for each in found) else found

    def await_seen(
        self, topics: Sequence[str], wanted: Callable[[PartitionView], bool], what: str, *apart_from: Node
    ) -> list[PartitionView]:
        """All brokers, apart from these, see all partitions of these topics as wanted; what the last one
        sees."""
        asked = [node for node in self.brokers if node not in apart_from]

        def seen() -> list[PartitionView] | None:
            view: list[PartitionView] | None = None
            for node in asked:
                view = self.partitions_seen_by(node, topics)
                if view is None or not all(wanted(each) for each in view):
                    return None
            return view

        what = f"cluster in which {what}"
        return self.cluster.wait(seen, what, poll_seconds=LONG_POLL_SECONDS, seconds=LONG_SECONDS)

    def await_replicated(self, topics: Sequence[str]) -> None:
        """Whoever leads: all replicas are in sync."""
        self.await_seen(
            topics, lambda each: len(each.isr_nodes) == len(each.replica_nodes), "all replicas are in sync"
        )

    def elect_preferred(self, topics: Sequence[str]) -> None:
        """The first replica of each partition leads again, as all brokers know."""
        request = ElectLeadersRequest(PREFERRED, None, 60_000)
        with self._client() as client:
            client.ask_for(ElectLeadersResponse, request, 2)
        self.await_seen(
            topics, lambda each: each.leader_id == each.replica_nodes[0], "preferred replicas lead"
        )

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        with self._client() as client:
            gone = client.ask_for(DeleteTopicsResponse, request, 5)
        _check(f"{self.name}: {name} was not deleted", gone.responses[0].error_code)

    def port_of(self, node_id: int) -> int:
        return self.cluster.nodes[node_id].client_port

    def catch_up(self, topic: str, replicas: Sequence[int]) -> float:
        """Partition 0 gets these replicas; seconds until all of them are in sync."""
        request = AlterPartitionReassignmentsRequest
        moved = request.ReassignableTopic(topic, [request.ReassignablePartition(0, list(replicas))])
        began = time.perf_counter()
        with self._client() as client:
            answer = client.ask_for(AlterPartitionReassignmentsResponse, request(30_000, topics=[moved]), 0)
        _check(f"{self.name}: {topic} was not moved", answer.error_code)
        self.await_in_sync(topic, [replicas])
        return time.perf_counter() - began

    # Failures.

    def controller_id(self) -> int:
        """The node that leads the quorum."""
        with WireClient(self.nodes[0].address, timeout_seconds=ANSWER_SECONDS) as client:
            answer = client.ask_for(DescribeQuorumResponse, ABOUT_METADATA, 2)
        return answer.topics[0].partitions[0].leader_id

    def seconds_without_leader(self, topic: str, leader: int, *, is_killed: bool) -> float:
        """From the signal (SIGKILL or SIGTERM) until another broker has acknowledged a batch with acks=all.
        The node is back when this returns."""
        node = self.cluster.nodes[leader]
        with contextlib.ExitStack() as stack:
            others = [
                stack.enter_context(WireClient(each.client_address))
                for each in self.nodes
                if each is not node
            ]
            began = time.perf_counter()
            if is_killed:
                node.kill()
            else:
                node.ask_to_stop()
            self._await_acknowledged(others, topic, [0])
            took = time.perf_counter() - began
        node.stop()
        node.start()
        self.cluster.await_brokers(*self.cluster.nodes)
        return took

    def _await_acknowledged(self, clients: Sequence[WireClient], topic: str, indexes: Sequence[int]) -> None:
        """One of them has taken a batch for each of these partitions, and those in sync have it."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            if any(_is_acknowledged(client, topic, indexes) for client in clients):
                return
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"{self.name}: nobody acknowledges a batch for {topic}, {indexes}")

    def _client(self) -> WireClient:
        return WireClient(self.nodes[0].client_address, timeout_seconds=ANSWER_SECONDS)


def _is_acknowledged(client: WireClient, topic: str, indexes: Sequence[int]) -> bool:
    """One record for each partition; also false if the broker has gone."""
    batch, _ = batch_of(SMALL_BATCH_BYTES, SMALL_BATCH_BYTES)
    data = [ProduceRequest.PartitionProduceData(index=index, records=batch) for index in indexes]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=data)],
    )
    with contextlib.suppress(OSError, ConnectionEnded):
        answer = client.ask_for(ProduceResponse, request, PRODUCE_VERSION)
        return all(each.error_code == ErrorCode.NONE for each in answer.responses[0].partition_responses)
    return False


def _check(what: str, error_code: int) -> None:
    if error_code:
        raise RuntimeError(f"{what}: {ErrorCode(error_code).name}")
