"""The groups of one partition: what their records say, and who is in them.

A classic group is two things, in Kafka as here. Its recorded metadata (generation, protocol, leader, members
with their assignments) are the newest record under its key; they change in `replay` alone, by the same lines
for a live record as for a loaded one. Its membership lives in memory: who has joined, who waits for whom, and
whose session ends when. Requests change it without a record; a record is written when a generation has its
assignment or has become empty. So a live group is ahead of its record, and replaying a live record leaves its
membership alone. Where nobody has memory, at the end of a load, membership begins with what the record says.

A group without a record is that of a simple consumer: it holds committed offsets and nothing else, and an
offset's record brings it into being.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from broker.coordinator.classic import rebalance
from broker.coordinator.classic.classic_group import ClassicGroup
from broker.coordinator.classic.group_records import read_group, read_group_metadata
from broker.coordinator.consumer.consumer_groups import ConsumerGroups
from broker.coordinator.group_keys import SHORT, newer_group
from broker.coordinator.group_operation import GroupOperation
from broker.coordinator.runtime.result import UndoLog
from protocol.errors import ErrorCode, ProtocolError
from protocol.group_log.classic_groups import GroupMetadataValue

LOG: Final = logging.getLogger("barnabas.groups")


class GroupMetadataManager:
    """All groups of one partition of `__consumer_offsets`."""

    def __init__(
        self, partition: int, has_offsets: Callable[[str], bool], consumers: ConsumerGroups | None = None
    ) -> None:
        self.consumers = consumers or ConsumerGroups()
        """The groups of the newer protocol. No group is in both."""
        self._partition = partition
        self._has_offsets = has_offsets
        self.groups: dict[str, ClassicGroup] = {}
        """The classic groups by id. While loading, groups with a record are without members."""
        self._records: dict[str, bytes] = {}
        """The recorded metadata by group id, as the bytes of the newest record."""
        self._newer_keys: dict[bytes, str | None] = {}
        """Keys of records that this broker does not know, with the group that they name."""
        self._newer_groups: dict[str, int] = {}
        """Groups of protocols that are not served here, with the number of their records; the log of a newer
        broker told of them. Their offsets can be read, and nobody joins them, commits to them, deletes them
        or lets them expire."""

    def get(self, group_id: str) -> ClassicGroup | None:
        return self.groups.get(group_id)

    def is_newer(self, group_id: str) -> bool:
        """Whether the group is of a protocol that is not served here, or has members of the newer one."""
        consumer = self.consumers.get(group_id)
        return self.is_unserved(group_id) or (consumer is not None and bool(consumer.members))

    def is_unserved(self, group_id: str) -> bool:
        """Whether the group is of a protocol that is not served here."""
        return group_id in self._newer_groups

    def exists(self, group_id: str) -> bool:
        """Whether there is a group of that id, of any protocol."""
        return group_id in self.groups or group_id in self.consumers.groups or self.is_unserved(group_id)

    def recorded(self, group_id: str) -> GroupMetadataValue | None:
        """The content of the group's newest record; None if it has none. Raises ProtocolError if it cannot be
        read."""
        value = self._records.get(group_id)
        return None if value is None else read_group_metadata(value)

    # Membership, in memory

    def add_new(self, group_id: str, operation: GroupOperation) -> ClassicGroup:
        """Adds a group that a client has just asked to join. Its record follows in the same operation."""
        group = self.groups[group_id] = ClassicGroup(group_id, state_timestamp_ms=operation.now.wall_ms)
        return group

    def new_was_refused(self, group: ClassicGroup) -> bool:
        """Takes in that the new group's record was refused, or not confirmed in time. The group is replaced
        by what the log says. Returns whether it was still there."""
        group_id = group.group_id
        if self.groups.get(group_id) is not group:
            return False
        del self.groups[group_id]
        recorded = self._records.get(group_id)
        if recorded is not None:
            self.groups[group_id] = read_group(group_id, recorded)
        elif self._has_offsets(group_id) and self.consumers.get(group_id) is None:
            self.groups[group_id] = ClassicGroup(group_id)
        return True

    def replace(self, group: ClassicGroup) -> None:
        """Puts a group in the place of one that is not sound."""
        self.groups[group.group_id] = group

    # Replay

    def replay(self, group_id: str, value: bytes | None, undo: UndoLog | None) -> None:
        """Applies the record of a classic group; None removes the group. If it has offsets nevertheless, they
        are those of a simple consumer from now on."""
        if undo is not None:
            undo.add(partial(self._put_record, group_id, self._records.get(group_id)))
        self._put_record(group_id, value)
        if value is not None:
            self.ensure(group_id, undo)
            return
        group = self.groups.pop(group_id, None)
        if group is not None and undo is not None:
            undo.add(partial(self._bring_back, group))
        if self._has_offsets(group_id):
            self.ensure(group_id, undo)

    def ensure(self, group_id: str, undo: UndoLog | None) -> None:
        """Creates the group if it does not exist, because a record names it."""
        if self.exists(group_id):
            return
        self.groups[group_id] = ClassicGroup(group_id)
        if undo is not None:
            undo.add(partial(self._forget_simple, group_id))

    def replay_consumer(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Applies a record of a consumer group. If it creates the group, offsets that exist already are its
        own from now on; if it ends it, they are those of a simple consumer."""
        group_id = self.consumers.replay(key, value, undo)
        if self.consumers.get(group_id) is None:
            if value is None and self._has_offsets(group_id):
                self.ensure(group_id, undo)
            return
        group = self.groups.get(group_id)
        if value is not None and group is not None and group_id not in self._records and _is_simple(group):
            del self.groups[group_id]
            if undo is not None:
                undo.add(partial(self._bring_back, group))

    def replay_unknown(self, key: bytes, value: bytes | None) -> None:
        """Takes in a record of a type that this broker does not know: it stays in the log, and nothing is
        done to its group. No operation returns such a record, so there is nothing to undo."""
        if (key in self._newer_keys) == (value is not None):
            return
        group_id = newer_group(key)
        if value is None:
            del self._newer_keys[key]
        else:
            self._newer_keys[key] = group_id
        if group_id is None:
            return
        count = self._newer_groups.get(group_id, 0) + (1 if value is not None else -1)
        if count:
            self._newer_groups[group_id] = count
        else:
            del self._newer_groups[group_id]

    def _put_record(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self._records.pop(group_id, None)
        else:
            self._records[group_id] = value

    def _forget_simple(self, group_id: str) -> None:
        """Removes a group whose first record was refused. If a client has asked to join it meanwhile, it
        stays."""
        group = self.groups.get(group_id)
        if group is not None and _is_simple(group):
            del self.groups[group_id]

    def _bring_back(self, group: ClassicGroup) -> None:
        """Restores a group whose deletion was refused. If a client has asked to join a group of its name
        meanwhile, that one stays."""
        current = self.groups.get(group.group_id)
        if current is None or _is_simple(current):
            self.groups[group.group_id] = group

    # Loading

    def build(self, groups_with_offsets: Iterator[str]) -> Iterator[None]:
        """Gives groups the members that their records name, after the end of the log. Yields after each."""
        for group_id, value in list(self._records.items()):
            try:
                self.groups[group_id] = read_group(group_id, value)
            except ProtocolError as problem:
                LOG.error("partition %d: a record is left out: %s", self._partition, problem)
                del self._records[group_id]
                del self.groups[group_id]
            yield
        for group_id in list(self._newer_groups):
            if group_id not in self._records:
                self.groups.pop(group_id, None)
        for group_id in groups_with_offsets:
            self.ensure(group_id, None)
            yield

    def loaded(self, operation: GroupOperation) -> None:
        """Begins the sessions at the new coordinator. A group with more members than a lowered limit allows
        rebalances."""
        counts: dict[int, int] = {}
        for key in self._newer_keys:
            (kind,) = SHORT.unpack_from(key)
            counts[kind] = counts.get(kind, 0) + 1
        for kind, count in sorted(counts.items()):
            LOG.warning(
                "partition %d: %d records of kind %d, which this broker does not know, are left alone",
                self._partition,
                count,
                kind,
            )
        for group in self.groups.values():
            for member in group.members.values():
                operation.refresh_session(group, member)
            if len(group.members) > operation.settings.group_max_size:
                rebalance.prepare(
                    group, operation, f"{len(group.members)} members are more than group.max.size"
                )

    def unloaded(self, operation: GroupOperation) -> None:
        """Tells all waiting clients to look for the new coordinator."""
        for group in self.groups.values():
            rebalance.free_everybody(group, operation, ErrorCode.NOT_COORDINATOR)


def _is_simple(group: ClassicGroup) -> bool:
    """Whether no client has asked to join the group, so that it consists of offsets alone."""
    return group.protocol_type is None and not group.pending_members
