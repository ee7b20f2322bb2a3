"""What must hold of who leads a partition, who is in sync with it, and how far it is committed.

    one leader per leader epoch                 of all nodes that ever lived, each in one life
    an ISR is a part of the replicas            in every image, and as every leader sees it
    epochs of a partition never go back         in the images of a node, and as it hosts the partition
    who is fenced leads nothing                 in every image; nor is he in sync with a leader
    a reassignment ends when all are in sync    who has come, before anybody goes
    the high watermark never falls              as long as one node leads in one epoch
    the high watermark is within the log
    who joins an ISR has what is committed      in the registration of its broker with which it joins
    the high watermark is held by the ISR       by all of the ISR in the metadata, and by those that the
                                                leader has to count beside them

A replica holds what its node has had in its log at any time, even if a power cut has taken it since: the
leader cannot know of that. What a lost disk does to a partition is a matter of who is elected then, see
`log_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from broker.replication.roles import Leader
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.rules.seen_partitions import SeenCluster, SeenPartition, SeenReplica
from broker.simulation.verdict import Violation
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration, TopicImage

__all__ = [
    "ENDS_EARLY",
    "FENCED_LEADER",
    "HIGH_WATERMARK_FALLS",
    "HIGH_WATERMARK_OUTSIDE",
    "ISR_OUTSIDE",
    "JOINS_BEHIND",
    "NOT_HELD",
    "OLD_EPOCH",
    "TWO_LEADERS",
    "LeaderRules",
    "RegistrationRules",
]

TWO_LEADERS: Final = "one leader per leader epoch"
ISR_OUTSIDE: Final = "an ISR is a part of the replicas"
OLD_EPOCH: Final = "epochs of a partition never go back"
FENCED_LEADER: Final = "who is fenced leads nothing"
ENDS_EARLY: Final = "a reassignment ends when all are in sync"
HIGH_WATERMARK_FALLS: Final = "the high watermark never falls"
HIGH_WATERMARK_OUTSIDE: Final = "the high watermark is within the log"
JOINS_BEHIND: Final = "who joins an ISR has what is committed"
NOT_HELD: Final = "the high watermark is held by the ISR"

_NO_PARTITIONS: Final[Mapping[int, PartitionRegistration]] = MappingProxyType({})


def changed_partitions(
    before: ClusterImage, image: ClusterImage
) -> Iterator[tuple[TopicImage, int, PartitionRegistration | None, PartitionRegistration]]:
    """Topic, index, the registration before and the one now of each partition that the later image has and
    that has changed. Images share what did not change."""
    if image.topics is before.topics:
        return
    known = before.topics.by_id
    for topic_id, topic in image.topics.by_id.items():
        old = known.get(topic_id)
        if old is topic:
            continue
        partitions = _NO_PARTITIONS if old is None else old.partitions
        for index, registration in topic.partitions.items():
            if (earlier := partitions.get(index)) is not registration:
                yield topic, index, earlier, registration


class RegistrationRules:
    """Images: what they say of partitions, and that they do not take it back."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._cluster = cluster

    def came(
        self, node: SimulatedNode, before: ClusterImage, image: ClusterImage, *, controller: bool
    ) -> None:
        """See `partition_watch.ImageRule`."""
        for topic, index, earlier, registration in changed_partitions(before, image):
            self._cluster.coverage.count("looked at: registration of a partition")
            partition = self._cluster.partition(topic.name, topic.id, index)
            if not set(registration.isr) <= set(registration.replicas):
                raise Violation(ISR_OUTSIDE, f"{partition} in the image of {node}: {registration}")
            if earlier is not None and (
                registration.leader_epoch < earlier.leader_epoch
                or registration.partition_epoch < earlier.partition_epoch
            ):
                raise Violation(OLD_EPOCH, f"{partition} on {node}: {earlier} became {registration}")
            if earlier is not None:
                _check_end_of_reassignment(partition, node, earlier, registration)
            newest = partition.newest
            if newest is None or newest.partition_epoch < registration.partition_epoch:
                partition.newest = registration
                if newest is not None and newest.leader_epoch == registration.leader_epoch:
                    for node_id in registration.isr:
                        if node_id not in newest.isr:
                            self._joins(partition, node_id, image)
        if image.brokers is not before.brokers or image.topics is not before.topics:
            self._check_fenced(node, before, image)

    def _joins(self, partition: SeenPartition, node_id: int, image: ClusterImage) -> None:
        """The leader has asked for it, and has counted it since: nothing was committed without it. A broker
        that has started again since may have lost what it had, but its registration is another one then."""
        replica, broker = partition.replicas.get(node_id), image.brokers.get(node_id)
        running = None if replica is None else replica.node.broker
        if replica is None or broker is None or running is None or running.lifecycle.epoch != broker.epoch:
            return
        self._cluster.coverage.count("looked at: replica that joins an ISR")
        has_it = replica.is_live and replica.life == replica.node.lives
        end_offset = replica.now.log_end_offset if has_it else 0
        if end_offset < partition.committed.end_offset and partition.unclean_epoch < 0:
            raise Violation(
                JOINS_BEHIND,
                f"node {node_id} joins the ISR of {partition} with the epoch {broker.epoch} of its broker; "
                f"its log ends at {end_offset}, all below {partition.committed.end_offset} is committed",
            )

    def _check_fenced(self, node: SimulatedNode, before: ClusterImage, image: ClusterImage) -> None:
        """Partitions that have changed; all of them when a broker becomes fenced. The image's own index of
        the partitions of a broker is not asked, as the controller goes by it when it fences one."""
        fenced = {broker.id for broker in image.brokers.by_id.values() if broker.fenced}
        if not fenced:
            return
        self._cluster.coverage.count("looked at: partitions of a fenced broker")
        known = before.brokers
        is_news = any((former := known.get(each)) is None or not former.fenced for each in fenced)
        for topic, index, _, partition in changed_partitions(EMPTY_IMAGE if is_news else before, image):
            is_led = partition.leader != NO_LEADER
            if is_led and not fenced.isdisjoint((partition.leader, *partition.isr)):
                raise Violation(
                    FENCED_LEADER,
                    f"{topic.name}-{index} in the image of {node}, where of the brokers {sorted(fenced)} are "
                    f"fenced: {partition}",
                )


