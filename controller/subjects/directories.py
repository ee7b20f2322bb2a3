"""AssignReplicasToDirs: a broker tells in which of its log directories its replicas lie (KIP-858).

Only a broker knows where it has put a replica; the controller must know too, so that it can find new leaders
when a directory fails. A directory that the broker has lost already counts as failing now.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.metadata.image.brokers import BrokerRegistration
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import PartitionRegistration
from controller.metadata.metadata_version import DIRECTORIES_LEVEL
from controller.subjects.partition_change import Election, change_partition
from controller.subjects.partitions import AllowsUnclean
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from protocol.metadata_log.topics import PartitionChangeRecord

__all__ = ["assign_replicas"]

_Answer = AssignReplicasToDirsResponse
_IsActive = Callable[[int], bool]


def assign_replicas(
    image: ClusterImage, request: AssignReplicasToDirsRequest, allows_unclean: AllowsUnclean
) -> Decision[AssignReplicasToDirsResponse]:
    """Each partition has its own answer. Raises UNSUPPORTED_VERSION, STALE_BROKER_EPOCH."""
    if image.features.metadata_version < DIRECTORIES_LEVEL:
        raise ControllerError(ErrorCode.UNSUPPORTED_VERSION)
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise ControllerError(ErrorCode.STALE_BROKER_EPOCH)
    records: list[Message] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        told = _Answer.DirectoryData(directory.id)
        for topic in directory.topics:
            answers = _Answer.TopicData(topic.topic_id)
            for partition in topic.partitions:
                index = partition.partition_index
                error = _assign(image, broker, directory.id, topic.topic_id, index, allows_unclean, records)
                answers.partitions.append(_Answer.PartitionData(index, error))
            told.topics.append(answers)
        response.directories.append(told)
    return Decision(records, response)


def _assign(
    image: ClusterImage,
    broker: BrokerRegistration,
    directory_id: bytes,
    topic_id: bytes,
    index: int,
    allows_unclean: AllowsUnclean,
    records: list[Message],
) -> ErrorCode:
    """Adds the records that assign one replica to a directory, and returns the error code of that
    partition."""
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    place = partition.replicas.index(broker.id)
    if partition.directories[place] == directory_id:
        return ErrorCode.NONE
    directories = list(partition.directories)
    directories[place] = directory_id
    records.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories))
    if not broker.has_online_directory(directory_id):
        change = _leave(image, broker, topic_id, index, partition, allows_unclean(topic.name))
        if change is not None:
            records.append(change)
    return ErrorCode.NONE


def _leave(
    image: ClusterImage,
    broker: BrokerRegistration,
    topic_id: bytes,
    index: int,
    partition: PartitionRegistration,
    allows_unclean: bool,
) -> Message | None:
    """The directory has failed already: the replica is out of the ISR, and leads no more."""

    def acceptable(replica: int) -> bool:
        return replica != broker.id and image.brokers.is_active(replica)

    return change_partition(
        topic_id,
        index,
        partition,
        isr=tuple(replica for replica in partition.isr if replica != broker.id),
        is_active=acceptable,
        election=Election.UNCLEAN if allows_unclean else Election.ONLINE,
    )
