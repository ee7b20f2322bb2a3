"""A whole cluster whose fate is told step by step, where a seed would have to be looked for for long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType

from broker.replication.partition import Partition
from broker.simulation.clients.cluster_client import ClusterClient
from broker.simulation.cluster.cluster_changes import newest_image
from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan, TopicPlan
from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.simulated_node import DATA, NodePlace, SimulatedNode
from broker.simulation.verdict import only_contained_errors
from controller.metadata.image.topics import PartitionRegistration
from controller.raft.transitions import Role
from tests.simulation.mutant_arenas import PROPERTIES

__all__ = ["CONTROLLER", "TOPIC", "ClusterByHand"]

TOPIC = "topic-1"
CONTROLLER = "node-101"
PRODUCER = ClientPlan("producer", "producer-1", (TOPIC,), options={"pause_ms": "60"})
LIMIT_MS = 30_000


class ClusterByHand:
    """Three brokers or more, and a controller; one topic with one partition of three replicas, and a producer
    that waits for all in sync."""

    def __init__(
        self,
        seed: int = 1,
        *,
        brokers: int = 3,
        controllers: int = 1,
        topic_partitions: int = 1,
        topic_configs: Mapping[str, str] = MappingProxyType({}),
        clients: tuple[ClientPlan, ...] = (PRODUCER,),
        features: Mapping[str, int] = MappingProxyType({}),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        settings = {**PROPERTIES, **properties}
        places = (
            *(NodePlace(100 + number, False, True, settings) for number in range(1, controllers + 1)),
            *(NodePlace(number, True, False, settings) for number in range(1, brokers + 1)),
        )
        topics = (TopicPlan(TOPIC, topic_partitions, 3, {"min.insync.replicas": "2", **topic_configs}),)
        self.run = ClusterRun(seed, ClusterPlan(places, topics, clients, {}, 1_000, features=features), ())
        self.world = self.run.world
        self._cut: list[tuple[str, str]] = []
        with self.quiet():
            self.run.start()

    # What is

    @property
    def registration(self) -> PartitionRegistration:
        """Of the partition, by the newest image of any broker."""
        image = newest_image(self.world)
        assert image is not None
        return image.topics.by_name[TOPIC].partitions[0]

    @property
    def leader(self) -> SimulatedNode:
        return self.world.nodes[self.registration.leader]

    @property
    def followers(self) -> list[SimulatedNode]:
        return [self.world.nodes[each] for each in self.registration.replicas if each != self.leader.node_id]

    @property
    def controllers(self) -> list[SimulatedNode]:
        """The one that leads comes first."""
        nodes = [node for node in self.world.nodes.values() if node.place.is_controller]
        return sorted(nodes, key=lambda node: not self.leads_quorum(node))

    @staticmethod
    def leads_quorum(node: SimulatedNode) -> bool:
        return node.quorum_replica is not None and node.quorum_replica.role is Role.LEADER

    @property
    def producer(self) -> ClusterClient:
        return self.run.clients[0]

    def hosted(self, node: SimulatedNode) -> Partition:
        return next(each for each in node.partitions if each.topic == TOPIC)

    def epoch_in_image(self, node: SimulatedNode) -> int:
        """The partition epoch that a broker has read in the metadata log."""
        assert node.image is not None
        return node.image.topics.by_name[TOPIC].partitions[0].partition_epoch

    def is_unfenced(self, node: SimulatedNode) -> bool:
        """In its present life, by what others know."""
        image = newest_image(self.world)
        broker = None if image is None else image.brokers.get(node.node_id)
        epoch = -1 if node.broker is None else node.broker.lifecycle.epoch
        return broker is not None and broker.active and broker.epoch == epoch

    def is_fenced(self, node: SimulatedNode) -> bool:
        image = newest_image(self.world)
        broker = None if image is None else image.brokers.get(node.node_id)
        return broker is not None and broker.fenced

    # What happens

    def quiet(self) -> AbstractContextManager[None]:
        """For whatever runs code of nodes: they log nothing, and what they contain is judged as in a run."""
        return only_contained_errors(self.world.contained.append)

    def wait_ms(self, duration_ms: int) -> None:
        with self.quiet():
            self.world.loop.run_for(duration_ms)

    def wait_until(self, condition: Callable[[], object]) -> None:
        with self.quiet():
            self.world.loop.run_until(condition, limit_ms=LIMIT_MS)

    def cut(self, source: str, target: str) -> None:
        """Nothing comes from one machine to another."""
        self.world.network.links.of(source, target).cuts += 1
        self._cut.append((source, target))

    def join_all(self) -> None:
        for way in tuple(self._cut):
            self.join(*way)

    def join(self, source: str, target: str) -> None:
        self._cut.remove((source, target))
        self.world.network.links.of(source, target).cuts -= 1
        self.world.network.flow()

    def cut_both_ways(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def join_both_ways(self, one: str, other: str) -> None:
        self.join(one, other)
        self.join(other, one)

    def stop(self, node: SimulatedNode) -> None:
        """In order."""
        node.machine.stop()
        self.wait_until(lambda: not node.is_up)

    def lose_log(self, node: SimulatedNode) -> None:
        """Of the partition, and nothing else."""
        node.machine.files.rmtree(f"{DATA}/{TOPIC}-0")

    def start_empty(self, node: SimulatedNode) -> None:
        """With another disk."""
        node.machine.lose_disk()
        node.format()
        self.start(node)

    def start(self, node: SimulatedNode) -> None:
        """Until it is unfenced."""
        with self.quiet():
            node.start()
        self.wait_until(lambda: node.is_ready and self.is_unfenced(node))

    def end(self) -> None:
        """All trouble is over, and all is judged."""
        with self.quiet():
            self.run.calm()
            self.run.finish()
            self.run.judge()
