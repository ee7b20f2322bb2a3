"""Who may lead a partition in one image of the cluster, and the changes of partitions that follow from it.

`partition_change` knows one partition; here it is told what the cluster adds: which brokers are active and
have the replica's directory, whether the topic allows an unclean election, its effective
`min.insync.replicas` while eligible leader replicas are on, and in which directory a new replica will lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from controller.metadata.image.brokers import UNASSIGNED_DIRECTORY
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration, TopicImage
from controller.subjects.partition_change import Election, change_partition
from protocol.metadata_log.topics import PartitionChangeRecord

__all__ = ["Leadership", "LeadershipRules"]


class LeadershipRules(NamedTuple):
    """The configs that decide who leads.

    allows_unclean: whether a topic, by its name, may be led by a replica that is not in sync.
    min_insync_replicas: that of a topic by its name, None while eligible leader replicas are switched off.
    """

    allows_unclean: Callable[[str], bool]
    min_insync_replicas: Callable[[str], int | None]


class Leadership:
    """Makes changes of partitions in one image.

    leaving: a broker that may not lead any more, though it is still active in the image. arriving: one that
    may lead, though it is still fenced in the image. died: a broker that leaves and may have lost what it had
    not flushed, so that it is not eligible either.
    """

    def __init__(
        self,
        image: ClusterImage,
        rules: LeadershipRules,
        *,
        leaving: int = NO_LEADER,
        arriving: int = NO_LEADER,
        died: int = NO_LEADER,
    ) -> None:
        self._brokers = image.brokers
        self._rules = rules
        self._gone = {leaving, died} - {NO_LEADER}
        self._died = died
        self._active = {
            broker.id: broker
            for broker in image.brokers.by_id.values()
            if broker.id not in self._gone and (broker.active or broker.id == arriving)
        }

    def election(self, topic: TopicImage) -> Election:
        """The kind of election for a topic: UNCLEAN where its configs allow it."""
        return Election.UNCLEAN if self._rules.allows_unclean(topic.name) else Election.ONLINE

    def min_isr(self, topic: TopicImage) -> int | None:
        """The effective `min.insync.replicas`: never more than there are replicas; None while eligible leader
        replicas are switched off."""
        minimum = self._rules.min_insync_replicas(topic.name)
        return None if minimum is None else min(minimum, len(topic.partitions[0].replicas))

    def waits_for_isr(self, topic: TopicImage) -> bool:
        """Whether the last replica in sync stays in the ISR although it leaves, and nobody else may lead."""
        return self.min_isr(topic) is None and self.election(topic) is not Election.UNCLEAN

    def without_gone(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """The replicas without that on the broker that leaves."""
        return tuple(replica for replica in replicas if replica not in self._gone)

    def change(
        self,
        topic: TopicImage,
        index: int,
        *,
        partition: PartitionRegistration | None = None,
        election: Election | None = None,
        **wish: Any,
    ) -> PartitionChangeRecord | None:
        """The record of a change; None if nothing changes. The arguments are those of `change_partition`:
        isr, replicas, removing, adding, leader_recovery_state, directories. If no election is named, it is
        the kind that the topic allows. partition: its state, if that is not the one in the image any more."""
        state = topic.partitions[index] if partition is None else partition
        active, places = self._active, dict(zip(state.replicas, state.directories, strict=True))

        def may_lead(broker_id: int) -> bool:
            broker = active.get(broker_id)
            if broker is None:
                return False
            directory = places.get(broker_id)
            return directory is None or broker.has_online_directory(directory)

        return change_partition(
            topic.id,
            index,
            state,
            is_active=may_lead,
            election=self.election(topic) if election is None else election,
            min_isr=self.min_isr(topic),
            unclean_shutdown=self._died,
            directory_of=self._default_directory,
            **wish,
        )

    def _default_directory(self, broker_id: int) -> bytes:
        broker = self._brokers.get(broker_id)
        return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory
