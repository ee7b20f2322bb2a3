"""Deletions of whole groups, and of offsets of a group. Those of deleted topics are in `topic_deletions`.

Only groups without members can be deleted. Offsets of a consumer group at work can be deleted,
but not those of topics that it subscribes (KIP-496); other protocols do not say what they read, so their
groups must be empty.

What an open transaction would commit is forgotten with the rest: a tombstone drops the pending value too, so
that the marker finds nothing to bring back.
"""

from __future__ import annotations

from broker.coordinator.classic.classic_group import CONSUMER_PROTOCOL, ClassicGroup
from broker.coordinator.classic.group_records import group_tombstone
from broker.coordinator.classic.states import GroupState
from broker.coordinator.consumer.consumer_group_requests import consumer_group_tombstones
from broker.coordinator.group_metadata_manager import GroupMetadataManager
from broker.coordinator.group_operation import GroupOperation
from broker.coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from broker.coordinator.offsets.offset_records import offset_tombstone
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def delete_group(
    groups: GroupMetadataManager, offsets: OffsetMetadataManager, group_id: str, operation: GroupOperation
) -> ErrorCode:
    """Writes tombstones for an empty group and all its offsets."""
    group, consumer = groups.get(group_id), groups.consumers.get(group_id)
    if consumer is None and (group is None or group.state is GroupState.DEAD):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if (consumer and consumer.members) or (group and group.state is not GroupState.EMPTY):
        return ErrorCode.NON_EMPTY_GROUP
    operation.result.atomic = False
    gone = dict.fromkeys(offsets.committed.partitions(group_id))
    gone |= dict.fromkeys(offsets.pending.partitions(group_id))
    operation.result.records.extend(offset_tombstone(group_id, topic, index) for topic, index in gone)
    if consumer is not None:
        operation.result.records.extend(consumer_group_tombstones(consumer))
    else:
        operation.result.records.append(group_tombstone(group_id))
    return ErrorCode.NONE


def delete_offsets(
    groups: GroupMetadataManager,
    offsets: OffsetMetadataManager,
    request: OffsetDeleteRequest,
    operation: GroupOperation,
) -> OffsetDeleteResponse:
    """Writes tombstones for the partitions in which the group has an offset, one for each however often it is
    named. Every partition is answered; an error of the group stands alone."""
    classic, consumer = groups.get(request.group_id), groups.consumers.get(request.group_id)
    error = ErrorCode.NONE if consumer is not None else _deletion_error(classic)
    group = consumer or classic
    if group is None or error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=error)
    response = OffsetDeleteResponse()
    pending = frozenset(offsets.pending.partitions(request.group_id))
    gone: dict[tuple[str, str, int], None] = {}
    for topic in request.topics:
        is_read = group.subscribes(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        answer = OffsetDeleteResponse.OffsetDeleteResponseTopic(topic.name)
        response.topics.append(answer)
        for index in dict.fromkeys(partition.partition_index for partition in topic.partitions):
            answer.partitions.append(OffsetDeleteResponse.OffsetDeleteResponsePartition(index, code))
            place = (request.group_id, topic.name, index)
            if not is_read and (offsets.committed.has(*place) or (topic.name, index) in pending):
                gone[place] = None
    operation.result.records.extend(offset_tombstone(*place) for place in gone)
    return response


def _deletion_error(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE
