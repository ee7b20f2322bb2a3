"""The partitions of each broker, so that a change of one broker costs no look at all other partitions.

In Kafka this is `BrokersToIsrs`. An image of the topics has an index when the controller has asked for it (a
broker never does); from then on each image gets the index of the one before with the changes of its delta. A
change of a partition makes the list of its topic anew in each group that gains or loses it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from controller.metadata.image.mappings import copied

__all__ = ["Group", "IndexedPartition", "PartitionIndex", "PartitionKey"]

NO_BROKER = -1


class Group(IntEnum):
    """What the partitions of a group have in common. IN_ISR, IN_ELR and LED_BY are about one broker; LED_BY
    with NO_BROKER are the partitions without a leader. The other groups are kept under NO_BROKER."""

    IN_ISR = 0
    IN_ELR = 1
    LED_BY = 2
    NOT_LED_BY_PREFERRED = 3
    REASSIGNING = 4


class PartitionKey(NamedTuple):
    """Names one partition of the cluster."""

    topic_id: bytes
    number: int


class IndexedPartition(Protocol):
    """The fields of a partition that decide to which groups it belongs."""

    @property
    def isr(self) -> tuple[int, ...]: ...

    @property
    def elr(self) -> tuple[int, ...]: ...

    @property
    def leader(self) -> int: ...

    @property
    def preferred_leader(self) -> int: ...

    @property
    def adding(self) -> tuple[int, ...]: ...

    @property
    def removing(self) -> tuple[int, ...]: ...


_Key = tuple[Group, int]
_Members = Mapping[bytes, tuple[int, ...]]
Change = tuple[bytes, int, IndexedPartition | None, IndexedPartition | None]
"""Topic id, partition, and the partition before and after the change; None where there is none."""


class PartitionIndex(msgspec.Struct, frozen=True):
    """The partitions of each group, by topic id and in ascending order."""

    groups: Mapping[_Key, _Members] = MappingProxyType({})

    def __contains__(self, key: _Key) -> bool:
        """Whether the group has a partition."""
        return key in self.groups

    def partitions(self, group: Group, broker_id: int = NO_BROKER) -> Iterator[PartitionKey]:
        """The partitions of a group, topic by topic."""
        for topic_id, indexes in self.groups.get((group, broker_id), {}).items():
            for number in indexes:
                yield PartitionKey(topic_id, number)

    def count(self, group: Group, broker_id: int = NO_BROKER) -> int:
        """The number of partitions in the group."""
        return sum(map(len, self.groups.get((group, broker_id), {}).values()))

    def changed(self, changes: Iterable[Change]) -> PartitionIndex:
        """The index after these changes. No two of them may be about one partition."""
        added: dict[_Key, dict[bytes, list[int]]] = {}
        removed: dict[_Key, dict[bytes, list[int]]] = {}
        for topic_id, index, before, after in changes:
            old = () if before is None else _groups_of(before)
            new = () if after is None else _groups_of(after)
            if old == new:
                continue
            for key in new:
                if key not in old:
                    added.setdefault(key, {}).setdefault(topic_id, []).append(index)
            for key in old:
                if key not in new:
                    removed.setdefault(key, {}).setdefault(topic_id, []).append(index)
        if not added and not removed:
            return self
        groups = copied(self.groups)
        for key in {**added, **removed}:
            members = _merged(groups.get(key, {}), added.get(key, {}), removed.get(key, {}))
            if members:
                groups[key] = MappingProxyType(members)
            else:
                groups.pop(key, None)
        return PartitionIndex(MappingProxyType(groups))


def _groups_of(partition: IndexedPartition) -> Sequence[_Key]:
    keys = [(Group.IN_ISR, broker) for broker in partition.isr]
    keys += [(Group.IN_ELR, broker) for broker in partition.elr]
    keys.append((Group.LED_BY, partition.leader))
    if partition.leader != partition.preferred_leader:
        keys.append((Group.NOT_LED_BY_PREFERRED, NO_BROKER))
    if partition.adding or partition.removing:
        keys.append((Group.REASSIGNING, NO_BROKER))
    return keys


def _merged(
    members: _Members, added: Mapping[bytes, list[int]], removed: Mapping[bytes, list[int]]
) -> dict[bytes, tuple[int, ...]]:
    merged = copied(members)
    for topic_id in {**added, **removed}:
        indexes = set(merged.get(topic_id, ())).difference(removed.get(topic_id, ()))
        indexes.update(added.get(topic_id, ()))
        if indexes:
            merged[topic_id] = tuple(sorted(indexes))
        else:
            merged.pop(topic_id, None)
    return merged