def _check_end_of_reassignment(
    partition: SeenPartition,
    node: SimulatedNode,
    earlier: PartitionRegistration,
    now: PartitionRegistration,
) -> None:
    """When somebody goes, who has come for him is in sync. A new goal may name newcomers that are not."""
    if now.replicas == earlier.replicas or now.partition_epoch != earlier.partition_epoch + 1:
        return
    if all(each in now.replicas for each in earlier.replicas):
        return
    late = [
        each
        for each in now.replicas
        if (each not in earlier.replicas or each in earlier.adding)
        and each not in now.isr
        and each not in now.adding
    ]
    if late:
        raise Violation(ENDS_EARLY, f"{partition} in the image of {node}: {earlier} became {now}")


class LeaderRules:
    """Partitions as nodes host them: who leads, and the high watermark."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._count = cluster.coverage.count

    def changed(self, replica: SeenReplica) -> None:
        """See `partition_watch.PartitionRule`."""
        now, before = replica.now, replica.before
        if before is not None and (
            now.leader_epoch < before.leader_epoch or now.partition_epoch < before.partition_epoch
        ):
            raise Violation(
                OLD_EPOCH,
                f"{replica} was at {before.leader_epoch}/{before.partition_epoch} (leader epoch/partition "
                f"epoch) and is at {now.leader_epoch}/{now.partition_epoch}",
            )
        if not now.log_start_offset <= now.high_watermark <= now.log_end_offset:
            raise Violation(
                HIGH_WATERMARK_OUTSIDE,
                f"{replica}: {now.high_watermark} is not within {now.log_start_offset} to "
                f"{now.log_end_offset}",
            )
        leader = replica.leader
        if leader is None:
            return
        self._count("looked at: leader of a partition")
        self._leads(replica)
        self._counts_who_is_in_sync(replica, leader)
        if (
            before is not None
            and isinstance(before.state, Leader)
            and before.leader_epoch == now.leader_epoch
            and now.high_watermark < before.high_watermark
        ):
            raise Violation(
                HIGH_WATERMARK_FALLS,
                f"{replica}, leader in epoch {now.leader_epoch}: {before.high_watermark} became "
                f"{now.high_watermark}",
            )

    def _leads(self, replica: SeenReplica) -> None:
        partition, epoch = replica.partition, replica.now.leader_epoch
        who = (replica.node_id, replica.life)
        known = partition.leaders.setdefault(epoch, who)
        if known != who:
            raise Violation(
                TWO_LEADERS,
                f"{partition} is led in epoch {epoch} by node {who[0]} in its life {who[1]} and by node "
                f"{known[0]} in its life {known[1]}",
            )

    def _counts_who_is_in_sync(self, replica: SeenReplica, leader: Leader) -> None:
        partition, now, replicas = replica.partition, replica.now, replica.hosted.replicas
        counted = leader.partition_state.maximal_isr
        for node_id in counted:
            if node_id not in replicas:
                raise Violation(ISR_OUTSIDE, f"{replica} counts {counted}, its replicas are {replicas}")
        newest = partition.newest
        if newest is not None and newest.leader_epoch == now.leader_epoch:
            counted = tuple(dict.fromkeys((*counted, *newest.isr)))
        for node_id in counted:
            if node_id == replica.node_id:
                continue
            other = partition.replicas.get(node_id)
            held_end = 0 if other is None else other.held_end
            if held_end < now.high_watermark:
                raise Violation(
                    NOT_HELD,
                    f"{replica}, leader in epoch {now.leader_epoch}, says that all below "
                    f"{now.high_watermark} is committed; node {node_id} is to be in sync (of {counted}) and "
                    f"never had more than what is below {held_end}",
                )
        self._count("looked at: high watermark beside the ISR")
