"""Committed offsets by group, topic and partition; and what open transactions would commit.

A transaction's offsets lie in the log when the producer sends them and count when its commit marker comes.
Until then they are pending: a reader who wants stable offsets is told to wait, and their offsets do not
expire. A plain commit to the same partition meanwhile is newer, so the pending value is dropped, but the
partition stays unstable until the marker.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from broker.coordinator.group.group_records import (
    OFFSET,
    CommittedOffset,
    GroupKey,
    read_key,
    read_offset,
)
from broker.coordinator.result import UndoLog
from protocol.errors import ProtocolError

LOG: Final = logging.getLogger("barnabas.groups")

PartitionOffsets = dict[int, CommittedOffset]


class OffsetStore:
    """Offsets of all groups of one shard. Changes take an undo log, except while loading.

    What loading finds is kept as the bytes of the record and read when it is first asked for: most offsets of
    a large partition belong to groups that are long gone.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset | bytes]]] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self._groups.get(group, {}).get(topic, {})
        kept = partitions.get(partition)
        return self._read(group, topic, partition, kept) if isinstance(kept, bytes) else kept

    def has(self, group: str, topic: str, partition: int) -> bool:
        return partition in self._groups.get(group, {}).get(topic, {})

    def places(self, group: str) -> list[tuple[str, int]]:
        """Topics and partitions of all offsets of a group, without reading them."""
        return [
            (topic, index)
            for topic, partitions in self._groups.get(group, {}).items()
            for index in partitions
        ]

    def places_in(self, topics: Collection[str]) -> list[tuple[str, str, int]]:
        """Group, topic and partition of all offsets in these topics."""
        return [
            (group, topic, index)
            for group, own in self._groups.items()
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

    def slot(self, group: str, topic: str) -> dict[int, CommittedOffset | bytes]:
        """Where loading puts the values of offsets' records, unread, by partition. May stay empty until
        `tidy`."""
        return self._groups.setdefault(group, {}).setdefault(topic, {})

    def tidy(self, group: str) -> bool:
        """Loading is over: drop the group's topics without offsets, and the group if none is left. Whether it
        is there."""
        topics = self._groups[group]
        for topic in [topic for topic, partitions in topics.items() if not partitions]:
            del topics[topic]
        if not topics:
            del self._groups[group]
        return bool(topics)

    def _read(self, group: str, topic: str, partition: int, value: bytes) -> CommittedOffset | None:
        """Read a kept value; one that cannot be read counts as never committed."""
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
        self, group: str, topic: str, partition: int, offset: CommittedOffset | None, undo: UndoLog | None
    ) -> None:
        """Put an offset in the place of what was there; None removes it."""
        if undo is not None:
            before = self.get(group, topic, partition)
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


class PendingTransactionalOffsets:
    """Records of transactions whose marker has not come, by producer, as keys and values of the log."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[bytes, bytes | None]] = {}
        self._writers: dict[bytes, dict[int, None]] = {}
        """Key -> producers whose open transactions have written it."""
        self._places: dict[str, dict[bytes, tuple[str, int]]] = {}
        """Group -> those keys of it, with topic and partition."""
        self._superseded: set[tuple[int, bytes]] = set()
        self._gone: set[bytes] = set()
        """Pending keys that a tombstone took away: not unstable any longer."""

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def hold(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        self._by_producer.setdefault(producer_id, {})[key] = value
        writers = self._writers.get(key)
        if writers is None:
            writers = self._writers[key] = {}
            place = _place(key)
            if place is not None:
                self._places.setdefault(place.group, {})[key] = (place.topic, place.partition)
        writers[producer_id] = None
        self._superseded.discard((producer_id, key))
        self._gone.discard(key)

    def supersede(self, key: bytes, *, is_gone: bool, undo: UndoLog | None) -> None:
        """The key was written outside of any transaction: what is pending for it is older. A tombstone takes
        it away altogether; the transaction stays open, and keeps its group from being removed."""
        for producer_id in self._writers.get(key, ()):
            mark = (producer_id, key)
            if mark not in self._superseded:
                self._superseded.add(mark)
                if undo is not None:
                    undo.add(partial(self._superseded.discard, mark))
        if is_gone and key in self._writers and key not in self._gone:
            self._gone.add(key)
            if undo is not None:
                undo.add(partial(self._gone.discard, key))

    def end(self, producer_id: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Close the producer's transaction; yields what a commit writes, in the order in which it was
        sent."""
        written = self._by_producer.pop(producer_id, {})
        effective: list[tuple[bytes, bytes | None]] = []
        for key, value in written.items():
            writers = self._writers[key]
            del writers[producer_id]
            if not writers:
                self._forget(key)
            if (producer_id, key) in self._superseded:
                self._superseded.discard((producer_id, key))
            else:
                effective.append((key, value))
        return iter(effective)

    def _forget(self, key: bytes) -> None:
        """Nobody's transaction has written it any longer."""
        del self._writers[key]
        self._gone.discard(key)
        place = _place(key)
        if place is not None:
            places = self._places[place.group]
            del places[key]
            if not places:
                del self._places[place.group]

    def is_pending(self, key: bytes) -> bool:
        return key in self._writers and key not in self._gone

    def has_group(self, group: str) -> bool:
        """Whether an open transaction has written offsets of the group."""
        return group in self._places

    def pending_places(self, group: str) -> list[tuple[str, int]]:
        """Topics and partitions of a group that open transactions have written and no tombstone has taken
        away since."""
        return [place for key, place in self._places.get(group, {}).items() if key not in self._gone]

    def groups(self) -> list[str]:
        """Groups of which open transactions have written offsets."""
        return list(self._places)


def _place(key: bytes) -> GroupKey | None:
    try:
        return read_key(key)
    except ProtocolError:
        return None
