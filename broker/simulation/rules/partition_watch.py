"""After each turn of a node: which of its partitions have changed, what they are now, and who judges that.

    turn ──▶ image of the metadata ──▶ each ImageRule, in their order
         ──▶ standing of each hosted partition, compared with the last one
             └─ changed ──▶ its log is read on ──▶ each PartitionRule, in their order

A standing is a few numbers, taken at once for all partitions of a node; nearly all turns change none of them,
and then nothing else is looked at. So the speed of a whole simulation hangs on `standings_of` and on the two
comparisons behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.replication.partition import Partition
from broker.server.controller_server import ControllerServer
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.histories.history import Event
from broker.simulation.rules.seen_partitions import SeenCluster, SeenReplica, Standing, standings_of
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage

__all__ = ["ImageRule", "PartitionRule", "PartitionWatch"]


class PartitionRule(Protocol):
    """Something that must hold of partitions."""

    def changed(self, replica: SeenReplica) -> None:
        """Its standing is another one than before, or its ISR may be."""
        ...


class ImageRule(Protocol):
    """Something that must hold of images of the metadata."""

    def came(
        self, node: SimulatedNode, before: ClusterImage, image: ClusterImage, *, controller: bool
    ) -> None:
        """A node has this image now, in the life in which it had `before`. controller: as a controller, for
        whom only what is committed counts; else as a broker."""
        ...


class _SeenNode:
    """A node in its present life."""

    def __init__(self, life: int) -> None:
        self.life = life
        self.hosted: list[Partition] = []
        self.standings: list[tuple[object, ...]] = []
        """Of each that is hosted, in the same order."""
        self.replicas: dict[Partition, SeenReplica] = {}
        self.lane = -1
        self.images: dict[bool, ClusterImage] = {False: EMPTY_IMAGE, True: EMPTY_IMAGE}
        """By whether it is the controller's."""


class PartitionWatch:
    """`cluster_world.Rule`: shows what has changed to the rules of images and partitions, in their order."""

    def __init__(
        self, cluster: SeenCluster, images: Sequence[ImageRule], rules: Sequence[PartitionRule]
    ) -> None:
        self.cluster = cluster
        self._images = images
        self.rules = rules
        self._nodes: dict[int, _SeenNode] = {}

    def has_happened(self, event: Event) -> None:
        """Clients are no matter of these rules."""

    def has_ended(self, node: SimulatedNode) -> None:
        """What its replicas were stays known."""
        seen = self._nodes.pop(node.node_id, None)
        if seen is not None:
            for replica in seen.replicas.values():
                replica.is_live = False

    def after_turn(self, node: SimulatedNode) -> None:
        """See `cluster_world.Rule`."""
        seen = self._nodes.get(node.node_id)
        if seen is None or seen.life != node.lives:
            self.has_ended(node)
            seen = self._nodes[node.node_id] = _SeenNode(node.lives)
        running = node.machine.node
        if running is None:
            return
        replica = running.replica
        if isinstance(replica, ControllerServer):
            image = replica.controller.image
            if image is not seen.images[True]:
                self._image_came(node, seen, image, controller=True)
        broker = running.broker
        if broker is None:
            return
        image = broker.metadata.image
        if image is not seen.images[False]:
            self._image_came(node, seen, image, controller=False)
        self._look_at_partitions(node, seen, broker.replicas.by_name.values(), broker.lane_epoch.number)

    def _image_came(
        self, node: SimulatedNode, seen: _SeenNode, image: ClusterImage, *, controller: bool
    ) -> None:
        before, seen.images[controller] = seen.images[controller], image
        for rule in self._images:
            rule.came(node, before, image, controller=controller)

    def _look_at_partitions(
        self, node: SimulatedNode, seen: _SeenNode, hosted: Iterable[Partition], lane: int
    ) -> None:
        partitions = list(hosted)
        standings = standings_of(partitions)
        has_moved = lane != seen.lane
        if standings == seen.standings and partitions == seen.hosted and not has_moved:
            return
        before = dict(zip(seen.hosted, seen.standings, strict=True))
        seen.hosted, seen.standings, seen.lane = partitions, standings, lane
        there = dict.fromkeys(partitions)
        for partition in before:
            if partition not in there:
                seen.replicas.pop(partition).is_live = False
        for partition, standing in zip(partitions, standings, strict=True):
            if before.get(partition) != standing or (has_moved and partition.is_leader):
                self._look(node, seen, partition, Standing._make(standing))

    def _look(self, node: SimulatedNode, seen: _SeenNode, hosted: Partition, standing: Standing) -> None:
        replica = seen.replicas.get(hosted)
        if replica is None:
            partition = self.cluster.partition(hosted.topic, hosted.topic_id, hosted.index)
            replica = SeenReplica(partition, node, hosted, partition.replicas.get(node.node_id))
            partition.replicas[node.node_id] = seen.replicas[hosted] = replica
        else:
            replica.before = replica.now
        replica.look(standing)
        for rule in self.rules:
            rule.changed(replica)
