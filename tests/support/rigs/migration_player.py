"""Plays transcripts of a group whose members change their protocol, with any coordinator.

    topic t=6                      the topic, with so many partitions
    classic a join [waits]         JoinGroup, again with the id if one is asked for; `waits`: for others,
                                   which shows as something that changes, unless it is `waits unseen`
    answer a b                     what those who waited were answered
    classic a sync [a=0,1 b=2,3]   SyncGroup, with shares if it leads
    shares a=0,1 b=2,3             SyncGroup of all, whoever leads
    classic a beat | leave         Heartbeat, LeaveGroup
    newer n join | beat | leave    heartbeats of the newer protocol; `for-a-while` leaves a place behind

Members may have an `instance=`. After each command the group is shown as an administrator sees it.
"""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.simulation.transcript_file import Command
from tests.support.clients.members import (
    BEAT_VERSION,
    HEARTBEAT_VERSION,
    JOIN_VERSION,
    SYNC_VERSION,
    ClassicMember,
    NewerMember,
    share_of,
)

GROUP: Final = "g"
TOPIC: Final = "t"
WAIT_SECONDS: Final = 30


class Later(Protocol):
    """An answer that may not be there yet."""

    def result(self) -> Any:
        """The answer; an error if it does not come."""
        ...


class Coordinator(Protocol):
    """Whoever has the group."""

    def send(self, request: Message, version: int) -> Later: ...

    def make_topic(self, name: str, partitions: int) -> None: ...


