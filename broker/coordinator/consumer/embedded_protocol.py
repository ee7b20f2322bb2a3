"""What classic consumers put into JoinGroup and SyncGroup, in terms of topics that exist.

Each blob begins with its version. One that is newer than all we know is read as the newest that we know, and
bytes after it are left alone, as clients do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from broker.coordinator.consumer.assignors.group_spec import Assignment
from broker.coordinator.consumer.operation import TopicsView
from protocol.codec.compiler import decoder, encode
from protocol.codec.message import Message
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.errors import ProtocolError
from protocol.primitives import Uuid

VERSION_BYTES: Final = 2
M = TypeVar("M", bound=Message)


def read_subscription(blob: bytes) -> ConsumerProtocolSubscription:
    """Reads a subscription. Raises ProtocolError for bytes that are none."""
    return _read(ConsumerProtocolSubscription, blob)


def read_assignment(blob: bytes) -> ConsumerProtocolAssignment:
    """Reads an assignment; no bytes are an empty one. Raises ProtocolError for bytes that are none."""
    return _read(ConsumerProtocolAssignment, blob) if blob else ConsumerProtocolAssignment()


def partitions_by_id(
    named: Sequence[ConsumerProtocolAssignment.TopicPartition]
    | Sequence[ConsumerProtocolSubscription.TopicPartition],
    topics: TopicsView,
) -> Assignment:
    """The partitions by topic id. Topics that do not exist are left out."""
    found: dict[Uuid, set[int]] = {}
    for topic in named:
        topic_id = topics.topic_id(topic.topic)
        if topic_id is not None and topic.partitions:
            found.setdefault(topic_id, set()).update(topic.partitions)
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in found.items()}


def written_assignment(
    partitions: Mapping[Uuid, Sequence[int]], subscription: bytes, topics: TopicsView
) -> bytes:
    """Encodes the partitions in the version in which the member has written its subscription. Raises
    ProtocolError if that has no version."""
    version = _version(ConsumerProtocolAssignment, subscription)
    named = ((topics.topic_name(topic_id), numbers) for topic_id, numbers in partitions.items())
    assignment = ConsumerProtocolAssignment(
        [
            ConsumerProtocolAssignment.TopicPartition(name, list(numbers))
            for name, numbers in named
            if name is not None
        ]
    )
    return version.to_bytes(VERSION_BYTES) + encode(assignment, version)


def _read(kind: type[M], blob: bytes) -> M:
    message, _ = decoder(kind, _version(kind, blob))(blob, VERSION_BYTES)
    return message


def _version(kind: type[Message], blob: bytes) -> int:
    version = int.from_bytes(blob[:VERSION_BYTES], signed=True)
    if len(blob) < VERSION_BYTES or version < 0:
        raise ProtocolError(f"{kind.__name__} of version {version} in {len(blob)} bytes")
    return min(version, kind.declaration.versions.last)
