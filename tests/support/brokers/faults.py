"""What may happen to a running cluster of three: nodes die, stop, pause, are cut off, and lose disks.

One node at a time is out of order, or one pair of nodes has no network between them, so that a majority of
controllers and two of three replicas (as many as `min.insync.replicas`) remain: clients may wait, and nothing
may be lost. When one node is killed while another is cut off there is no majority for a while.

A node's second disk (`failing_disks`) is full for a while, goes, or is replaced by an empty one. Barnabas
goes on by itself when a full disk has room; Apache Kafka gives the directory up and is started anew.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.support.brokers.cluster import FAST, Cluster, Node
from tests.support.brokers.cut_network import BLACK_HOLE, RESET
from tests.support.brokers.failing_disks import FailingDisks, NodeDisk

__all__ = ["CUTS", "FIRE", "ON_DISKS", "ON_NODES", "Faults", "await_in_sync"]

SESSION_MS: Final = 4_000
BEYOND_SESSION_SECONDS: Final = 1.5 * SESSION_MS / 1000
FIRE: Final = {
    **FAST,
    "broker.session.timeout.ms": str(SESSION_MS),
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
    "metadata.log.max.record.bytes.between.snapshots": "10000",
    "offsets.topic.replication.factor": "3",
}
"""Properties of a cluster that is put under fire. There is a new snapshot of the metadata log each minute, so
that most starts begin from one in which leaders are not what they are now."""

ON_NODES: Final = ("kill -9", "clean stop", "short pause", "pause beyond the session")
CUTS: Final = (
    f"two nodes cut, {RESET}",
    f"two nodes cut, {BLACK_HOLE}",
    "two nodes cut, one way",
    f"a node cut off, {RESET}",
    f"a node cut off, {BLACK_HOLE}",
    "a node cut off, another one killed",
)
"""Of a cluster with a `network`; some end within the session, some do not."""
FULL_DISK: Final = "full disk"
ON_DISKS: Final = (FULL_DISK, "log directory gone for a while", "disk replaced by an empty one")
"""Of a cluster with `FailingDisks`; the first one only where they can be full."""


class Faults:
    """`begin` names the next one and `run` does it; each happens once in a round, in an order of its own.

    names: of those that may happen; without them all for which there are a network and disks. topic: whose
    replicas on a disk that is taken away are waited for.
    """

    def __init__(
        self,
        cluster: Cluster,
        chance: random.Random,
        topic: str,
        names: Sequence[str] = (),
        *,
        disks: FailingDisks | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.given_up = 0
        """How often a process could not write to a full disk, gave it up and was started anew."""
        on_disks = [
            each for each in ON_DISKS if disks is not None and (disks.can_be_full or each != FULL_DISK)
        ]
        possible = [*ON_NODES, *(CUTS if cluster.network is not None else ()), *on_disks]
        self.names = [each for each in possible if not names or each in names]
        self._cluster = cluster
        self._random = chance
        self._topic = topic
        self._disks = disks
        self._round: list[str] = []

    def begin(self) -> tuple[str, Node]:
        """What is done next, and to which node first."""
        node = self._cluster.nodes[self._random.choice(list(self._cluster.nodes))]
        if not self._round:
            self._round = self._random.sample(self.names, len(self.names))
        name = self._round.pop()
        self.counts[name] += 1
        return name, node

    def run(self, name: str, node: Node) -> None:
        """When it returns the fault is over; the cluster may still be at work with what follows."""
        away_seconds = self._random.uniform(0.2, 2.0)
        if name == "kill -9":
            node.kill()
            time.sleep(away_seconds)
            node.start()
        elif name == "clean stop":
            node.stop()
            time.sleep(away_seconds)
            node.start()
        elif name in CUTS:
            self._cut(name, node.node_id, away_seconds)
        elif name == FULL_DISK:
            self._fill(node, away_seconds)
        elif name in ON_DISKS:
            self._take_away(name, node, away_seconds)
        else:
            node.pause()
            time.sleep(away_seconds if name == "short pause" else away_seconds + BEYOND_SESSION_SECONDS)
            node.resume()

    def _cut(self, name: str, node_id: int, away_seconds: float) -> None:
        """Between this node and another one or all others, for so long or until sessions are over."""
        network = self._cluster.network
        if network is None:
            raise ValueError("a cluster without CutNetwork cannot be cut")
        other = self._random.choice([each for each in self._cluster.nodes if each != node_id])
        how = RESET if name.endswith(RESET) else BLACK_HOLE
        if name.endswith("killed"):
            network.cut_off(node_id, how)
            self._cluster.nodes[other].kill()
        elif name.startswith("a node"):
            network.cut_off(node_id, how)
        elif name.endswith("one way"):
            network.cut_one_way(node_id, other)
        else:
            network.cut(node_id, other, how)
        time.sleep(away_seconds + self._random.choice([0, BEYOND_SESSION_SECONDS]))
        if not self._cluster.nodes[other].is_running:
            self._cluster.nodes[other].start()
        network.heal()

    def _fill(self, node: Node, away_seconds: float) -> None:
        """For longer than followers may lag, every other time."""
        disk = self._disk(node)
        disk.fill()
        time.sleep(away_seconds + self._random.choice([0, BEYOND_SESSION_SECONDS]))
        disk.make_room()
        if disk.is_offline():
            self.given_up += 1
            node.stop()
            node.start()

    def _take_away(self, name: str, node: Node, away_seconds: float) -> None:
        """Until others know that its replicas are offline, and a little longer; then it is stopped or killed,
        and started."""
        disk = self._disk(node)
        disk.take_away()
        gone = disk.away(self._topic)
        other = min(each for each in self._cluster.nodes if each != node.node_id)

        def are_offline() -> bool | None:
            metadata = self._cluster.metadata(other, self._topic)
            found = [] if metadata is None else metadata.topics[0].partitions
            offline = [each.partition_index for each in found if node.node_id in each.offline_replicas]
            return set(gone) <= set(offline) or None

        self._cluster.wait(are_offline, f"offline replicas of {gone} on node {node.node_id}")
        time.sleep(away_seconds)
        self._random.choice([node.stop, node.kill])()
        if name == ON_DISKS[-1]:
            disk.replace()
        else:
            disk.give_back()
        node.start()

    def _disk(self, node: Node) -> NodeDisk:
        if self._disks is None:
            raise ValueError("a cluster without FailingDisks has no disk that fails")
        return self._disks[node.node_id]


def await_in_sync(cluster: Cluster, topic: str, partitions: int) -> None:
    """The replicas of each partition on all nodes are in sync, as every node knows it."""
    nodes = sorted(cluster.nodes)
    cluster.await_brokers(*nodes)

    def all_in_sync() -> bool | None:
        for node_id in nodes:
            metadata = cluster.metadata(node_id, topic)
            if metadata is None:
                return None
            found = [each for topic in metadata.topics for each in topic.partitions]
            if len(found) != partitions:
                return None
            if any(sorted(each.isr_nodes) != nodes or each.leader_id < 0 for each in found):
                return None
        return True

    cluster.wait(all_in_sync, f"cluster in which all replicas of {topic} are in sync")
