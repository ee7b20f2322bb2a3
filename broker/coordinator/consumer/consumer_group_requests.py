"""Consumer groups as a shard runs them: requests and deadlines on one side, the pure machine on the other.

What the machine leaves behind becomes part of the shard's operation: its records are written, and its
deadlines are set. A request that the machine refuses writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from broker.coordinator.classic import rebalance
from broker.coordinator.classic.group_records import group_tombstone
from broker.coordinator.classic.states import GroupState
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_records import group_tombstones
from broker.coordinator.consumer.consumer_groups import ConsumerGroups
from broker.coordinator.consumer.heartbeat import (
    Client,
    fence,
    heartbeat,
    late_member,
    leave,
    remove,
)
from broker.coordinator.consumer.member import JOINING_EPOCH, ConsumerGroupMember
from broker.coordinator.consumer.member_states import MemberState
from broker.coordinator.consumer.migration import Downgrade, upgraded
from broker.coordinator.consumer.operation import (
    ConsumerGroupSettings,
    ConsumerOperation,
    GroupRefusal,
    RebalanceTime,
    TopicsView,
    group_times,
)
from broker.coordinator.consumer.regexes import matched_topics, record_matches
from broker.coordinator.consumer.subscriptions import ResolvedRegex
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import DeadlineKind, GroupOperation, join_error
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, response_error
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupResponse

R = TypeVar("R")
LOG: Final = logging.getLogger("barnabas.groups")
MEMBER_DEADLINES: Final = (
    DeadlineKind.CONSUMER_SESSION,
    DeadlineKind.CONSUMER_REBALANCE,
    DeadlineKind.CONSUMER_JOIN,
    DeadlineKind.CONSUMER_SYNC,
)
MEMBER_EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit that members of the newer protocol can send."""


class ConsumerPorts(msgspec.Struct, eq=False):
    """What consumer groups need of the rest of the broker."""

    settings: ConsumerGroupSettings
    """Returns the present settings, which may change while the broker runs."""
    topics: TopicsView
    overrides: Callable[[str], Mapping[str, str]]
    """Returns the configs that a group sets for itself."""


