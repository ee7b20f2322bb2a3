"""Topics and their partitions: their replicas, leaders and epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.mappings import copied
from controller.metadata.image.partition_index import Change, PartitionIndex
from protocol.codec.message import Message
from protocol.errors import InvariantViolated
from protocol.metadata_log.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.values import ZERO_UUID, uuid_to_text

__all__ = [
    "NO_LEADER",
    "NO_TOPICS",
    "PartitionRegistration",
    "TopicDelta",
    "TopicImage",
    "TopicsDelta",
    "TopicsImage",
]

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
"""The leader field of a PartitionChangeRecord that leaves leader and leader epoch as they are."""

RECOVERED: Final = 0
RECOVERING: Final = 1
NO_RECOVERY_CHANGE: Final = -1


class PartitionRegistration(msgspec.Struct, frozen=True):
    """The state of one partition in the metadata.

    replicas: the broker ids, the preferred leader first. directories has the log directory of each. isr is a
    subset of replicas; adding and removing are not empty during a reassignment. leader is -1 if the partition
    has none. leader_epoch grows with each change of the leader, partition_epoch with every change. elr and
    last_known_elr are the eligible leader replicas (KIP-966), empty unless that feature is on.
    """

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, broker_id: int) -> bytes:
        """The directory id of the replica on that broker, which is one of the replicas."""
        return self.directories[self.replicas.index(broker_id)]

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        return cls(
            replicas=tuple(record.replicas),
            directories=tuple(record.directories) or (ZERO_UUID,) * len(record.replicas),
            isr=tuple(record.isr),
            removing=tuple(record.removing_replicas),
            adding=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader=record.leader,
            leader_recovery_state=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """The partition after a change; a field that the record leaves at its default stays as it was."""
        led_anew = record.leader != NO_LEADER_CHANGE
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        directories = self.directories if record.directories is None else tuple(record.directories)
        if len(directories) != len(replicas):
            # A release that knows no directories has written the change; each broker tells them by itself.
            directories = (ZERO_UUID,) * len(replicas)
        recovery = record.leader_recovery_state
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=_or_old(record.isr, self.isr),
            removing=_or_old(record.removing_replicas, self.removing),
            adding=_or_old(record.adding_replicas, self.adding),
            elr=_or_old(record.eligible_leader_replicas, self.elr),
            last_known_elr=_or_old(record.last_known_elr, self.last_known_elr),
            leader=record.leader if led_anew else self.leader,
            leader_recovery_state=self.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
            leader_epoch=self.leader_epoch + 1 if led_anew else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
        )

    def to_record(self, topic_id: bytes, partition: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )


def _or_old(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


class TopicImage(msgspec.Struct, frozen=True):
    """One topic. The keys of `partitions` are 0 to n-1, in that order."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionRegistration] = MappingProxyType({})


