"""A consumer group as data: its epochs, members and target assignment, with what is derived from them.

All of it is recorded state. `replay` of `consumer_groups` alone changes it, through the methods named `put`,
which keep what is derived in step: who owns a partition, who is which static member, what is subscribed.
"""

from __future__ import annotations

from typing import Final

from broker.coordinator.consumer.assignors.group_spec import NO_PARTITIONS, Assignment
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.member_states import ConsumerGroupState
from broker.coordinator.consumer.subscriptions import ResolvedRegex, Subscriptions
from protocol.primitives import Uuid

FIRST_EPOCH: Final = 1
"""The epoch of a group that no member has joined. The first member makes it 2."""


class ConsumerGroup:
    """One group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """The hash of the group's topics at the time when its epoch grew last; 0 without a topic."""
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch for which the target assignment was made; -1 after a tombstone."""
        self.assignment_timestamp_ms = 0
        self.target: dict[str, Assignment] = {}
        """The target assignment of each member, by member id."""
        self.members: dict[str, ConsumerGroupMember] = {}
        """The members by id, in the order in which they joined."""
        self.static_members: dict[str, str] = {}
        """The member id by instance id."""
        self.classic_count = 0
        """The number of members that use the classic protocol."""
        self.classic_supporters: dict[str, int] = {}
        """The number of them that support each protocol, by its name."""
        self.resolved: dict[str, ResolvedRegex] = {}
        """The topics that each expression has matched."""
        self.subscriptions = Subscriptions()
        self.has_partition_metadata = False
        """Whether there is a record of an older broker, which is to be removed with the next change."""
        self.owners: dict[tuple[Uuid, int], str] = {}
        """The member that has each partition, or has not given it up."""
        self.needs_metadata_check = True
        """Whether a topic of the group may have changed since its epoch grew last. It is kept in memory
        only."""
        self.checked_in_epoch = 0
        """The epoch in which that was found out last. The group's epoch is lower if a later one was
        refused."""

        self.is_resolving = False
        """Whether the expressions are being matched. It is kept in memory only."""

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def must_check_metadata(self) -> bool:
        return self.needs_metadata_check or self.epoch < self.checked_in_epoch

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_supported_by_classic_members(self, protocol: str) -> bool:
        """Whether all classic members support the protocol. None at all count as all."""
        return self.classic_supporters.get(protocol, 0) == self.classic_count

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """The member's target; for a static member with a new id, that of its predecessor."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id, NO_PARTITIONS)

    def owner_of(self, topic_id: Uuid, partition: int) -> str | None:
        return self.owners.get((topic_id, partition))

    def subscribes(self, topic: str) -> bool:
        return topic in self.subscriptions.by_name or topic in self.subscriptions.by_regex

    def subscribes_any(self, topics: frozenset[str]) -> bool:
        """Whether the group subscribes to one of the topics. Python goes through the smaller of both sets:
        a metadata change may name ten thousand topics, and there may be as many groups."""
        by_name, by_regex = self.subscriptions.by_name.keys(), self.subscriptions.by_regex.keys()
        return not (by_name.isdisjoint(topics) and by_regex.isdisjoint(topics))

    # Replay

    def put_member(self, member_id: str, new: ConsumerGroupMember | None) -> None:
        """Puts a member in the place of the one with its id; None removes that."""
        old = self.members.get(member_id)
        if old is not None:
            for partition in old.owned():
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
            has_left_seat = new is None or new.instance_id != old.instance_id
            if has_left_seat and self.static_members.get(old.instance_id or "") == member_id:
                del self.static_members[old.instance_id or ""]
        if new is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = new
            self.owners.update(dict.fromkeys(new.owned(), member_id))
            if new.instance_id is not None:
                self.static_members[new.instance_id] = member_id
        self._count_classic(old, -1)
        self._count_classic(new, 1)
        self.subscriptions.change_member(old, new)

    def _count_classic(self, member: ConsumerGroupMember | None, step: int) -> None:
        if member is None or member.classic is None:
            return
        self.classic_count += step
        for name in dict.fromkeys(each.name for each in member.classic.supported_protocols):
            count = self.classic_supporters.pop(name, 0) + step
            if count:
                self.classic_supporters[name] = count

    def put_target(self, member_id: str, assignment: Assignment | None) -> None:
        if assignment is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = assignment

    def put_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        self.subscriptions.change_resolved(self.resolved.get(regex), resolved)
        if resolved is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = resolved
