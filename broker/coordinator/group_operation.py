"""What an operation on a group works with: the time, the settings, the deadlines, and the result it fills.

Every function that changes a group takes a `GroupOperation`, so that it can be tested with one made by hand:
look at the result, at the deadlines, at the group.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import msgspec

from broker.coordinator.classic.classic_group import ClassicGroup, ClassicGroupMember, ParkedJoin
from broker.coordinator.consumer.operation import ConsumerGroupSettings
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.deadlines import DeadlineQueue
from broker.coordinator.runtime.result import CoordinatorResult
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.primitives import Uuid


class GroupSettings(msgspec.Struct, frozen=True):
    """The configs of the same names (dots for underscores) with Kafka's defaults; times in ms."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_characters: int = 4_096
    """`offset.metadata.max.bytes`, which counts characters of Java: UTF-16 code units."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    """`offsets.retention.minutes` in milliseconds."""
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_bytes: int = 5 * 1024 * 1024
    offsets_topic_partition_count: int = 50
    new_member_join_timeout_ms: int = 300_000
    """The time for which the join of a new member may wait for the end of a join phase. It is fixed, as in
    Kafka."""
    consumer: ConsumerGroupSettings = ConsumerGroupSettings()


class DeadlineKind(IntEnum):
    """The kinds of deadlines of groups."""

    SESSION = 0
    """A member, or an id that waits for its join, has not been heard of."""
    JOIN_PHASE = 1
    """Members had time enough to join."""
    SYNC_PHASE = 2
    """Members had time enough to ask for their assignment."""
    EXPIRE_OFFSETS = 3
    """Look for offsets that nobody needs any longer."""
    CONSUMER_SESSION = 4
    """A member of a consumer group has not been heard of."""
    CONSUMER_REBALANCE = 5
    """A member of a consumer group had time enough to give up partitions."""
    CONSUMER_JOIN = 6
    """A classic member of a consumer group had time enough to join again."""
    CONSUMER_SYNC = 7
    """A classic member of a consumer group had time enough for SyncGroup."""
    DELETE_TOPICS = 8
    """Remove more offsets of deleted topics."""


DeadlineKey = tuple[DeadlineKind, str, str]
"""The kind, the group id, and the member id ("" where it does not matter)."""


class GroupOperation:
    """An operation for one request, deadline or stored write. The runtime settles its result."""

    __slots__ = ("deadlines", "make_uuid", "now", "result", "settings")

    def __init__(
        self,
        now: CurrentTime,
        settings: GroupSettings,
        deadlines: DeadlineQueue[DeadlineKey],
        make_uuid: Callable[[], Uuid],
    ) -> None:
        self.now = now
        self.settings = settings
        self.deadlines = deadlines
        self.make_uuid = make_uuid
        self.result: CoordinatorResult[Any] = CoordinatorResult()

    def later(self, now: CurrentTime) -> GroupOperation:
        """The operation that runs when the records of this one are stored, or refused."""
        return GroupOperation(now, self.settings, self.deadlines, self.make_uuid)

    # Deadlines

    def schedule(self, kind: DeadlineKind, group: ClassicGroup, delay_ms: int, member_id: str = "") -> None:
        self.deadlines.set((kind, group.group_id, member_id), self.now.monotonic_ms + delay_ms)

    def bring_forward(self, kind: DeadlineKind, group: ClassicGroup, delay_ms: int) -> None:
        """Sets the deadline to the end of this delay, unless it is due earlier."""
        key, due_ms = (kind, group.group_id, ""), self.now.monotonic_ms + delay_ms
        at_ms = self.deadlines.get(key)
        if at_ms is None or due_ms < at_ms:
            self.deadlines.set(key, due_ms)

    def is_due(self, kind: DeadlineKind, group: ClassicGroup, member_id: str = "") -> bool:
        """Whether there is such a deadline."""
        return (kind, group.group_id, member_id) in self.deadlines

    def cancel(self, kind: DeadlineKind, group: ClassicGroup, member_id: str = "") -> None:
        self.deadlines.cancel((kind, group.group_id, member_id))

    def refresh_session(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Begins the member's session anew, because it was heard of."""
        self.schedule(DeadlineKind.SESSION, group, member.session_timeout_ms, member.member_id)

    # Answers

    def answer_join(
        self, group: ClassicGroup, member: ClassicGroupMember, response: JoinGroupResponse
    ) -> None:
        """Answers a parked JoinGroup, if there is one."""
        parked = member.parked_join
        if parked is not None:
            group.park_join(member, None)
            self.answer_parked(parked, response)

    def answer_parked(self, parked: ParkedJoin, response: JoinGroupResponse) -> None:
        self.result.answer(parked.waiting, fitted(response, parked.version))

    def answer_sync(self, member: ClassicGroupMember, response: SyncGroupResponse) -> bool:
        """Answers a parked SyncGroup. Returns whether there was one."""
        waiting, member.parked_sync = member.parked_sync, None
        if waiting is None:
            return False
        self.result.answer(waiting, response)
        return True


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=error)


def fitted(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """The protocol name for an answer: the absence of a protocol is an empty name before version 7 and null
    since."""
    if not response.protocol_name:
        response.protocol_name = None if version >= 7 else ""
    return response
