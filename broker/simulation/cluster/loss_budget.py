"""How many disks may still be lost without a committed record being lost.

A committed record lies on at least `min.insync.replicas` nodes: on all of the in-sync replicas, and on the
eligible leader replicas (KIP-966) while there are fewer in sync. So that it is still there after a fault:

* At most min.insync.replicas - 1 nodes have lost data at a time. A node that lost data counts until it has
  copied it back: it is unfenced in its present life, and in the ISR of all its partitions.
* A node whose process has ended without order has lost nothing, but the controller cannot know, and takes it
  out of the eligible replicas. A node that has not registered yet, or has a log directory that has failed,
  cannot end in order, however it is stopped. All these count as if they had lost data, for each partition of
  a node that has: of in-sync and eligible replicas together there are min.insync.replicas at least, and which
  ones is up to whom the controller hears in time. One of them must be a node to which none of this has
  happened.
* Without eligible leader replicas the last of the ISR may lead whatever it has lost. So nobody may lose
  data then; a power cut is a kill in its place.
* A disk that fails ends processes at any moment, so it does not come together with lost data.
* Where everything is synced before it is answered (`ClusterPlan.is_flushed`) a power cut loses nothing that
  counts: to the budget it is a process that has ended without order.

Where the plan allows unclean elections anything may be lost. The logs of controllers are not counted: they
are synced before they are answered for, and where a controller loses its disk, `disk_losses` sees to it that
a majority of the voters is left.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from broker.simulation.cluster.cluster_changes import MIN_ISR, newest_image
from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.simulated_node import DATA, SimulatedNode
from broker.simulation.cluster.surroundings import LifeEnd
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS
from controller.metadata.image.topics import PartitionRegistration, TopicImage
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, UNKNOWN_BROKER_EPOCH, read_clean_shutdown

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_world import ClusterWorld

__all__ = ["LossBudget"]

IN_ORDER: Final = "stopped"


class LossBudget:
    """Of one run."""

    def __init__(self, world: ClusterWorld, plan: ClusterPlan) -> None:
        self._world = world
        self._allows_all = plan.allows_unclean
        self._is_flushed = plan.is_flushed
        self._most = plan.min_insync_replicas - 1
        self._lost: dict[int, None] = {}
        """Nodes that have lost data, and have not copied it back."""
        self._unclean: dict[int, None] = {}
        """Nodes of which a life has ended without order, and that are not in sync again. Those that have lost
        data are among them."""
        self._known_offset = -1
        """Of the metadata that any broker has known."""
        self._changes = 0
        """Changes of the rules of elections that are under way."""
        world.life_listeners.append(self.life_has_ended)

    async def while_nothing_is_lost(self, change: Coroutine[Any, None, object]) -> None:
        """Carries out a change that takes eligible replicas away: of `min.insync.replicas` or of the feature.
        When it comes into force nobody knows beforehand, so nobody loses anything until it is answered."""
        self._changes += 1
        try:
            await change
        finally:
            self._changes -= 1

    # What verbs ask

    @property
    def has_lost(self) -> bool:
        """Whether some node has lost data, and has not copied it back."""
        self._look()
        return bool(self._lost)

    @property
    def may_change_elections(self) -> bool:
        """Whether nobody has lost data, and no disk fails that could end a life in the meantime."""
        return not self.has_lost and not any(each.machine.trouble.faults for each in self._world.brokers)

    def may_lose(self, node: SimulatedNode) -> bool:
        """Whether what the node has not synced may be lost, or its disk."""
        if self._allows_all or not node.place.is_broker:
            return True
        self._look()
        image = self._newest_image()
        if self._changes or image is None or image.features.level(ELIGIBLE_LEADER_REPLICAS) < 1:
            return False
        if any(each.machine.trouble.faults for each in self._world.nodes.values()):
            return False
        lost = {**self._lost, node.node_id: None}
        return len(lost) <= self._most and self._are_safe(image, lost, node)

    def may_end(self, node: SimulatedNode) -> bool:
        """Whether its process may end without order."""
        if self._allows_all or not node.place.is_broker:
            return True
        self._look()
        if self._changes:
            return False
        if not self._lost:
            return True
        image = self._newest_image()
        return image is not None and self._are_safe(image, self._lost, node)

    def may_lose_power(self, node: SimulatedNode) -> bool:
        """Whether the power of its machine may fail, if its process may end without order."""
        return self._is_flushed or self.may_lose(node)

    def may_end_together(self, nodes: Iterable[SimulatedNode]) -> bool:
        """Whether the processes of all of these may end without order at one instant."""
        if self._allows_all or not any(node.place.is_broker for node in nodes):
            return True
        return not (self.has_lost or self._changes)

    @property
    def may_lose_power_together(self) -> bool:
        """Whether the power of any number of nodes may fail, if their processes may end without order."""
        return self._allows_all or self._is_flushed

    def may_fail(self, node: SimulatedNode) -> bool:
        """Whether its disk may fail for a while, so that its process may end at any moment."""
        return self._allows_all or not node.place.is_broker or not (self.has_lost or self._changes)

    # What happens

    def lost(self, node: SimulatedNode) -> None:
        """It has lost data."""
        if node.place.is_broker:
            self._lost[node.node_id] = self._unclean[node.node_id] = None

    def power_lost(self, node: SimulatedNode) -> None:
        """Its power has failed."""
        if not self._is_flushed:
            self.lost(node)

    def ended_without_order(self, node: SimulatedNode) -> None:
        """However its last life has ended, the controller may not learn from its next one that it was in
        order."""
        if node.place.is_broker:
            self._unclean[node.node_id] = None

    def life_has_ended(self, node: SimulatedNode, end: LifeEnd) -> None:
        if node.place.is_broker and not (end.how == IN_ORDER and _tells_its_epoch(node)):
            self._unclean[node.node_id] = None

    # Within

    def _newest_image(self) -> ClusterImage | None:
        """None while whoever is up knows less than somebody has known before, who is down."""
        image = newest_image(self._world)
        if image is None or image.offset < self._known_offset:
            return None
        self._known_offset = image.offset
        return image

    def _are_safe(self, image: ClusterImage, lost: dict[int, None], ending: SimulatedNode) -> bool:
        """Whether each partition of a node that has lost data keeps a replica to which nothing happened."""
        cannot_end_well = [
            each.node_id
            for each in self._world.brokers
            if each.machine.trouble.errors or (each.is_up and not each.is_ready)
        ]
        unclean = {*self._unclean, *cannot_end_well, ending.node_id}
        return all(
            sum(each in unclean for each in partition.replicas) <= self._most_of(image, topic)
            for topic in image.topics.by_name.values()
            for partition in topic.partitions.values()
            if any(each in lost for each in partition.replicas)
        )

    def _most_of(self, image: ClusterImage, topic: TopicImage) -> int:
        """How many replicas of a partition may have lost data. A topic that was made when few brokers could
        be used has fewer replicas, and asks for no more."""
        asked = image.configs.of(ConfigResourceType.TOPIC, topic.name).get(MIN_ISR)
        return self._most if asked is None else min(self._most, int(asked) - 1)

    def _look(self) -> None:
        """Forgets those that have copied back whatever they may have lost."""
        image = self._newest_image()
        if image is None:
            return
        for node_id in [each for each in self._unclean if self._is_whole(image, each)]:
            del self._unclean[node_id]
            self._lost.pop(node_id, None)

    def _is_whole(self, image: ClusterImage, node_id: int) -> bool:
        node, registration = self._world.nodes.get(node_id), image.brokers.get(node_id)
        placed = [each for each in _partitions(image) if node_id in each.replicas]
        if node is None or registration is None:
            return not placed
        broker = node.broker
        if broker is None or not node.is_ready or registration.fenced:
            return False
        return registration.epoch == broker.lifecycle.epoch and all(node_id in each.isr for each in placed)


def _tells_its_epoch(node: SimulatedNode) -> bool:
    """Whether the controller will hear from its next life that this one has ended in order (KIP-966)."""
    directories = node.place.properties.get("log.dirs", DATA).split(",")
    epochs = {
        read_clean_shutdown(node.machine.files, f"{each}/{CLEAN_SHUTDOWN_FILE}") for each in directories
    }
    return len(epochs) == 1 and epochs.isdisjoint({None, UNKNOWN_BROKER_EPOCH})


def _partitions(image: ClusterImage) -> list[PartitionRegistration]:
    return [each for topic in image.topics.by_name.values() for each in topic.partitions.values()]
