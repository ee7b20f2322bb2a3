"""Forgetting on request: whole groups, offsets of a group, offsets of topics that are gone.

Only groups without members can be deleted. Offsets can be deleted under the feet of a consumer group at work,
but not those of topics that it subscribes (KIP-496); other protocols do not say what they read, so their
groups must be empty. A deleted topic takes its offsets along; an offset that was committed for an older or
newer topic of the same name stays.

What an open transaction would commit is forgotten with the rest: a tombstone drops the pending value too, so
that the marker finds nothing to bring back.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.group.classic_group import CONSUMER_PROTOCOL, ClassicGroup
from broker.coordinator.group.group_records import group_tombstone, offset_tombstone
from broker.coordinator.group.offset_store import OffsetStore, PendingTransactionalOffsets
from broker.coordinator.group.operation import GroupOperation
from broker.coordinator.group.states import GroupState
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.primitives import Uuid
from protocol.values import ZERO_UUID


def delete_group(
    group_id: str,
    group: ClassicGroup | None,
    store: OffsetStore,
    open_: PendingTransactionalOffsets,
    operation: GroupOperation,
) -> None:
    """Tombstones for an empty group and all its offsets. The response is an error code."""
    if group is None or group.state is GroupState.DEAD:
        operation.result.response = ErrorCode.GROUP_ID_NOT_FOUND
        return
    if group.state is not GroupState.EMPTY:
        operation.result.response = ErrorCode.NON_EMPTY_GROUP
        return
    operation.result.response = ErrorCode.NONE
    operation.result.atomic = False
    gone = dict.fromkeys(store.places(group_id))
    gone |= dict.fromkeys(open_.pending_places(group_id))
    operation.result.records.extend(offset_tombstone(group_id, topic, index) for topic, index in gone)
    operation.result.records.append(group_tombstone(group_id))


def delete_offsets(
    request: OffsetDeleteRequest,
    group: ClassicGroup | None,
    store: OffsetStore,
    open_: PendingTransactionalOffsets,
    operation: GroupOperation,
) -> None:
    """Tombstones for the partitions in which the group has an offset, one for each however often it is named.
    Every partition is answered; an error of the group stands alone."""
    error = _deletion_error(group)
    if group is None or error is not ErrorCode.NONE:
        operation.result.response = OffsetDeleteResponse(error_code=error)
        return
    response = OffsetDeleteResponse()
    pending = frozenset(open_.pending_places(request.group_id))
    gone: dict[tuple[str, str, int], None] = {}
    for topic in request.topics:
        is_read = group.subscribes(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        answer = OffsetDeleteResponse.OffsetDeleteResponseTopic(topic.name)
        response.topics.append(answer)
        for index in dict.fromkeys(partition.partition_index for partition in topic.partitions):
            answer.partitions.append(OffsetDeleteResponse.OffsetDeleteResponsePartition(index, code))
            place = (request.group_id, topic.name, index)
            if not is_read and (store.has(*place) or (topic.name, index) in pending):
                gone[place] = None
    operation.result.records.extend(offset_tombstone(*place) for place in gone)
    operation.result.response = response


def _deletion_error(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def forget_topics(
    deleted: Mapping[str, Uuid],
    store: OffsetStore,
    open_: PendingTransactionalOffsets,
    operation: GroupOperation,
) -> None:
    """Tombstones for the offsets of topics that are gone, given by name with their ids."""
    operation.result.atomic = False
    gone: dict[tuple[str, str, int], None] = {}
    for group_id, topic, index in store.places_in(deleted):
        committed = store.get(group_id, topic, index)
        if committed is not None and committed.topic_id in (ZERO_UUID, deleted[topic]):
            gone[group_id, topic, index] = None
    for group_id in open_.groups():
        for topic, index in open_.pending_places(group_id):
            if topic in deleted:
                gone[group_id, topic, index] = None
    operation.result.records.extend(offset_tombstone(*place) for place in gone)
