"""One event's view of the world: the time, the rules, the deadlines, and what the event leaves behind.

Every function that moves a group takes a turn and works through it, so that it can be tested with a turn made
by hand: look at the outcome, at the deadlines, at the group.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from broker.coordinator.deadlines import DeadlineQueue
from broker.coordinator.group.classic_group import ClassicGroup, Member, ParkedJoin
from broker.coordinator.group.settings import GroupSettings
from broker.coordinator.ports import CurrentTime
from broker.coordinator.result import CoordinatorResult
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse


class DeadlineKind(IntEnum):
    """What is due."""

    SESSION = 0
    """A member, or an id that waits for its join, has not been heard of."""
    JOIN_PHASE = 1
    """Members had time enough to join."""
    SYNC_PHASE = 2
    """Members had time enough to ask for their assignment."""
    EXPIRE_OFFSETS = 3
    """Look for offsets that nobody needs any longer."""


DeadlineKey = tuple[DeadlineKind, str, str]
"""Kind, group id, member id ("" where it does not matter)."""


class GroupOperation:
    """Made for one event, read once by the shard."""

    __slots__ = ("deadlines", "make_uuid", "now", "result", "settings")

    def __init__(
        self,
        now: CurrentTime,
        settings: GroupSettings,
        deadlines: DeadlineQueue[DeadlineKey],
        make_uuid: Callable[[], str],
    ) -> None:
        self.now = now
        self.settings = settings
        self.deadlines = deadlines
        self.make_uuid = make_uuid
        self.result: CoordinatorResult[Any] = CoordinatorResult()

    def later(self, now: CurrentTime) -> GroupOperation:
        """The turn in which the storing of this turn's records is heard of."""
        return GroupOperation(now, self.settings, self.deadlines, self.make_uuid)

    # Deadlines

    def schedule(self, kind: DeadlineKind, group: ClassicGroup, delay_ms: int, member_id: str = "") -> None:
        self.deadlines.set((kind, group.group_id, member_id), self.now.monotonic_ms + delay_ms)

    def bring_forward(self, kind: DeadlineKind, group: ClassicGroup, delay_ms: int) -> None:
        """Have it due after the delay, unless it is due earlier."""
        key, due_ms = (kind, group.group_id, ""), self.now.monotonic_ms + delay_ms
        at_ms = self.deadlines.get(key)
        if at_ms is None or due_ms < at_ms:
            self.deadlines.set(key, due_ms)

    def is_due(self, kind: DeadlineKind, group: ClassicGroup, member_id: str = "") -> bool:
        """Whether there is such a deadline."""
        return (kind, group.group_id, member_id) in self.deadlines

    def cancel(self, kind: DeadlineKind, group: ClassicGroup, member_id: str = "") -> None:
        self.deadlines.cancel((kind, group.group_id, member_id))

    def refresh_session(self, group: ClassicGroup, member: Member) -> None:
        """The member was heard of: its session begins anew."""
        self.schedule(DeadlineKind.SESSION, group, member.session_timeout_ms, member.member_id)

    # Answers

    def answer_join(self, group: ClassicGroup, member: Member, response: JoinGroupResponse) -> None:
        """Set a parked join free, if there is one."""
        parked = member.parked_join
        if parked is not None:
            group.park_join(member, None)
            self.answer_parked(parked, response)

    def answer_parked(self, parked: ParkedJoin, response: JoinGroupResponse) -> None:
        self.result.answer(parked.waiting, fitted(response, parked.version))

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Set a parked sync free; whether there was one."""
        waiting, member.parked_sync = member.parked_sync, None
        if waiting is None:
            return False
        self.result.answer(waiting, response)
        return True


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=error)


def fitted(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """No protocol is an empty name before version 7 and null since."""
    if not response.protocol_name:
        response.protocol_name = None if version >= 7 else ""
    return response
