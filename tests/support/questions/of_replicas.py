"""Requests about replicas on a broker's disks: log directories, and the producers of a partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocol.codec.message import Message
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.registry import ApiKey
from tests.support.questions.question import Case, World

K: Final = ApiKey
LONGEST_MOVABLE: Final = "x" * 213
"""A topic whose copy in another directory still has a legal name."""


def _lying(topics: Mapping[str, list[int]]) -> Callable[[World, int], Message]:
    asked = [DescribeLogDirsRequest.DescribableLogDirTopic(name, list(at)) for name, at in topics.items()]
    return lambda world, version: DescribeLogDirsRequest(asked)


def _move(path: str, *names: str) -> Callable[[World, int], Message]:
    cls = AlterReplicaLogDirsRequest
    topics = [cls.AlterReplicaLogDirTopic(name, [0]) for name in names]
    return lambda world, version: cls([cls.AlterReplicaLogDir(path, topics)])


def _producers(topics: Mapping[str, list[int]]) -> Callable[[World, int], Message]:
    asked = [DescribeProducersRequest.TopicRequest(name, list(at)) for name, at in topics.items()]
    return lambda world, version: DescribeProducersRequest(asked)


CASES: Final = (
    Case("log dirs, of a partition", K.DESCRIBE_LOG_DIRS, _lying({"two": [1]})),
    Case("log dirs, of a partition twice", K.DESCRIBE_LOG_DIRS, _lying({"two": [1, 1]})),
    Case("log dirs, of no partition", K.DESCRIBE_LOG_DIRS, _lying({})),
    Case("log dirs, what is not there", K.DESCRIBE_LOG_DIRS, _lying({"one": [7, -1], "none-such": [0]})),
    Case("log dirs, the metadata log", K.DESCRIBE_LOG_DIRS, _lying({"__cluster_metadata": [0]})),
    Case("move to nowhere", K.ALTER_REPLICA_LOG_DIRS, _move("/nowhere", "one")),
    Case("move an unknown topic to nowhere", K.ALTER_REPLICA_LOG_DIRS, _move("/nowhere", "none-such")),
    Case("move to a path without name", K.ALTER_REPLICA_LOG_DIRS, _move("", "one")),
    Case("move a long name", K.ALTER_REPLICA_LOG_DIRS, _move("/nowhere", LONGEST_MOVABLE)),
    Case("move too long a name", K.ALTER_REPLICA_LOG_DIRS, _move("/nowhere", LONGEST_MOVABLE + "x")),
    Case("move nothing", K.ALTER_REPLICA_LOG_DIRS, _move("/nowhere")),
    Case("producers of a partition without any", K.DESCRIBE_PRODUCERS, _producers({"small": [0]})),
    Case("producers, unknown partitions", K.DESCRIBE_PRODUCERS, _producers({"one": [9, -1], "two": []})),
    Case("producers, unknown topic", K.DESCRIBE_PRODUCERS, _producers({"none-such": [0, 1]})),
    Case(
        "producers, forbidden names",
        K.DESCRIBE_PRODUCERS,
        _producers({"a/b": [0], "": [0], "..": [0], "x" * 250: [0]}),
    ),
)
