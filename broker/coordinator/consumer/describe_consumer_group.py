"""ConsumerGroupDescribe and ListGroups: what administrators are told about consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from broker.coordinator.consumer.assignors.group_spec import NO_PARTITIONS
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.operation import TopicsView
from config.values import trimmed
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse as Response
from protocol.messages.list_groups import ListGroupsResponse
from protocol.primitives import Uuid

CONSUMER_TYPE: Final = "consumer"
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe_consumer_group(
    group_id: str,
    group: ConsumerGroup | None,
    default_assignor: str,
    topics: TopicsView,
    *,
    exists: bool,
) -> Response.DescribedGroup:
    """Describes a group. One of another type is not found, like one that does not exist (`exists`: there is
    one of any type)."""
    if group is None:
        why = "is not a consumer group" if exists else "not found"
        return Response.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {why}.",
            group_id=group_id,
        )
    return Response.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.subscriptions.preferred_assignor() or default_assignor,
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerGroupMember, topics: TopicsView) -> Response.Member:
    has: dict[Uuid, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, epochs in partitions.items():
            has.setdefault(topic_id, []).extend(sorted(epochs))
    return Response.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(has, topics),
        target_assignment=_assignment(group.target.get(member.member_id, NO_PARTITIONS), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Sequence[int]], topics: TopicsView) -> Response.Assignment:
    """The assigned partitions. Topics that do not exist any more are left out."""
    named = ((topic_id, topics.topic_name(topic_id), numbers) for topic_id, numbers in partitions.items())
    return Response.Assignment(
        [
            Response.TopicPartitions(topic_id, name, list(numbers))
            for topic_id, name, numbers in named
            if name is not None
        ]
    )


def list_consumer_groups(
    groups: Iterable[ConsumerGroup], states: Sequence[str], types: Sequence[str]
) -> Iterator[ListGroupsResponse.ListedGroup]:
    """The groups in one of the states and of one of the types; an empty filter means all."""
    wanted = {trimmed(state).lower() for state in states}
    if types and CONSUMER_TYPE not in {name.lower() for name in types}:
        return
    for group in groups:
        state = group.state.value
        if not wanted or state.lower() in wanted:
            yield ListGroupsResponse.ListedGroup(group.group_id, CONSUMER_TYPE, state, CONSUMER_TYPE)
