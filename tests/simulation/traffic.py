"""A small cluster with one topic and a client that writes to it, for the tests of single rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.replication.partition import Partition
from broker.simulation.cluster.client import SimulatedClient
from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import BROKER_PORT, NodePlace, SimulatedNode
from broker.simulation.rules.partition_watch import PartitionWatch
from broker.simulation.rules.rule_table import all_rules
from broker.simulation.rules.seen_partitions import SeenPartition
from broker.simulation.rules.wellness import reason_not_well
from broker.simulation.verdict import Violation
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch

TOPIC = "watched"
NODES = (1, 2, 3)
LIMIT_MS = 60_000


class Traffic:
    """A world of three nodes with all rules, a topic with three replicas, and a client that writes to it."""

    def __init__(self, seed: int, *, allows_unclean: bool = False) -> None:
        places = tuple(NodePlace(number, True, True) for number in NODES)
        plan = ClusterPlan(places, (), (), {}, 0, allows_unclean=allows_unclean)
        self.world = ClusterWorld(seed, places)
        self.world.rules += all_rules(self.world, plan)
        self.client = SimulatedClient(self.world.network, "client-1", seed)
        self.topic_id = bytes(16)
        self.world.start_all()
        self.until_over(self._create())
        self.world.loop.run_until(lambda: self.leader is not None, limit_ms=LIMIT_MS)

    def until_over(self, coroutine: object) -> None:
        self.client.begin(coroutine)  # type: ignore[arg-type]
        self.world.loop.run_until(lambda: self.client.is_over, limit_ms=LIMIT_MS)

    async def _create(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(TOPIC, 1, len(NODES))
        answer = await self.client.ask("node-1", BROKER_PORT, CreateTopicsRequest([topic], 5_000))
        assert isinstance(answer, CreateTopicsResponse), answer
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self.topic_id = answer.topics[0].topic_id

    def hosted(self, node: SimulatedNode) -> Partition | None:
        return next((each for each in node.partitions if each.topic == TOPIC), None)

    @property
    def leader(self) -> SimulatedNode | None:
        for node in self.world.nodes.values():
            hosted = self.hosted(node)
            if hosted is not None and hosted.is_leader:
                return node
        return None

    @property
    def followers(self) -> list[SimulatedNode]:
        return [node for node in self.world.nodes.values() if node is not self.leader]

    def write(self, count: int) -> None:
        """So many batches, each acknowledged by all."""
        self.until_over(self._write(count))

    async def _write(self, count: int) -> None:
        leader = self.leader
        assert leader is not None
        for number in range(count):
            record = SimpleRecord(timestamp=self.client.wall_ms(), value=f"{number}".encode())
            partition = ProduceRequest.PartitionProduceData(0, build_batch([record]))
            data = ProduceRequest.TopicProduceData(TOPIC, self.topic_id, [partition])
            request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data])
            answer = await self.client.ask(leader.place.host, BROKER_PORT, request)
            assert isinstance(answer, ProduceResponse), answer
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer

    async def find_coordinator(self) -> None:
        """Has the coordinator's topic made."""
        await self.client.ask("node-1", BROKER_PORT, FindCoordinatorRequest(coordinator_keys=["group"]))

    async def list_groups(self) -> None:
        await self.client.ask("node-1", BROKER_PORT, ListGroupsRequest())

    @property
    def watch(self) -> PartitionWatch:
        return next(rule for rule in self.world.rules if isinstance(rule, PartitionWatch))

    @property
    def seen(self) -> SeenPartition:
        return self.watch.cluster.partition(TOPIC, self.topic_id, 0)

    def content(self, node: SimulatedNode) -> bytearray:
        """The bytes of its log. Whoever changes them has the rules read them again."""
        hosted = self.hosted(node)
        assert hosted is not None
        hosted.log.segments.truncations += 1
        content = node.machine.files.content(hosted.log.active.log.path)
        assert content is not None
        return content

    def turn(self, node: SimulatedNode) -> None:
        """What the rules see after a turn of a node."""
        for rule in self.world.rules:
            rule.after_turn(node)


def strikes(rule: str, happen: Callable[[], None]) -> None:
    with pytest.raises(Violation) as caught:
        happen()
    assert caught.value.rule == rule, caught.value


def on_leader(traffic: Traffic) -> tuple[SimulatedNode, Partition]:
    node = traffic.leader
    assert node is not None
    hosted = traffic.hosted(node)
    assert hosted is not None
    return node, hosted


def becomes(traffic: Traffic, reason: str | None, *, within_ms: int = 20_000) -> bool:
    """Whether the cluster is once not well in this way (None: well), looked at every tenth of a second."""
    loop = traffic.world.loop
    for _ in range(within_ms // 100):
        found = reason_not_well(traffic.world)
        if found is None if reason is None else reason in (found or ""):
            return True
        loop.run_for(100)
    raise AssertionError(f"{found!r} in the end")
