"""AssignReplicasToDirs: a broker tells in which of its log directories its replicas lie (KIP-858).

Only a broker knows where it has put a replica; the controller must know too, so that it can find new leaders
when a directory fails. A directory that the broker has lost already counts as failing now. A replica whose
directory works again may lead; Apache Kafka elects it at the next look for preferred leaders.
"""

from __future__ import annotations

from controller.metadata.image.brokers import BrokerRegistration
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER
from controller.metadata.metadata_version import DIRECTORIES_LEVEL
from controller.subjects.leadership import Leadership, LeadershipRules
from controller.subjects.partition_change import Election
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

__all__ = ["assign_replicas"]

_Answer = AssignReplicasToDirsResponse


def assign_replicas(
    image: ClusterImage, request: AssignReplicasToDirsRequest, rules: LeadershipRules
) -> Decision[AssignReplicasToDirsResponse]:
    """Notes the directories of replicas. Each partition has its own answer. Raises UNSUPPORTED_VERSION and
    STALE_BROKER_EPOCH."""
    if image.features.metadata_version < DIRECTORIES_LEVEL:
        raise ControllerError(ErrorCode.UNSUPPORTED_VERSION)
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise ControllerError(ErrorCode.STALE_BROKER_EPOCH)
    assigning = _Assigning(image, broker, rules)
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        told = _Answer.DirectoryData(directory.id)
        for topic in directory.topics:
            answers = _Answer.TopicData(topic.topic_id)
            for partition in topic.partitions:
                index = partition.partition_index
                error = assigning.assign(directory.id, topic.topic_id, index)
                answers.partitions.append(_Answer.PartitionData(index, error))
            told.topics.append(answers)
        response.directories.append(told)
    return Decision(assigning.records, response)


class _Assigning:
    """The records of one request."""

    def __init__(self, image: ClusterImage, broker: BrokerRegistration, rules: LeadershipRules) -> None:
        self._topics = image.topics
        self._broker = broker
        self._staying = Leadership(image, rules)
        self._leaving = Leadership(image, rules, leaving=broker.id)
        self.records: list[Message] = []

    def assign(self, directory_id: bytes, topic_id: bytes, index: int) -> ErrorCode:
        """Assigns one replica to a directory."""
        topic = self._topics.by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = topic.partitions.get(index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker = self._broker
        if broker.id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.directory_of(broker.id) == directory_id:
            return ErrorCode.NONE
        change = self._staying.change(
            topic, index, election=Election.ONLINE, directories={broker.id: directory_id}
        )
        if change is not None:
            self.records.append(change)
            partition = partition.merge(change)
        if not broker.has_online_directory(directory_id):
            # The directory has failed already: the replica is out of the ISR, and leads no more.
            isr = self._leaving.without_gone(partition.isr)
            change = self._leaving.change(topic, index, partition=partition, isr=isr)
        elif partition.leader == NO_LEADER:
            # It was in a directory that had failed, and may be the replica that is waited for.
            change = self._staying.change(topic, index, partition=partition)
        else:
            change = None
        if change is not None:
            self.records.append(change)
        return ErrorCode.NONE