class TopicsImage(msgspec.Struct, frozen=True, eq=False):
    """All topics, by name and by topic id. Both mappings hold the same values, and make two images equal."""

    by_name: Mapping[str, TopicImage] = MappingProxyType({})
    by_id: Mapping[bytes, TopicImage] = MappingProxyType({})
    known_index: PartitionIndex | None = None
    """The index, if it was asked for in this or in an earlier image."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicsImage) and self.by_name == other.by_name

    def __ne__(self, other: object) -> bool:
        """Compares as `__eq__` does. The method of Struct would take equal images of two nodes for different
        ones."""
        return not self == other

    @property
    def index(self) -> PartitionIndex:
        """The partitions by broker. When it is asked for the first time, all partitions are looked at. The
        image before any record does not keep it: brokers have that one, too, and would take along an index
        that they do not need."""
        known = self.known_index
        if known is None:
            known = PartitionIndex().changed(
                (topic_id, number, None, partition)
                for topic_id, topic in self.by_id.items()
                for number, partition in topic.partitions.items()
            )
            if self is not NO_TOPICS:
                msgspec.structs.force_setattr(self, "known_index", known)
        return known

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        image = self.by_name.get(topic)
        return None if image is None else image.partitions.get(index)

    def records(self) -> Iterator[Message]:
        for name in sorted(self.by_name):
            topic = self.by_name[name]
            yield TopicRecord(name=name, topic_id=topic.id)
            for index, partition in topic.partitions.items():
                yield partition.to_record(topic.id, index)


NO_TOPICS: Final = TopicsImage()
"""That of every image before its first record, in all nodes of a process."""


class TopicDelta:
    """The changes to one topic: `partitions` holds the new and the changed ones."""

    def __init__(self, base: TopicImage) -> None:
        self.base = base
        self.partitions: dict[int, PartitionRegistration] = {}

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def id(self) -> bytes:
        return self.base.id

    def apply(self) -> TopicImage:
        merged = copied(self.base.partitions) | self.partitions
        if len(merged) > len(self.base.partitions):
            merged = dict(sorted(merged.items()))
        return TopicImage(self.base.name, self.base.id, MappingProxyType(merged))


class TopicsDelta:
    """The changes to the topics. `changed` holds new and changed topics by id; `deleted` the last image of
    each deleted one.

    A topic that was deleted and created again under its name within one delta is in both, under two ids.
    """

    def __init__(self, base: TopicsImage) -> None:
        self.base = base
        self.changed: dict[bytes, TopicDelta] = {}
        self.created: dict[bytes, str] = {}
        self._created_ids: dict[str, bytes] = {}
        self.deleted: dict[bytes, TopicImage] = {}

    def create(self, record: TopicRecord) -> None:
        """A topic that is there already stays what it is: a snapshot tells of it once more."""
        if record.topic_id in self.base.by_id and record.topic_id not in self.deleted:
            self._delta(record.topic_id)
            return
        self.changed[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id))
        self.created[record.topic_id] = record.name
        self._created_ids[record.name] = record.topic_id

    def _delta(self, topic_id: bytes) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            base = None if topic_id in self.deleted else self.base.by_id.get(topic_id)
            if base is None:
                raise InvariantViolated(f"a partition's topic is known (topic_id={uuid_to_text(topic_id)})")
            delta = self.changed[topic_id] = TopicDelta(base)
        return delta

    def add_partition(self, record: PartitionRecord) -> None:
        partitions = self._delta(record.topic_id).partitions
        partitions[record.partition_id] = PartitionRegistration.from_record(record)

    def change_partition(self, record: PartitionChangeRecord) -> None:
        delta = self._delta(record.topic_id)
        index = record.partition_id
        current = delta.partitions.get(index) or delta.base.partitions.get(index)
        if current is None:
            raise InvariantViolated(f"a changed partition is known (topic={delta.name}, partition={index})")
        delta.partitions[index] = current.merge(record)

    def remove(self, record: RemoveTopicRecord) -> str:
        """Removes a topic and returns its name."""
        last = self._delta(record.topic_id).apply()
        del self.changed[record.topic_id]
        if self.created.pop(record.topic_id, None) is None:
            self.deleted[record.topic_id] = last
        else:
            del self._created_ids[last.name]
        return last.name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Forgets eligible leaders of one topic, or of all when the record names none."""
        if record.topic_name:
            named = self._id_of(record.topic_name)
            topic_ids = [] if named is None else [named]
        else:
            topic_ids = [
                each for each in self.base.by_id if each not in self.deleted and each not in self.changed
            ]
            topic_ids += self.changed
        for topic_id in topic_ids:
            for index, partition in self._partitions(topic_id).items():
                if partition.elr or partition.last_known_elr:
                    self._delta(topic_id).partitions[index] = msgspec.structs.replace(
                        partition, elr=(), last_known_elr=()
                    )

    def _id_of(self, name: str) -> bytes | None:
        """The id of the topic that has this name now, if there is one. It is found without a look at others,
        because a change of a config names thousands of topics, one in a record."""
        created = self._created_ids.get(name)
        if created is not None:
            return created
        known = self.base.by_name.get(name)
        return None if known is None or known.id in self.deleted else known.id

    def _partitions(self, topic_id: bytes) -> Mapping[int, PartitionRegistration]:
        delta = self.changed.get(topic_id)
        if delta is None:
            return self.base.by_id[topic_id].partitions
        return {**delta.base.partitions, **delta.partitions}

    def apply(self) -> TopicsImage:
        by_name, by_id = copied(self.base.by_name), copied(self.base.by_id)
        for topic_id, gone in self.deleted.items():
            by_id.pop(topic_id, None)
            by_name.pop(gone.name, None)
        for topic_id, delta in self.changed.items():
            topic = delta.apply()
            by_id[topic_id] = topic
            by_name[topic.name] = topic
        known = self.base.known_index
        index = None if known is None else known.changed(self._index_changes())
        return TopicsImage(MappingProxyType(by_name), MappingProxyType(by_id), index)

    def _index_changes(self) -> Iterator[Change]:
        for topic_id in self.deleted:
            for number, partition in self.base.by_id[topic_id].partitions.items():
                yield topic_id, number, partition, None
        for topic_id, delta in self.changed.items():
            for number, after in delta.partitions.items():
                yield topic_id, number, delta.base.partitions.get(number), after
