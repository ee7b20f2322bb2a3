"""All groups of one partition of `__consumer_offsets`.

The shard is the state machine that the runtime drives. It finds the group of a request, gives the event a
turn, and hands back its outcome. Offsets, and which groups are gone, change in `replay` alone. Membership is
different: a live group is ahead of its record, which is a memory for the next coordinator, so replaying the
own record of a group that is in memory changes nothing; loading builds groups from it.

Loading puts offsets where they belong at once, unread; of all other keys it gathers the last value and builds
the groups from what is left. A partition of a million records often holds a few thousand keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from broker.coordinator.deadlines import DeadlineQueue
from broker.coordinator.group import deletion, rebalance
from broker.coordinator.group import join as joins
from broker.coordinator.group import leave as leaves
from broker.coordinator.group import sync as syncs
from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.expiry import expired_offsets
from broker.coordinator.group.group_records import (
    GROUP,
    LEGACY_OFFSET,
    OFFSET_KEY_PREFIX,
    PARTITION_BYTES,
    CommittedOffset,
    group_tombstone,
    new_group_record,
    newer_group,
    offset_key,
    read_group,
    read_key,
    read_offset,
)
from broker.coordinator.group.offset_commit import commit
from broker.coordinator.group.offset_store import OffsetStore, PendingTransactionalOffsets
from broker.coordinator.group.operation import DeadlineKey, DeadlineKind, GroupOperation, join_error
from broker.coordinator.group.settings import GroupSettings
from broker.coordinator.group.soundness import emptied, is_sound
from broker.coordinator.group.states import GroupState
from broker.coordinator.ports import CurrentTime
from broker.coordinator.result import CoordinatorResult, UndoLog, response_error
from protocol.errors import ErrorCode, ProtocolError, invariant
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.primitives import Uuid
from protocol.serving.pending import Pending

LOG: Final = logging.getLogger("barnabas.groups")
EXPIRY_SLICE_OFFSETS: Final = 2_000
"""Offsets looked at in one turn of the loop: a few milliseconds."""


class GroupShard:
    """Groups and offsets of one partition."""

    def __init__(self, partition: int, settings: GroupSettings, make_uuid: Callable[[], str]) -> None:
        self.partition = partition
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        self.transactions = PendingTransactionalOffsets()
        self.deadlines: DeadlineQueue[DeadlineKey] = DeadlineQueue()
        self._settings = settings
        self._make_uuid = make_uuid
        self.newer_groups: dict[str, None] = {}
        """Groups of protocols that are not served here; the log of a newer broker told of them. Their offsets
        can be read, and nobody joins them, deletes them or lets them expire."""
        self._unknown_kinds: dict[int, int] = {}
        self._gathered: dict[bytes, bytes] = {}
        """While loading: the last value of each key that is not an offset's."""
        self._slots: dict[bytes, dict[int, CommittedOffset | bytes]] = {}
        """While loading: by the bytes of a key without the partition, where its offsets go."""
        self._left_to_build: Iterator[tuple[bytes | None, Any]] | None = None
        self._left_to_look_at: list[str] = []
        """Groups whose offsets this round of expiry has not seen."""
        self._touched = ""
        """The group with which the last operation had to do: if it raised, that is to be mended."""

    # Members

    def join(self, group_id: str, joining: joins.Joining, now: CurrentTime) -> CoordinatorResult[Any]:
        """The answer goes to where `joining` is parked."""
        operation = self._turn(now, group_id)
        group = self.groups.get(group_id)
        if group is not None:
            joins.join(group, joining, operation)
            return operation.result
        if group_id in self.newer_groups:
            refusal = join_error(joining.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            operation.answer_parked(joining.parked, refusal)
            return operation.result
        if joining.member_id:
            operation.answer_parked(
                joining.parked, join_error(joining.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            )
            return operation.result
        group = ClassicGroup(group_id, state_timestamp_ms=now.wall_ms)
        self.groups[group_id] = group
        joins.join(group, joining, operation)
        self._store_new(group, operation)
        return operation.result

    def _store_new(self, group: ClassicGroup, operation: GroupOperation) -> None:
        """A group exists when the log says so; if the log will not, whoever has joined must begin anew."""
        operation.result.write(lambda: new_group_record(group))

        def stored(error: ErrorCode, now: CurrentTime) -> CoordinatorResult[None]:
            after = operation.later(now)
            if error is not ErrorCode.NONE and self.groups.get(group.group_id) is group:
                del self.groups[group.group_id]
                rebalance.free_everybody(group, after, response_error(error))
            return after.result

        operation.result.on_stored = stored

    def sync(
        self, request: SyncGroupRequest, waiting: Pending[SyncGroupResponse], now: CurrentTime
    ) -> CoordinatorResult[Any]:
        operation = self._turn(now, request.group_id)
        group = self.groups.get(request.group_id)
        if group is None:
            operation.result.answer(waiting, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            syncs.sync(group, request, waiting, operation)
        return operation.result

    def heartbeat(self, request: HeartbeatRequest, now: CurrentTime) -> ErrorCode:
        group = self.groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return syncs.heartbeat(group, request, self._turn(now, request.group_id))

    def leave(
        self, group_id: str, members: list[LeaveGroupRequest.MemberIdentity], now: CurrentTime
    ) -> CoordinatorResult[LeaveGroupResponse]:
        operation = self._turn(now, group_id)
        group = self.groups.get(group_id)
        if group is not None:
            operation.result.response = leaves.leave(group, members, operation)
            return operation.result
        operation.result.response = LeaveGroupResponse(
            members=[
                LeaveGroupResponse.MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for identity in members
            ]
        )
        return operation.result

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int, most_bytes: int, now: CurrentTime
    ) -> CoordinatorResult[OffsetCommitResponse]:
        """most_bytes: what the log takes in one batch."""
        operation = self._turn(now, request.group_id)
        commit(self.groups.get(request.group_id), request, version, most_bytes, operation)
        return operation.result

    def has_pending_offset(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction would change the offset."""
        return bool(self.transactions) and self.transactions.is_pending(
            offset_key(group_id, topic, partition)
        )

    def delete_offsets(
        self, request: OffsetDeleteRequest, now: CurrentTime
    ) -> CoordinatorResult[OffsetDeleteResponse]:
        operation = self._turn(now, request.group_id)
        group = self.groups.get(request.group_id)
        deletion.delete_offsets(request, group, self.offsets, self.transactions, operation)
        return operation.result

    def delete_group(self, group_id: str, now: CurrentTime) -> CoordinatorResult[ErrorCode]:
        operation = self._turn(now, group_id)
        deletion.delete_group(group_id, self.groups.get(group_id), self.offsets, self.transactions, operation)
        return operation.result

    def topics_deleted(self, deleted: Mapping[str, Uuid], now: CurrentTime) -> CoordinatorResult[None]:
        """Nobody needs offsets of a topic that is gone."""
        operation = self._turn(now)
        deletion.forget_topics(deleted, self.offsets, self.transactions, operation)
        return operation.result

    def _expire_offsets(self, operation: GroupOperation) -> None:
        """Look at the next groups for offsets that nobody needs; the rest follows after the loop's other
        work."""
        operation.result.atomic = False
        records = operation.result.records
        left = self._left_to_look_at = self._left_to_look_at or list(self.groups)
        budget = EXPIRY_SLICE_OFFSETS
        while left and budget > 0:
            group_id = left.pop()
            group = self.groups.get(group_id)
            if group is not None:
                budget -= 1
                try:
                    budget -= self._expire_group(group, operation)
                except Exception:
                    LOG.exception("group %s: what has expired of it cannot be told", group_id)
        if records:
            LOG.info(
                "partition %d: %d tombstones for expired offsets and groups", self.partition, len(records)
            )
        self._schedule_expiry(
            operation.now, 1 if left else self._settings.offsets_retention_check_interval_ms
        )

    def _expire_group(self, group: ClassicGroup, operation: GroupOperation) -> int:
        """How many offsets were looked at."""

        def is_pending(topic: str, partition: int) -> bool:
            return self.has_pending_offset(group.group_id, topic, partition)

        topics = self.offsets.topics(group.group_id)
        all_gone = not topics
        if topics:
            gone, all_gone = expired_offsets(
                group, topics, is_pending, operation.now.wall_ms, self._settings.offsets_retention_ms
            )
            operation.result.records.extend(gone)
        is_unstable = self.transactions.has_group(group.group_id)
        if all_gone and group.state is GroupState.EMPTY and not is_unstable:
            operation.result.records.append(group_tombstone(group.group_id))
        return sum(map(len, topics.values()))

    def _schedule_expiry(self, now: CurrentTime, delay_ms: int) -> None:
        self.deadlines.set((DeadlineKind.EXPIRE_OFFSETS, "", ""), now.monotonic_ms + delay_ms)

    # Deadlines

    def next_look_ms(self) -> int | None:
        return self.deadlines.next_look_ms()

    def expire(self, now: CurrentTime) -> CoordinatorResult[None] | None:
        key = self.deadlines.pop_due(now.monotonic_ms)
        if key is None:
            return None
        kind, group_id, member_id = key
        operation = self._turn(now, group_id)
        group = self.groups.get(group_id)
        if kind is DeadlineKind.EXPIRE_OFFSETS:
            self._expire_offsets(operation)
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
        """What raised may have left its group half changed: one that is not sound any longer ends."""
        operation = self._turn(now, self._touched)
        for group_id in list(self.groups) if everything else [self._touched]:
            group = self.groups.get(group_id)
            if group is not None and not is_sound(group, operation):
                LOG.error("group %s is left half changed: it ends, and its members must join anew", group_id)
                self.groups[group_id] = emptied(group, operation)
        if (DeadlineKind.EXPIRE_OFFSETS, "", "") not in self.deadlines:
            self._schedule_expiry(now, self._settings.offsets_retention_check_interval_ms)
        return operation.result

    # Records

    def replay(self, key: bytes, value: bytes | None, undo: UndoLog | None) -> None:
        """Apply one record of the log. A ProtocolError is raised for bytes that are none of ours."""
        read = read_key(key)
        if read is None:
            self._leave_alone(key)
            return
        if read.kind == GROUP:
            self._replay_group(read.group, value, undo)
            return
        if self.transactions and undo is not None:  # what was loaded has been weighed in its order
            self.transactions.supersede(key, is_gone=value is None, undo=undo)
        if value is not None and read.group not in self.groups and read.group not in self.newer_groups:
            self.groups[read.group] = ClassicGroup(read.group)
            if undo is not None:
                undo.add(lambda: self._forget_simple(read.group))
        if read.kind == LEGACY_OFFSET and self.offsets.has(read.group, read.topic, read.partition):
            return  # the newer form of the same offset came later
        offset = None if value is None else read_offset(read.kind, value)
        self.offsets.set(read.group, read.topic, read.partition, offset, undo)

    def _leave_alone(self, key: bytes) -> None:
        """A record that this broker does not know: it stays in the log, and nothing is done to its group."""
        kind = int.from_bytes(key[:2], "big", signed=True)
        self._unknown_kinds[kind] = self._unknown_kinds.get(kind, 0) + 1
        group_id = newer_group(key)
        if group_id is not None:
            self.newer_groups[group_id] = None

    def _forget_simple(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None and group.protocol_type is None and not group.pending_members:
            del self.groups[group_id]

    def _replay_group(self, group_id: str, value: bytes | None, undo: UndoLog | None) -> None:
        if value is None:
            group = self.groups.pop(group_id, None)
            if group is not None and undo is not None:
                undo.add(lambda: self._bring_back(group))
        elif undo is None:
            self.groups[group_id] = read_group(group_id, value)

    def _bring_back(self, group: ClassicGroup) -> None:
        """A group's deletion was refused; a new group of its name may have come meanwhile, and stays."""
        self.groups.setdefault(group.group_id, group)

    # Loading

    def load(self, key: bytes, value: bytes | None) -> None:
        if self.transactions:
            self.transactions.supersede(key, is_gone=value is None, undo=None)
        if not key.startswith(OFFSET_KEY_PREFIX):
            if value is None:
                self._gathered.pop(key, None)
            else:
                self._gathered[key] = value
            return
        slot = self._slots.get(key[:-PARTITION_BYTES])
        if slot is None:
            slot = self._slot(key)
            if slot is None:
                return
        partition = int.from_bytes(key[-PARTITION_BYTES:], "big", signed=True)
        if value is None:
            slot.pop(partition, None)
        else:
            slot[partition] = value

    def _slot(self, key: bytes) -> dict[int, CommittedOffset | bytes] | None:
        """Where the offsets of the key's group and topic go; None for bytes that are no key."""
        try:
            read = read_key(key)
        except ProtocolError as problem:
            LOG.error("partition %d: a record is left out: %s", self.partition, problem)
            return None
        if read is None or offset_key(read.group, read.topic, read.partition) != key:
            LOG.error("partition %d: a record is left out: %d bytes are no key", self.partition, len(key))
            return None
        slot = self._slots[key[:-PARTITION_BYTES]] = self.offsets.slot(read.group, read.topic)
        return slot

    def load_transactional(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        self.transactions.hold(producer_id, key, value)

    def load_marker(self, producer_id: int, committed: bool) -> None:
        for key, value in self.transactions.end(producer_id):
            if committed:
                self.load(key, value)

    def build(self, max_records: int) -> bool:
        """After the log's end: make groups of what was gathered. True when all is made."""
        if self._left_to_build is None:
            gathered, self._gathered, self._slots = self._gathered, {}, {}
            self._left_to_build = chain(gathered.items(), ((None, name) for name in self.offsets.groups()))
        for _ in range(max_records):
            item = next(self._left_to_build, None)
            if item is None:
                return True
            self._build_one(*item)
        return False

    def _build_one(self, key: bytes | None, value: Any) -> None:
        """A record that was gathered, or (None) the id of a group that has offsets. If no record tells of
        that group, it is of consumers that need no coordinator."""
        if key is None:
            known = value in self.groups or value in self.newer_groups
            if self.offsets.tidy(value) and not known:
                self.groups[value] = ClassicGroup(value)
            return
        try:
            self.replay(key, value, None)
        except ProtocolError as problem:
            LOG.error("partition %d: a record is left out: %s", self.partition, problem)

    def loaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        """Sessions begin with the new coordinator; a group beyond a lowered limit rebalances."""
        operation = self._turn(now)
        for kind, count in sorted(self._unknown_kinds.items()):
            LOG.warning(
                "partition %d: %d records of kind %d, which this broker does not know, are left alone",
                self.partition,
                count,
                kind,
            )
        for group in self.groups.values():
            for member in group.members.values():
                operation.refresh_session(group, member)
            if len(group.members) > self._settings.group_max_size:
                rebalance.prepare(
                    group, operation, f"{len(group.members)} members are more than group.max.size"
                )
        self._schedule_expiry(now, self._settings.offsets_retention_check_interval_ms)
        return operation.result

    def unloaded(self, now: CurrentTime) -> CoordinatorResult[None]:
        operation = self._turn(now)
        for group in self.groups.values():
            rebalance.free_everybody(group, operation, ErrorCode.NOT_COORDINATOR)
        return operation.result

    def _turn(self, now: CurrentTime, group_id: str = "") -> GroupOperation:
        self._touched = group_id
        return GroupOperation(now, self._settings, self.deadlines, self._make_uuid)