class ConsumerGroupRequests:
    """Requests and deadlines of the consumer groups of one partition."""

    def __init__(self, groups: ConsumerGroups, classic: GroupMetadataManager, ports: ConsumerPorts) -> None:
        self._groups = groups
        self._classic = classic
        self._ports = ports
        self._revoking: dict[tuple[str, str], int] = {}
        """The epoch in which a member has to give up partitions, by group and member."""
        self.to_resolve: dict[str, Sequence[str]] = {}
        """The expressions of each group that are to be matched in later turns of the loop."""

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, operation: GroupOperation
    ) -> ConsumerGroupHeartbeatResponse:
        begun = self._begin(request.group_id, operation)
        try:
            group = self._group_for(request, begun)
            if request.member_epoch < JOINING_EPOCH:
                response = leave(group, request, begun)
            else:
                response = heartbeat(group, request, client, begun)
        except GroupRefusal as refusal:
            return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.message)
        self._settle(group, begun, operation)
        self._free_waiting(request.group_id, operation)
        return response

    def _free_waiting(self, group_id: str, operation: GroupOperation) -> None:
        """Tells the members that wait in a classic group to join anew, because it was just converted."""
        classic = None if group_id in self._groups.groups else self._classic.get(group_id)
        if classic is None or not operation.result.records:
            return
        for member in classic.members.values():
            if member.parked_join is not None or member.parked_sync is not None:
                error = ErrorCode.REBALANCE_IN_PROGRESS
                operation.answer_join(classic, member, join_error(member.member_id, error))
                operation.answer_sync(member, SyncGroupResponse(error_code=error))
                # If the log refuses the conversion, the member is one of the classic group as before.
                operation.refresh_session(classic, member)

    def _group_for(self, request: ConsumerGroupHeartbeatRequest, begun: ConsumerOperation) -> ConsumerGroup:
        """The request's group, or a new one that its records will create. An empty classic group of that name
        is replaced; one with members is converted. Raises GroupRefusal for a group of another protocol."""
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if request.member_epoch != JOINING_EPOCH or self._classic.is_unserved(group_id):
            known = f"Group {group_id} is not a consumer group."
            unknown = f"Consumer group {group_id} not found."
            exists = self._classic.exists(group_id)
            raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, known if exists else unknown)
        classic = self._classic.get(group_id)
        if classic is not None and classic.state is not GroupState.EMPTY:
            return upgraded(classic, begun)
        if classic is not None:
            begun.records.append(group_tombstone(group_id))
        return ConsumerGroup(group_id)

    # Deadlines

    def session_is_due(self, group_id: str, member_id: str, operation: GroupOperation) -> None:
        """Removes a member that was not heard of in time, or has not joined or synced in time."""
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is not None and member is not None:
            self._fence(group, member, operation)
            LOG.info("group %s: the time of member %s is over", group_id, member_id)

    def rebalance_is_due(self, group_id: str, member_id: str, operation: GroupOperation) -> None:
        """Removes a member that has not given up its partitions in time."""
        epoch = self._revoking.pop((group_id, member_id), None)
        group = self._groups.get(group_id)
        member = None if group is None or epoch is None else late_member(group, member_id, epoch)
        if group is not None and member is not None:
            self._fence(group, member, operation)

    def _fence(self, group: ConsumerGroup, member: ConsumerGroupMember, operation: GroupOperation) -> None:
        """Removes a member whose time is over. If the members that are left should become a classic group
        and cannot, the group stays what it is: there is no request to refuse, and the member is gone."""
        try:
            self.run(group, operation, lambda begun: fence(group, [member], begun))
        except GroupRefusal as refusal:
            LOG.info("group %s stays a consumer group: %s", group.group_id, refusal.message)
            self.run(group, operation, lambda begun: remove(group, [member], begun))

    def loaded(self, operation: GroupOperation) -> None:
        """Begins the sessions at the new coordinator, and the time of members that give up partitions."""
        for group in self._groups.groups.values():
            begun = self._begin(group.group_id, operation)
            for member in group.members.values():
                begun.session_of.append((member.member_id, _session_ms(member, begun)))
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    time = RebalanceTime(member.rebalance_timeout_ms, member.member_epoch)
                    begun.rebalance_of.append((member.member_id, time))
            self._settle(group, begun, operation)

    # Metadata

    def topics_changed(self, names: frozenset[str]) -> None:
        """Has the next heartbeat of each group that subscribes to one of these topics look at its topics
        anew."""
        for group in self._groups.groups.values():
            if group.subscribes_any(names):
                group.needs_metadata_check = True

    def searched(
        self, group_id: str, found: Mapping[str, ResolvedRegex] | None, operation: GroupOperation
    ) -> ErrorCode:
        """Takes in the result of a search for topics. Without one (None) the next heartbeat asks for another
        search."""
        group = self._groups.get(group_id)
        if group is not None:
            group.is_resolving = False
        if group is not None and found is not None:
            self.run(group, operation, lambda begun: record_matches(group, found, begun))
        return ErrorCode.NONE

    def take_expressions(self, group_id: str) -> Mapping[str, frozenset[str]]:
        """The expressions that the last heartbeat of the group wants to be matched, with the topics that they
        have matched until now. Nothing more is asked for until `searched`."""
        regexes = self.to_resolve.pop(group_id, ())
        group = self._groups.get(group_id)
        if group is None:
            return {}
        if regexes:
            group.is_resolving = True
        return {regex: matched_topics(group.resolved.get(regex)) for regex in regexes}

    def run(
        self, group: ConsumerGroup, operation: GroupOperation, work: Callable[[ConsumerOperation], R]
    ) -> R:
        """Runs an operation on the group, and makes its outcome part of the shard's operation. If it is
        refused (GroupRefusal), nothing of it is left."""
        begun = self._begin(group.group_id, operation)
        response = work(begun)
        self._settle(group, begun, operation)
        return response

    def _begin(self, group_id: str, operation: GroupOperation) -> ConsumerOperation:
        ports = self._ports
        times = group_times(ports.settings, ports.overrides(group_id))
        return ConsumerOperation(
            operation.now,
            ports.settings,
            times,
            ports.topics,
            operation.make_uuid,
            classic_max_size=operation.settings.group_max_size,
        )

    def _settle(self, group: ConsumerGroup, begun: ConsumerOperation, operation: GroupOperation) -> None:
        group_id, deadlines, now_ms = group.group_id, operation.deadlines, operation.now.monotonic_ms
        operation.result.records.extend(begun.records)
        for member_id in begun.gone:
            for kind in MEMBER_DEADLINES:
                deadlines.cancel((kind, group_id, member_id))
            self._revoking.pop((group_id, member_id), None)
        for member_id, timeout_ms in begun.session_of:
            deadlines.set((DeadlineKind.CONSUMER_SESSION, group_id, member_id), now_ms + timeout_ms)
        for member_id, time in begun.rebalance_of:
            key = (DeadlineKind.CONSUMER_REBALANCE, group_id, member_id)
            if time is None:
                deadlines.cancel(key)
                self._revoking.pop((group_id, member_id), None)
            else:
                deadlines.set(key, now_ms + time.timeout_ms)
                self._revoking[group_id, member_id] = time.epoch
        for member_id, timeout_ms_or_none in begun.join_of:
            key = (DeadlineKind.CONSUMER_JOIN, group_id, member_id)
            if timeout_ms_or_none is None:
                deadlines.cancel(key)
            elif key not in deadlines:
                deadlines.set(key, now_ms + timeout_ms_or_none)
        for member_id, timeout_ms_or_none in begun.sync_of:
            key = (DeadlineKind.CONSUMER_SYNC, group_id, member_id)
            if timeout_ms_or_none is None:
                deadlines.cancel(key)
            else:
                deadlines.set(key, now_ms + timeout_ms_or_none)
        if begun.refresh:
            self.to_resolve[group_id] = begun.refresh
        if begun.becomes is not None:
            self._put_classic(begun.becomes, operation)
        if begun.gone:
            self._note_refusal(group_id, begun.becomes, operation)

    def _put_classic(self, becomes: Downgrade, operation: GroupOperation) -> None:
        """Replaces the group by a classic one."""
        classic = becomes.group
        self._classic.replace(classic)
        for member in classic.members.values():
            operation.refresh_session(classic, member)
        if becomes.reason is not None:
            rebalance.prepare(classic, operation, becomes.reason)

    def _note_refusal(self, group_id: str, becomes: Downgrade | None, operation: GroupOperation) -> None:
        """Sets deadlines again if the log refuses the records: the members that were to be removed are
        members as before."""

        def stored(error: ErrorCode, now: CurrentTime) -> CoordinatorResult[None]:
            after = operation.later(now)
            if error is not ErrorCode.NONE:
                if becomes is not None and self._classic.new_was_refused(becomes.group):
                    rebalance.free_everybody(becomes.group, after, response_error(error))
                self.mend(group_id, after)
            return after.result

        operation.result.on_stored = stored
        operation.result.until_decided = True

    def mend(self, group_id: str, operation: GroupOperation) -> None:
        """Begins a session for each member that has none, because an error of the broker or of the log has
        ended it."""
        group = self._groups.get(group_id)
        if group is None:
            return
        begun = self._begin(group_id, operation)
        for member in group.members.values():
            key = (DeadlineKind.CONSUMER_SESSION, group_id, member.member_id)
            if key not in operation.deadlines:
                begun.session_of.append((member.member_id, _session_ms(member, begun)))
        self._settle(group, begun, operation)


def _session_ms(member: ConsumerGroupMember, begun: ConsumerOperation) -> int:
    """The session timeout of a member. A classic member has chosen its own."""
    return begun.times.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms


def consumer_group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Tombstones for all records of an empty group."""
    return group_tombstones(group.group_id, list(group.members), list(group.resolved))


def commit_refusal(
    group: ConsumerGroup, request: OffsetCommitRequest, version: int, topics: TopicsView
) -> ErrorCode:
    """The error for a commit of the member now; NONE if it may commit.

    A member that is behind may commit offsets of partitions that it has had since the epoch that it names.
    Without a member, an offset may be committed while the group is empty.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    if not is_classic and version < MEMBER_EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    if epoch > member.member_epoch:
        return stale
    for topic in request.topics:
        topic_id = topics.topic_id(topic.name)
        for partition in topic.partitions:
            since = topic_id and member.assignment_epoch(topic_id, partition.partition_index)
            if not isinstance(since, int) or epoch < since:
                return stale
    return ErrorCode.NONE


def fetch_refusal(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """The error for a member that reads the group's offsets; NONE if it may, and for a client that is no
    member."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
