"""DescribeLogDirs (35): what lies in this broker's log directories, and how much room they have. KIP-113,
KIP-827, KIP-1066.

Versions 1-5. 2: flexible; 3: an error of the whole answer; 4: total and usable bytes of the volume; 5:
whether the directory is cordoned.

Every directory is told of, also one with nothing of what was asked for; `null` asks for all partitions. The
size is that of the segments, the lag is -1 for a log on disk that this broker does not host. A directory
whose volume cannot be asked for its size is an error of its own, and says nothing else. The metadata log is
no partition.

A replica that moves to another directory is in both: where it comes from, and as a future replica where it
goes, with as many records less as the lag says. A directory that has failed is KAFKA_STORAGE_ERROR.

A directory is cordoned when `cordoned.log.dirs` names it and the metadata version is 4.3-IV0 or later.

Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from broker.services import HasLogs, HasReplicas
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

_log = logging.getLogger("barnabas.replicas")

NO_LAG: Final = -1
"""The lag that is answered for a log on the disk that is no replica of this broker."""

_LOGS_AT_ONCE: Final = 200
"""The number of logs that are looked at between two turns."""

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
Replica = DescribeLogDirsResponse.DescribeLogDirsPartition


class DescribeLogDirsServices(HasLogs, HasReplicas, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: DescribeLogDirsServices, context: RequestContext, request: DescribeLogDirsRequest
) -> Turns[DescribeLogDirsResponse]:
    if not context.allows_cluster(Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = set[tuple[str, int]]()
        for topic in request.topics:
            yield None
            for index in topic.partitions:
                wanted.add((topic.topic, index))
                yield None
    lying = yield from _replicas_by_directory(services, wanted)
    results = []
    for directory in services.logs.directories:
        path = directory.absolute_path
        try:
            space = directory.space()
        except OSError as error:
            _log.error("Log directory %s cannot be described: %s", path, error)
            results.append(Result(ErrorCode.UNKNOWN_SERVER_ERROR, path))
            continue
        topics = [Topic(name, replicas) for name, replicas in lying.get(directory.path, {}).items()]
        results.append(
            Result(0, path, topics, space.total_bytes, space.usable_bytes, is_cordoned=directory.is_cordoned)
        )
    results += [
        Result(ErrorCode.KAFKA_STORAGE_ERROR, failed.absolute_path)
        for failed in services.logs.failed_directories
    ]
    return DescribeLogDirsResponse(results=results)


def _replicas_by_directory(
    services: DescribeLogDirsServices, wanted: set[tuple[str, int]] | None
) -> Turns[dict[str, dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]]]]:
    """The replicas that were asked for, or all, by directory and topic."""
    found: dict[str, dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]]] = {}
    hosted = services.replicas.by_name
    for number, (key, log) in enumerate(list(services.logs.logs.items()), 1):
        if number % _LOGS_AT_ONCE == 0:
            yield None
        home = services.logs.directory_of(*key)
        if home is None or (wanted is not None and key not in wanted):
            continue
        name, index = key
        replica = Replica(index, log.size_bytes, 0 if key in hosted else NO_LAG)
        found.setdefault(home.path, {}).setdefault(name, []).append(replica)
        move = services.logs.moves.get(key)
        if move is not None:
            lag = max(log.log_end_offset - move.end_offset, 0)
            future = Replica(index, move.size_bytes, lag, is_future_key=True)
            found.setdefault(move.target.path, {}).setdefault(name, []).append(future)
    return found
