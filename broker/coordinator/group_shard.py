"""The shard of one partition of `__consumer_offsets`: its groups, their offsets, and all that is due in it.

The runtime drives it, and operations (the functions in `classic/` and `offsets/`) work on its two managers.
Nothing in here is about one request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from broker.coordinator.classic import rebalance
from broker.coordinator.classic.soundness import end_group, is_sound
from broker.coordinator.consumer.consumer_group_requests import ConsumerGroupRequests, ConsumerPorts
from broker.coordinator.consumer.consumer_groups import KINDS, ConsumerGroups
from broker.coordinator.group_keys import GROUP, OFFSET_KEY_PREFIX, SHORT, read_key
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import DeadlineKey, DeadlineKind, GroupOperation, GroupSettings
from broker.coordinator.offsets.expiry import OffsetExpiry
from broker.coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from broker.coordinator.ports import CurrentTime, MetadataUpdate
from broker.coordinator.runtime.deadlines import DeadlineQueue
from broker.coordinator.runtime.result import CoordinatorResult, UndoLog
from protocol.errors import invariant
from protocol.primitives import Uuid

LOG: Final = logging.getLogger("barnabas.groups")
FENCING: Final = (DeadlineKind.CONSUMER_SESSION, DeadlineKind.CONSUMER_JOIN, DeadlineKind.CONSUMER_SYNC)
"""Deadlines by which a member of a consumer group is removed, whatever it does."""


class GroupShard:
    """The groups and offsets of one partition."""

    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        make_uuid: Callable[[], Uuid],
        consumer_ports: ConsumerPorts,
    ) -> None:
        self.partition = partition
        consumers = ConsumerGroups()
        self.group_metadata = GroupMetadataManager(partition, self._has_offsets, consumers)
        self.consumers = ConsumerGroupRequests(consumers, self.group_metadata, consumer_ports)
        self.offset_metadata = OffsetMetadataManager(self.group_metadata)
        self.deadlines: DeadlineQueue[DeadlineKey] = DeadlineQueue()
        self._expiry = OffsetExpiry(partition, self.group_metadata, self.offset_metadata)
        self._settings = settings
        self._make_uuid = make_uuid
        self._left_to_build: Iterator[None] | None = None
        self._touched = ""
        """The group of the last operation: if that has raised, the group is to be mended."""

    def begin(self, now: CurrentTime, group_id: str = "") -> GroupOperation:
        """A new operation, on this group or, if it is left out, on all."""
        self._touched = group_id
        return GroupOperation(now, self._settings, self.deadlines, self._make_uuid)

    def _has_offsets(self, group_id: str) -> bool:
        """Whether the group has offsets, those of open transactions included, because either kind creates the
        group."""
        offsets = self.offset_metadata
        return offsets.committed.has_group(group_id) or offsets.pending.has_offsets(group_id)

    # Replay, of live records and of loaded ones

    def replay(
        self, key: bytes, value: bytes | None, undo: UndoLog | None, position: int | None = None
    ) -> None:
        """Applies one record of the log. One of a transaction that is committed now has its position among
        the pending records. Raises ProtocolError for bytes that cannot be read."""
        if key.startswith(OFFSET_KEY_PREFIX):
            self.offset_metadata.replay(key, value, undo, position)
            return
        read = read_key(key)
        if read is None and SHORT.unpack_from(key)[0] in KINDS:
            self.group_metadata.replay_consumer(key, value, undo)
        elif read is None:
            self.group_metadata.replay_unknown(key, value)
        elif read.kind != GROUP:
            self.offset_metadata.replay_legacy(read, value, undo)
        else:
            self.group_metadata.replay(read.group, value, undo)
            if value is None and undo is None:
                self.offset_metadata.group_removed(read.group)

    def replay_transactional(
        self, producer_id: int, key: bytes, value: bytes | None, undo: UndoLog | None
    ) -> None:
        """Keeps a record until the end of its transaction."""
        self.offset_metadata.replay_transactional(producer_id, key, value, undo)

    def replay_end_transaction_marker(self, producer_id: int, committed: bool, undo: UndoLog | None) -> None:
        """Applies what the transaction has written, or drops it."""
        for key, value, position in self.offset_metadata.end_transaction(producer_id, undo):
            if committed:
                self.replay(key, value, undo, position)

    # Loading and unloading

    def build(self, max_records: int) -> bool:
        if self._left_to_build is None:
            self._left_to_build = self.group_metadata.build(self.offset_metadata.build())
        return sum(1 for _ in islice(self._left_to_build, max_records)) < max_records

    def loaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        operation = self.begin(now)
        self.group_metadata.loaded(operation)
        self.consumers.loaded(operation)
        self._expiry.schedule(operation)
        return operation.result

    def unloaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        operation = self.begin(now)
        self.group_metadata.unloaded(operation)
        return operation.result

    def metadata_updated(self, update: MetadataUpdate, now: CurrentTime) -> CoordinatorResult[None]:
        """Deletes offsets of deleted topics, and has groups look at changed topics to which they
        subscribe."""
        self.consumers.topics_changed(update.changed_topics)
        operation = self.begin(now)
        if update.deleted_topics:
            self.offset_metadata.topic_deletions.begin(update.deleted_topics, operation)
        return operation.result

    # Deadlines

    def next_look_ms(self) -> int | None:
        return self.deadlines.next_look_ms()

    def expire(self, now: CurrentTime) -> CoordinatorResult[None] | None:
        key = self.deadlines.pop_due(now.monotonic_ms)
        if key is None:
            return None
        kind, group_id, member_id = key
        operation = self.begin(now, group_id)
        group = self.group_metadata.get(group_id)
        if kind is DeadlineKind.EXPIRE_OFFSETS:
            self._expiry.look(operation)
        elif kind is DeadlineKind.DELETE_TOPICS:
            self.offset_metadata.topic_deletions.go_on(operation)
        elif kind in FENCING:
            self.consumers.session_is_due(group_id, member_id, operation)
        elif kind is DeadlineKind.CONSUMER_REBALANCE:
            self.consumers.rebalance_is_due(group_id, member_id, operation)
        elif group is None:
            return operation.result
        elif kind is DeadlineKind.SESSION:
            rebalance.session_due(group, member_id, operation)
        elif kind is DeadlineKind.JOIN_PHASE:
            rebalance.join_phase_due(group, operation)
        else:
            rebalance.sync_phase_due(group, operation)
        again_ms = self.deadlines.get(key)
        if again_ms is not None and again_ms <= now.monotonic_ms:
            invariant(False, "a deadline that came up lies ahead again", key=key, again_ms=again_ms, now=now)
        return operation.result

    def mend(self, now: CurrentTime, *, everything: bool) -> CoordinatorResult[None]:
        """Ends the group of an operation that has raised, if that has left it half changed."""
        operation = self.begin(now, self._touched)
        for group_id in list(self.group_metadata.groups) if everything else [self._touched]:
            group = self.group_metadata.get(group_id)
            if group is not None and not is_sound(group, operation):
                LOG.error("group %s is left half changed: it ends, and its members must join anew", group_id)
                self.group_metadata.replace(end_group(group, operation))
        for group_id in list(self.group_metadata.consumers.groups) if everything else [self._touched]:
            self.consumers.mend(group_id, operation)
        self.offset_metadata.topic_deletions.schedule(operation)
        if not self._expiry.is_scheduled(operation):
            self._expiry.schedule(operation)
        return operation.result
