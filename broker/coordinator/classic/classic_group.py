"""A classic group as data: members, their protocols, the leader, the generation.

Everything in here is a plain change of one group with the invariants kept; what leads to which change is in
`rebalance`, `join`, `sync` and `leave`. Order of members is the order in which they joined: a new leader is
the oldest member that is there, so that a run can be repeated.
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker.coordinator.classic.states import TRANSITIONS, GroupState, GroupStateCause
from broker.coordinator.classic.subscription import subscribed_topics
from protocol.errors import ErrorCode, invariant
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.serving.pending import Pending

CONSUMER_PROTOCOL: Final = "consumer"
NO_TIMESTAMP: Final = -1

Protocols = tuple[tuple[str, bytes], ...]
"""Names of protocols with the member's metadata for each, in the member's order of preference."""


class ParkedJoin(msgspec.Struct, eq=False):
    """A JoinGroup that waits for other members. Its version decides on the form of the answer."""

    waiting: Pending[JoinGroupResponse]
    version: int


class ClassicGroupMember(msgspec.Struct, eq=False):
    """One member. Its id never changes: a static member that returns is another member with the same instance
    id."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    """The client's address as Java prints it, with a slash in front."""
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether the member has not been told its first generation yet. Its session deadline is then that of a
    parked join."""
    parked_join: ParkedJoin | None = None
    parked_sync: Pending[SyncGroupResponse] | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for a protocol; empty for one that it does not support."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: dict[str, None]) -> str:
        """The candidate that the member likes best."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        invariant(False, "a member supports a candidate", member=self.member_id, candidates=list(candidates))
        return ""


class ClassicGroup:
    """One group. `generation` grows with each completed join phase. A new group has generation 0."""

    def __init__(
        self,
        group_id: str,
        *,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
        state_timestamp_ms: int = NO_TIMESTAMP,
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        """The wall time of the last transition; -1 if the log does not tell."""
        self.generation = generation
        self.protocol_type = protocol_type
        """None for a group that has only ever held offsets of simple consumers."""
        self.protocol_name = protocol_name
        """The protocol of the current generation."""
        self._leader_id = leader_id
        """None if there are no members, or if the leader has left and the next one was not asked for yet."""
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        """The member id by instance id."""
        self.pending_members: dict[str, None] = {}
        """Member ids that were given to clients, which have not joined with them yet."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup."""
        self.awaiting_join = 0
        """Members with a parked JoinGroup."""
        self.initial_delay: tuple[int, int] | None = None
        """During the first join phase of an empty group, this delay and the time that may be added to it."""
        self.new_member_added = False
        """Whether a member has joined since that delay began."""
        self.waits_on = False
        """Whether the running join phase was extended, because no member had joined when its time was
        over."""
        self.topics: frozenset[str] | None = None
        """The topics to which the members subscribe; None if they are unknown or the protocol has none."""
        self._supporters: dict[str, int] = {}
        """The number of members that support each protocol."""

    # State

    def all_read(self) -> None:
        """Called when every member that the group's record names has been added."""
        if self.members:
            self.state = GroupState.STABLE
        self.refresh_topics()

    def move(self, cause: GroupStateCause, now_wall_ms: int) -> None:
        """Changes the state as the table of transitions says."""
        target = TRANSITIONS.get((self.state, cause))
        if target is None:
            invariant(
                False, "the transition is in the table", group=self.group_id, state=self.state, cause=cause
            )
            return
        self.previous_state, self.state = self.state, target
        self.state_timestamp_ms = now_wall_ms

    @property
    def leader_id(self) -> str | None:
        """The leader, or the oldest member if the leader has left. It is looked for when it is asked for: if
        thousands of members leave in one request, the next oldest is one step further away each time."""
        if self._leader_id is None and self.members:
            self._leader_id = next(iter(self.members))
        return self._leader_id

    @leader_id.setter
    def leader_id(self, member_id: str | None) -> None:
        self._leader_id = member_id

    @property
    def can_rebalance(self) -> bool:
        return self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY)

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of a member; 0 if all of them are negative."""
        return max(0, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    # Members

    def add(self, member: ClassicGroupMember, protocol_type: str, parked: ParkedJoin | None) -> None:
        if member.group_instance_id is not None:
            invariant(
                member.group_instance_id not in self.static_members,
                "a static member joins once",
                group=self.group_id,
                instance=member.group_instance_id,
            )
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_members.pop(member.member_id, None)
        self.park_join(member, parked)

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending id. If it was the leader, the oldest remaining member becomes
        leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.parked_join is not None:
                self.awaiting_join -= 1
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if member_id == self._leader_id:
            self._leader_id = None
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self,
        member: ClassicGroupMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: ClassicGroupMember, parked: ParkedJoin | None) -> None:
        """Has the member wait for the others, or with None wait no longer."""
        self.awaiting_join += (parked is not None) - (member.parked_join is not None)
        member.parked_join = parked

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicGroupMember:
        """Gives the static member another id, in its place among the others; nothing else changes. Its parked
        requests must be answered before."""
        old = self.members[old_id]
        new = ClassicGroupMember(
            member_id=new_id,
            group_instance_id=instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members = {
            new_id if each == old_id else each: new if each == old_id else member
            for each, member in self.members.items()
        }
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    def error_for(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error for a request of this member: NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another
        member has its instance id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def elect_joined_leader(self) -> bool:
        """Keeps a leader that has joined again, else chooses the oldest member that has. False if there is
        none."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.parked_join is not None:
            return True
        for member in self.members.values():
            if member.parked_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could join: it has the same type, and one protocol that all
        members have."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supporters.get(name, 0) == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members support. If several have as many, it is
        the one that was voted for first."""
        everyone = len(self.members)
        candidates = {name: None for name, count in self._supporters.items() if count == everyone}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        invariant(bool(votes), "a group with members has a protocol", group=self.group_id)
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, now_wall_ms: int) -> None:
        """Ends the join phase: begins a new generation of the present members, or becomes empty."""
        self.generation += 1
        self.pending_sync.clear()
        self.initial_delay = None
        self.waits_on = False
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move(GroupStateCause.ALL_JOINED, now_wall_ms)
        else:
            self.protocol_name = None
            self.move(GroupStateCause.NOBODY_LEFT, now_wall_ms)
        self.refresh_topics()

    def refresh_topics(self) -> None:
        """Computes the topics to which the members subscribe. Only the consumer protocol tells them."""
        self.topics = None
        if self.protocol_type != CONSUMER_PROTOCOL:
            return
        if not self.members:
            self.topics = frozenset()
        elif self.protocol_name is not None:
            self.topics = subscribed_topics(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    def subscribes(self, topic: str) -> bool:
        """Whether the group is known to subscribe to the topic. A consumer group whose subscription cannot be
        read might."""
        if self.topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.topics

    def _count_protocols(self, member: ClassicGroupMember, step: int) -> None:
        for name, _ in member.protocols:
            count = self._supporters.get(name, 0) + step
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]
