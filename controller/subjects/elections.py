"""ElectLeaders: an operator asks for leaders (KIP-460).

A preferred election gives a partition back to the first of its replicas; an unclean one gives a partition
without a leader to any replica that is there, and with it loses what only the others have. The partition's
configs are not asked: whoever may alter the cluster says so by the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER
from controller.metadata.topic_names import shown_name
from controller.subjects.leadership import Leadership, LeadershipRules
from controller.subjects.partition_change import Election
from controller.subjects.partitions import MOVES_PER_TURN
from controller.subjects.result import Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.refusals import elect_leaders_refused

__all__ = ["PREFERRED", "UNCLEAN", "Elections"]

KIND_SINCE: Final = 1
"""The version since which a request says the kind of election; before, it is the preferred one."""

PREFERRED: Final = 0
UNCLEAN: Final = 1

TopicResult = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


class Elections:
    """One ElectLeaders request. `decide` is called again while its decision is a part: Kafka does not promise
    that all leaders of a request are elected at once, and there may be tens of thousands."""

    def __init__(
        self, request: ElectLeadersRequest, rules: Callable[[ClusterImage], LeadershipRules]
    ) -> None:
        """rules: those that are in force in an image."""
        self._request = request
        self._rules = rules
        self._election = Election.UNCLEAN if request.election_type == UNCLEAN else Election.PREFERRED
        self._results: list[TopicResult] = []
        self._left: Iterator[tuple[TopicResult, int]] | None = None

    def decide(self, image: ClusterImage, limit: int = MOVES_PER_TURN) -> Decision[ElectLeadersResponse]:
        """Elects leaders for the next partitions, at most limit of them. If all partitions are requested,
        those that already have theirs are left out of the response."""
        request = self._request
        if request.election_type not in (PREFERRED, UNCLEAN):
            unknown = f"Unknown election type {request.election_type}"
            refused = elect_leaders_refused(request, ErrorCode.INVALID_REQUEST, unknown, KIND_SINCE)
            return Decision((), refused)
        if self._left is None:
            self._left = self._named() if request.topic_partitions is not None else self._all(image)
        leadership = Leadership(image, self._rules(image))
        records: list[Message] = []
        chosen = list(islice(self._left, limit))
        for result, index in chosen:
            answer = _elect(image, leadership, result.topic, index, self._election, records)
            if request.topic_partitions is not None or answer.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(answer)
        response = ElectLeadersResponse(replica_election_results=self._results)
        return Decision(records, response, is_part=len(chosen) == limit)

    def _named(self) -> Iterator[tuple[TopicResult, int]]:
        for named in self._request.topic_partitions or ():
            result = TopicResult(topic=named.topic, partition_result=[])
            self._results.append(result)
            for index in named.partitions:
                yield result, index

    def _all(self, image: ClusterImage) -> Iterator[tuple[TopicResult, int]]:
        """The partitions that exist when the first leaders are elected."""
        for topic in image.topics.by_name.values():
            result = TopicResult(topic=topic.name, partition_result=[])
            self._results.append(result)
            for index in topic.partitions:
                yield result, index


def _elect(
    image: ClusterImage,
    leadership: Leadership,
    name: str,
    index: int,
    election: Election,
    records: list[Message],
) -> ElectLeadersResponse.PartitionResult:
    topic = image.topics.by_name.get(name)
    if topic is None:
        unknown = f"No such topic as {shown_name(name)}"
        return _answer(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    partition = topic.partitions.get(index)
    if partition is None:
        unknown = f"No such partition as {name}-{index}"
        return _answer(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    if election is Election.PREFERRED:
        needed = partition.leader == NO_LEADER or partition.leader != partition.preferred_leader
        unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        needed = partition.leader == NO_LEADER
        unavailable = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not needed:
        return _answer(index, ErrorCode.ELECTION_NOT_NEEDED)
    change = leadership.change(topic, index, election=election)
    if change is None:
        return _answer(index, unavailable)
    records.append(change)
    return PartitionResult(index, ErrorCode.NONE, None)


def _answer(index: int, error: ErrorCode, message: str | None = None) -> ElectLeadersResponse.PartitionResult:
    return PartitionResult(index, error, error.message if message is None else message)
