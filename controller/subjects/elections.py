"""ElectLeaders: an operator asks for leaders (KIP-460).

A preferred election gives a partition back to the first of its replicas; an unclean one gives a partition
without a leader to any replica that is there, and with it loses what only the others have. The partition's
configs are not asked: whoever may alter the cluster says so by the request.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER, TopicImage
from controller.metadata.topic_names import shown_name
from controller.subjects.partition_change import Election, change_partition
from controller.subjects.result import Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.refusals import elect_leaders_refused

__all__ = ["PREFERRED", "UNCLEAN", "elect_leaders"]

KIND_SINCE: Final = 1
"""The version since which a request says the kind of election; before, it is the preferred one."""

PREFERRED: Final = 0
UNCLEAN: Final = 1

TopicResult = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


def elect_leaders(image: ClusterImage, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elects leaders. If all partitions are requested, those that already have theirs are left out of the
    response."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        unknown = f"Unknown election type {request.election_type}"
        return Decision((), elect_leaders_refused(request, ErrorCode.INVALID_REQUEST, unknown, KIND_SINCE))
    election = Election.UNCLEAN if request.election_type == UNCLEAN else Election.PREFERRED
    records: list[Message] = []
    results = []
    if request.topic_partitions is None:
        for topic in image.topics.by_name.values():
            answers = [_elect(image, topic, index, election, records) for index in topic.partitions]
            needed = [answer for answer in answers if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(TopicResult(topic=topic.name, partition_result=needed))
    else:
        for named in request.topic_partitions:
            found = image.topics.by_name.get(named.topic)
            if found is None:
                unknown = f"No such topic as {shown_name(named.topic)}"
                answers = [
                    _answer(i, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown) for i in named.partitions
                ]
            else:
                answers = [_elect(image, found, index, election, records) for index in named.partitions]
            results.append(TopicResult(topic=named.topic, partition_result=answers))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def _elect(
    image: ClusterImage, topic: TopicImage, index: int, election: Election, records: list[Message]
) -> ElectLeadersResponse.PartitionResult:
    partition = topic.partitions.get(index)
    if partition is None:
        unknown = f"No such partition as {topic.name}-{index}"
        return _answer(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    if election is Election.PREFERRED:
        needed = partition.leader == NO_LEADER or partition.leader != partition.preferred_leader
        unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        needed = partition.leader == NO_LEADER
        unavailable = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not needed:
        return _answer(index, ErrorCode.ELECTION_NOT_NEEDED)
    change = change_partition(
        topic.id, index, partition, is_active=image.brokers.is_active, election=election
    )
    if change is None:
        return _answer(index, unavailable)
    records.append(change)
    return PartitionResult(index, ErrorCode.NONE, None)


def _answer(index: int, error: ErrorCode, message: str | None = None) -> ElectLeadersResponse.PartitionResult:
    return PartitionResult(index, error, error.message if message is None else message)