class MigrationPlayer:
    """One group and its members."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._classic: dict[str, ClassicMember] = {}
        self._newer: dict[str, NewerMember] = {}
        self._waiting: dict[str, Later] = {}
        self._leader = ""

    def run(self, command: Command) -> list[str]:
        lines: list[str] = getattr(self, "_do_" + command.verb)(command.words, command.options)
        return [*lines, *self._shown()]

    def _ask(self, request: Message, version: int) -> Any:
        return self._coordinator.send(request, version).result()

    def _do_topic(self, words: list[str], options: dict[str, str]) -> list[str]:
        for name, count in options.items():
            self._coordinator.make_topic(name, int(count))
        return []

    # The classic protocol

    def _do_classic(self, words: list[str], options: dict[str, str]) -> list[str]:
        name, verb, *rest = words
        if name not in self._classic:
            self._classic[name] = ClassicMember(GROUP, TOPIC, options.pop("instance", None))
        member = self._classic[name]
        if verb == "join":
            return self._join(name, member, rest)
        if verb == "sync":
            return [self._synced(name, self._sync(member, options).result())]
        if verb == "beat":
            code = self._ask(member.beat_request(), BEAT_VERSION).error_code
            return [f"{name} ◀ {ErrorCode(code).name}"]
        identity = LeaveGroupRequest.MemberIdentity(member.member_id, member.instance_id)
        left: LeaveGroupResponse = self._ask(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
        return [f"{name} ◀ {ErrorCode(left.members[0].error_code).name}"]

    def _join(self, name: str, member: ClassicMember, words: list[str]) -> list[str]:
        before = self._shown()
        if not member.member_id and member.instance_id is None:
            member.needs_id(self._ask(member.join_request(), JOIN_VERSION))
        later = self._coordinator.send(member.join_request(), JOIN_VERSION)
        if "waits" not in words:
            return [self._joined(name, later)]
        self._waiting[name] = later
        if "unseen" in words:
            return []
        deadline = time.monotonic() + WAIT_SECONDS
        while self._shown() == before and time.monotonic() < deadline:
            time.sleep(0.02)
        return []

    def _joined(self, name: str, later: Later) -> str:
        response = later.result()
        self._classic[name].hear_join(response)
        if response.error_code:
            return f"{name} ◀ {ErrorCode(response.error_code).name}"
        if response.members:
            self._leader = name
        return f"{name} ◀ generation {response.generation_id}"

    def _do_answer(self, words: list[str], options: dict[str, str]) -> list[str]:
        return [self._joined(name, self._waiting.pop(name)) for name in words]

    def _sync(self, member: ClassicMember, shares: dict[str, str]) -> Later:
        given = {
            self._classic[name].member_id: [int(each) for each in numbers.split(",")]
            for name, numbers in shares.items()
        }
        return self._coordinator.send(member.sync_request(given), SYNC_VERSION)

    def _synced(self, name: str, response: Any) -> str:
        member = self._classic[name]
        member.hear_sync(response)
        if response.error_code:
            return f"{name} ◀ {ErrorCode(response.error_code).name}"
        return f"{name} ◀ {_places(member.partitions)}"

    def _do_shares(self, words: list[str], options: dict[str, str]) -> list[str]:
        leading = self._sync(self._classic[self._leader], options)
        later = {name: self._sync(self._classic[name], {}) for name in options if name != self._leader}
        later[self._leader] = leading
        return [self._synced(name, later[name].result()) for name in sorted(later)]

    # The newer protocol

    def _do_newer(self, words: list[str], options: dict[str, str]) -> list[str]:
        name, verb, *rest = words
        if name not in self._newer:
            self._newer[name] = NewerMember(GROUP, name, TOPIC, options.get("instance"))
        member = self._newer[name]
        if verb == "join":
            request = member.join_request()
        elif verb == "beat":
            request = member.beat_request()
        else:
            request = member.leave_request(for_a_while="for-a-while" in rest)
        response: ConsumerGroupHeartbeatResponse = self._ask(request, HEARTBEAT_VERSION)
        member.hear(response)
        if response.error_code:
            return [f"{name} ◀ {ErrorCode(response.error_code).name}"]
        line = f"{name} ◀ epoch {response.member_epoch}"
        return [line if response.assignment is None else f"{line}, has {_places(member.partitions)}"]

    # What there is to see

    def _shown(self) -> list[str]:
        listed: ListGroupsResponse = self._ask(ListGroupsRequest(), 5)
        of_ours = [each for each in listed.groups if each.group_id == GROUP]
        if not of_ours:
            return []
        (group,) = of_ours
        head = f"group {group.group_type}, {group.group_state}"
        if group.group_type == "classic":
            return [head, *self._classic_members()]
        found: ConsumerGroupDescribeResponse.DescribedGroup = self._ask(
            ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1
        ).groups[0]
        lines = []
        for each in found.members:
            name = self._name(each.member_id, each.instance_id) + ("" if each.member_type else " (classic)")
            has, target = _numbers(each.assignment), _numbers(each.target_assignment)
            lines.append(f"  {name} in epoch {each.member_epoch}: {has}; target {target}")
        epochs = f"epoch {found.group_epoch}, assignment epoch {found.assignment_epoch}"
        return [f"{head}, {epochs}", *sorted(lines)]

    def _classic_members(self) -> list[str]:
        response: DescribeGroupsResponse = self._ask(DescribeGroupsRequest(groups=[GROUP]), 6)
        lines = []
        for each in response.groups[0].members:
            name = self._name(each.member_id, each.group_instance_id)
            lines.append(f"  {name}: {_places(share_of(each.member_assignment))}")
        return sorted(lines)

    def _name(self, member_id: str, instance_id: str | None) -> str:
        """Ids of classic members are random."""
        if member_id in self._newer:
            return member_id
        by_id = {member.member_id: name for name, member in self._classic.items()}
        return by_id.get(member_id, f"whoever is {instance_id}" if instance_id else "somebody new")


def _numbers(assignment: ConsumerGroupDescribeResponse.Assignment) -> str:
    return _places([number for each in assignment.topic_partitions for number in each.partitions])


def _places(numbers: list[int]) -> str:
    return " ".join(f"{TOPIC}-{number}" for number in sorted(numbers)) or "nothing"
