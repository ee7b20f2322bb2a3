"""Committed offsets by group, topic and partition."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from broker.coordinator.group_keys import OFFSET
from broker.coordinator.offsets.offset_records import OffsetAndMetadata, read_offset
from broker.coordinator.runtime.result import UndoLog
from protocol.errors import ProtocolError

LOG: Final = logging.getLogger("barnabas.groups")

KeptOffset = OffsetAndMetadata | bytes
"""An offset, or the value of its record until somebody asks for it."""
PartitionOffsets = dict[int, OffsetAndMetadata]


class CommittedOffsets:
    """The offsets of all groups of one partition. Changes take an undo log, except while loading."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, KeptOffset]]] = {}

    def get(self, group: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        partitions = self._groups.get(group, {}).get(topic, {})
        kept = partitions.get(partition)
        return self._read(group, topic, partition, kept) if isinstance(kept, bytes) else kept

    def has(self, group: str, topic: str, partition: int) -> bool:
        return partition in self._groups.get(group, {}).get(topic, {})

    def partitions(self, group: str) -> list[tuple[str, int]]:
        """The topics and partitions of all offsets of a group, without decoding the offsets."""
        return [
            (topic, index)
            for topic, partitions in self._groups.get(group, {}).items()
            for index in partitions
        ]

    def partitions_in(self, group: str, topics: Collection[str]) -> list[tuple[str, int]]:
        """The topic and partition of the group's offsets in these topics."""
        own = self._groups.get(group, {})
        return [
            (topic, index)
            for topic in (topics if len(topics) < len(own) else own)
            if topic in topics
            for index in own.get(topic, ())
        ]

    def topics(self, group: str) -> dict[str, PartitionOffsets]:
        """All offsets of a group, by topic and partition."""
        found: dict[str, PartitionOffsets] = {}
        for topic, partitions in list(self._groups.get(group, {}).items()):
            readable = found[topic] = {}
            for partition in list(partitions):
                offset = self.get(group, topic, partition)
                if offset is not None:
                    readable[partition] = offset
        return found

    def has_group(self, group: str) -> bool:
        """Whether the group has an offset."""
        return any(self._groups.get(group, {}).values())

    def topics_of(self, group: str) -> list[str]:
        """The topics in which the group has offsets."""
        return list(self._groups.get(group, {}))

    def place(self, group: str, topic: str) -> dict[int, KeptOffset]:
        """The mapping by partition into which loading puts the values of offset records, not decoded. It may
        be empty until `tidy`."""
        return self._groups.setdefault(group, {}).setdefault(topic, {})

    def tidy(self, group: str) -> bool:
        """Removes topics of the group without offsets, and the group if none is left, when loading has ended.
        Returns whether it is still there."""
        topics = self._groups[group]
        for topic in [topic for topic, partitions in topics.items() if not partitions]:
            del topics[topic]
        if not topics:
            del self._groups[group]
        return bool(topics)

    def _read(self, group: str, topic: str, partition: int, value: bytes) -> OffsetAndMetadata | None:
        """Decodes a kept value. One that cannot be decoded counts as never committed."""
        try:
            offset = read_offset(OFFSET, value)
        except ProtocolError as problem:
            LOG.error("the offset of group %s in %s-%d is left out: %s", group, topic, partition, problem)
            self.set(group, topic, partition, None, None)
            return None
        self._groups[group][topic][partition] = offset
        return offset

    def groups(self) -> list[str]:
        return list(self._groups)

    def set(
        self, group: str, topic: str, partition: int, offset: KeptOffset | None, undo: UndoLog | None
    ) -> None:
        """Puts an offset in the place of the present one; None removes it."""
        if undo is not None:
            before = self._groups.get(group, {}).get(topic, {}).get(partition)
            undo.add(lambda: self.set(group, topic, partition, before, None))
        if offset is not None:
            self._groups.setdefault(group, {}).setdefault(topic, {})[partition] = offset
            return
        topics = self._groups.get(group)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group]
