"""ConsumerGroupDescribe (69), versions 0 and 1: members of consumer groups, what they have and shall have.

    0    state, epochs, assignor, members (KIP-848)
    1    whether a member speaks the classic protocol

Needs DESCRIBE on each group, and on each topic of its members: whoever may not see one of them does not see
the members. A group of another protocol is not found here. As from Kafka those that are refused come first.
"""

from __future__ import annotations

from broker.handlers.consumer_group_heartbeat import serves_consumer_groups
from broker.services import BrokerServices
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.authorized_operations import authorized_operations
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup
NOT_ALLOWED = "The group has described topic(s) that the client is not authorized to describe."


@in_turns
def handle(
    services: BrokerServices, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Turns[ConsumerGroupDescribeResponse]:
    is_served = serves_consumer_groups(services)
    allowed = []
    for group_id in request.group_ids:
        if not is_served:
            yield DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        elif not context.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            yield DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        else:
            allowed.append(group_id)
    for group_id in sorted(allowed, key=bool):
        if group_id:
            yield _described(services, context, request, group_id)
        else:
            yield DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    return ConsumerGroupDescribeResponse()


def _described(
    services: BrokerServices, context: RequestContext, request: ConsumerGroupDescribeRequest, group_id: str
) -> DescribedGroup:
    group = services.groups.describe_consumer_group(group_id)
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not all(context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=NOT_ALLOWED,
        )
    if request.include_authorized_operations and not group.error_code:
        group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return group
