"""Brings one member closer to its target: applies the table of `member_states`.

Pure: a member goes in, and the same or another one comes out, to be recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from broker.coordinator.consumer.assignors.group_spec import Assignment
from broker.coordinator.consumer.member import NOTHING, ConsumerGroupMember, PartitionEpochs
from broker.coordinator.consumer.member_states import STEPS, MemberState, ReconciliationStep, Situation
from broker.coordinator.consumer.operation import GroupRefusal
from protocol.errors import ErrorCode
from protocol.primitives import Uuid

OwnedPartitions = Sequence[tuple[Uuid, Iterable[int]]]
"""The partitions that a member says it owns. None if it says nothing."""


class Target(NamedTuple):
    """The assignment to which a member is to be reconciled."""

    epoch: int
    assignment: Assignment


class ReconciliationInput(NamedTuple):
    """What the next state of a member depends on, besides the member."""

    target: Target
    subscribed: Container[Uuid]
    """The topics that exist and to which the member subscribes, by name or by a resolved expression. It is
    false if there are none."""
    owner_of: Callable[[Uuid, int], str | None]
    """Returns the member that has the partition now."""
    owned: OwnedPartitions | None
    """The partitions that the member says it owns."""
    has_subscription_changed: bool = False


def reconcile(member: ConsumerGroupMember, around: ReconciliationInput) -> ConsumerGroupMember:
    """The member's next state, or the member itself if nothing changes.

    Raises GroupRefusal (FENCED_MEMBER_EPOCH) if it cannot be known what the member may keep.
    """
    step = STEPS[(member.state, situation(member, around))]
    if step is ReconciliationStep.STAY:
        return member
    if step is ReconciliationStep.TRIM:
        return _trim(member, around)
    if step is ReconciliationStep.FENCE:
        raise GroupRefusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions "
            "and rejoin.",
        )
    return _advance(
        member, around, around.target.epoch if step is ReconciliationStep.START_ANEW else member.member_epoch
    )


def situation(member: ConsumerGroupMember, around: ReconciliationInput) -> Situation:
    if member.state is MemberState.STABLE:
        if member.member_epoch != around.target.epoch:
            return Situation.BEHIND
        return Situation.RESUBSCRIBED if around.has_subscription_changed else Situation.RECONCILED
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if not _holds_any(around.owned, member.pending_revocation):
            return Situation.RELEASED
        return Situation.HOLDING_RESUBSCRIBED if around.has_subscription_changed else Situation.HOLDING
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return Situation.WAITING
    return Situation.OWNING if around.owned is None or around.owned else Situation.OWNING_NOTHING


def _holds_any(owned: OwnedPartitions | None, revoked: PartitionEpochs) -> bool:
    """Whether the member may still own one of the partitions. A member that says nothing may."""
    if owned is None:
        return True
    return any(partition in revoked.get(topic_id, ()) for topic_id, numbers in owned for partition in numbers)


def _trim(member: ConsumerGroupMember, around: ReconciliationInput) -> ConsumerGroupMember:
    """Removes topics to which the member does not subscribe any longer."""
    if not around.subscribed and not member.pending_revocation:
        kept, given_up = NOTHING, member.assigned
    else:
        kept = {topic: each for topic, each in member.assigned.items() if topic in around.subscribed}
        if len(kept) == len(member.assigned):
            return member
        given_up = {topic: dict(each) for topic, each in member.pending_revocation.items()}
        for topic_id, epochs in member.assigned.items():
            if topic_id not in around.subscribed:
                given_up[topic_id] = {**given_up.get(topic_id, {}), **epochs}
    if given_up and _holds_any(around.owned, given_up):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, given_up)
    return _moved(member, member.state, member.member_epoch, kept, member.pending_revocation)


def _advance(member: ConsumerGroupMember, around: ReconciliationInput, own_epoch: int) -> ConsumerGroupMember:
    """Gives the member the free partitions of its target, once it has given up those that are not in it."""
    target = around.target
    kept: dict[Uuid, Mapping[int, int]] = {}
    given_up: dict[Uuid, Mapping[int, int]] = {}
    taken: dict[Uuid, list[int]] = {}
    waits = False
    for topic_id in dict.fromkeys((*target.assignment, *member.assigned)):
        wanted = target.assignment.get(topic_id, ()) if topic_id in around.subscribed else ()
        has = member.assigned.get(topic_id, {})
        stays = {partition: epoch for partition, epoch in has.items() if partition in set(wanted)}
        leaves = {partition: epoch for partition, epoch in has.items() if partition not in stays}
        new = [partition for partition in wanted if partition not in stays]
        free = [each for each in new if around.owner_of(topic_id, each) in (None, member.member_id)]
        waits = waits or len(free) < len(new)
        if stays:
            kept[topic_id] = stays
        if leaves:
            given_up[topic_id] = leaves
        if free:
            taken[topic_id] = free
    if given_up and _holds_any(around.owned, given_up):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, own_epoch, kept, given_up)
    for topic_id, partitions in taken.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(partitions, target.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, state, target.epoch, kept, NOTHING)


def _moved(
    member: ConsumerGroupMember,
    state: MemberState,
    epoch: int,
    assigned: PartitionEpochs,
    pending_revocation: PartitionEpochs,
) -> ConsumerGroupMember:
    return msgspec.structs.replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )
