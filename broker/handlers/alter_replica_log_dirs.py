"""AlterReplicaLogDirs (34): in which of this broker's directories a replica shall lie. KIP-113, KIP-1066.

Versions 1-2. 2: flexible. The answer is one error code per partition:

    a name that leaves no room for the suffix of the copy   INVALID_TOPIC_EXCEPTION
    the directory is not one of log.dirs                    LOG_DIR_NOT_FOUND, before what is wrong below
    the directory is cordoned                               INVALID_REPLICA_ASSIGNMENT
    a partition that does not exist                         UNKNOWN_TOPIC_OR_PARTITION
    a partition that is elsewhere                           REPLICA_NOT_AVAILABLE
    its log could not be opened, or its disk has failed     KAFKA_STORAGE_ERROR
    another log directory of this broker has failed         KAFKA_STORAGE_ERROR
    it lies there already, and a move elsewhere is stopped  NONE
    it lies in another directory, and begins to move        NONE

For a partition that is not here the wish is kept, and if its log is made in this life of the broker it is
made there, as in Kafka. Of two wishes for one partition the later counts.

The answer comes when the move begins. The replica serves on while it is copied
(`storage.replica_directory_moves`), and DescribeLogDirs tells how far the copy is.

Needs ALTER on the cluster.
"""

from __future__ import annotations

from typing import Protocol

from broker.services import HasLogs, HasReplicas
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns
from storage.file_names import may_have_future

TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


class AlterReplicaLogDirsServices(HasLogs, HasReplicas, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: AlterReplicaLogDirsServices, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Turns[AlterReplicaLogDirsResponse]:
    allowed = context.allows_cluster(Operation.ALTER)
    wishes: dict[tuple[str, int], str] = {}
    for directory in request.dirs:
        yield None
        for topic in directory.topics:
            yield None
            for index in topic.partitions:
                wishes[topic.name, index] = directory.path
                yield None
    results: dict[str, TopicResult] = {}
    for (name, index), path in wishes.items():
        error = _answer(services, name, index, path) if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        result = results.setdefault(name, TopicResult(name))
        result.partitions.append(PartitionResult(index, error))
        yield None
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _answer(services: AlterReplicaLogDirsServices, topic: str, index: int, path: str) -> ErrorCode:
    if not may_have_future(topic, index):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    logs = services.logs
    target = next((each for each in logs.directories if each.absolute_path == path), None)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.is_cordoned:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    hosted = services.replicas.partition(topic, index)
    if isinstance(hosted, ErrorCode):
        if hosted is not ErrorCode.KAFKA_STORAGE_ERROR:
            logs.prefer(topic, index, target)
        return ErrorCode.REPLICA_NOT_AVAILABLE if hosted is ErrorCode.NOT_LEADER_OR_FOLLOWER else hosted
    if logs.failed_directories and logs.directory_of(topic, index) is not target:
        return ErrorCode.KAFKA_STORAGE_ERROR  # a copy may lie there: there must not be two
    logs.moves.begin((topic, index), target)
    return ErrorCode.NONE
