"""AlterPartitionReassignments and ListPartitionReassignments: partitions move to other brokers (KIP-455).

A move needs no state of its own. The partition's record names the replicas that come and those that go; the
comers fetch like any follower, and the change that brings the last of them into the ISR ends the move (see
`partition_change`)::

    replicas [1, 2]                                      asked for: [3, 2]
    replicas [3, 2, 1]   adding [3]   removing [1]       3 fetches
    replicas [3, 2]                                      3 is in the ISR

What only changes the order, or only takes replicas away, is done at once. Whoever asks again while a
partition moves replaces the target. If others come, they alone are named as added; if nobody else does, those
that were being added stay named as far as they are still wanted, so the same request twice changes nothing.
Taking the move back removes those that are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.partition_index import Group
from controller.metadata.image.topics import PartitionRegistration, TopicImage
from controller.metadata.topic_names import shown_name
from controller.subjects.leadership import Leadership, LeadershipRules
from controller.subjects.partition_change import Election, is_reassigning
from controller.subjects.placement import bad_assignment, check_replicas
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.metadata_log.topics import PartitionChangeRecord

__all__ = ["alter_reassignments", "list_reassignments"]

TopicAnswer = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionAnswer = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
Moving = ListPartitionReassignmentsResponse.OngoingPartitionReassignment
MovingTopic = ListPartitionReassignmentsResponse.OngoingTopicReassignment


def alter_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest, rules: LeadershipRules
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begins or cancels reassignments. Each partition has its own answer."""
    if not request.topics:
        return Decision((), AlterPartitionReassignmentsResponse())
    leadership = Leadership(image, rules)
    records: list[Message] = []
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        answers = []
        for target in topic.partitions:
            answer = PartitionAnswer(target.partition_index, ErrorCode.NONE, None)
            try:
                change = _alter(image, topic.name, target, request, leadership)
            except ControllerError as fault:
                answer.error_code = fault.code
                # Kafka sends no text where it is only the code's own.
                answer.error_message = None if fault.message == fault.code.message else fault.message
            else:
                if change is not None:
                    records.append(change)
            answers.append(answer)
        response.responses.append(TopicAnswer(topic.name, answers))
    return Decision(records, response)


def _alter(
    image: ClusterImage,
    name: str,
    target: AlterPartitionReassignmentsRequest.ReassignablePartition,
    request: AlterPartitionReassignmentsRequest,
    leadership: Leadership,
) -> PartitionChangeRecord | None:
    index = target.partition_index
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise ControllerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {shown_name(name)}."
        )
    partition = topic.partitions.get(index)
    if partition is None:
        raise ControllerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
        )
    if target.replicas is None:
        return _cancel(topic, index, partition, leadership)
    check_replicas(image, target.replicas, None)
    if not request.allow_replication_factor_change:
        _check_factor(partition, target.replicas)
    wanted = tuple(target.replicas)
    removing = tuple(sorted(replica for replica in partition.replicas if replica not in wanted))
    adding = tuple(sorted(replica for replica in wanted if replica not in partition.replicas))
    if not adding:
        # Kafka leaves the list as it is then. It would wait without end for one that is not wanted any more.
        adding = tuple(replica for replica in partition.adding if replica in wanted)
    return leadership.change(
        topic,
        index,
        election=Election.ONLINE,
        replicas=wanted + removing,
        removing=removing,
        adding=adding,
    )


def _check_factor(partition: PartitionRegistration, wanted: Sequence[int]) -> None:
    """Checks that the replication factor stays (KIP-860). For a partition that is being reassigned, the
    replicas count that it will have in the end."""
    present = sum(replica not in partition.removing for replica in partition.replicas)
    if present != len(wanted):
        raise ControllerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(wanted)}",
        )


def _cancel(
    topic: TopicImage, index: int, partition: PartitionRegistration, leadership: Leadership
) -> PartitionChangeRecord | None:
    """Cancels the reassignment: the partition goes back to its replicas without those that were being
    added."""
    if not is_reassigning(partition):
        raise ControllerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding)
    if not replicas:
        raise bad_assignment("Invalid replica assignment: addingReplicas contains all replicas.")
    if not isr:
        # Only comers are in sync: whoever leads then lacks what they have.
        if leadership.election(topic) is not Election.UNCLEAN:
            raise bad_assignment(
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
                "unclean leader election."
            )
        isr = replicas[:1]
    return leadership.change(topic, index, isr=isr, replicas=replicas, removing=(), adding=())


def list_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments of the requested partitions, or of all. Other partitions are left out."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        moving: dict[bytes, list[int]] = {}
        for topic_id, index in image.topics.index.partitions(Group.REASSIGNING):
            moving.setdefault(topic_id, []).append(index)
        for topic_id, indexes in moving.items():
            _list(response, image.topics.by_id[topic_id], indexes)
        return response
    for asked in request.topics:
        found = image.topics.by_name.get(asked.name)
        if found is not None:
            _list(response, found, asked.partition_indexes)
    return response


def _list(response: ListPartitionReassignmentsResponse, topic: TopicImage, indexes: Iterable[int]) -> None:
    moving = []
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and is_reassigning(partition):
            moving.append(
                Moving(index, list(partition.replicas), list(partition.adding), list(partition.removing))
            )
    if moving:
        response.topics.append(MovingTopic(topic.name, moving))
