"""Tells the controller in which log directory each replica of this broker lies (KIP-858).

After each change of the metadata the directories of the replicas are compared with those in the image. The
differences are sent with AssignReplicasToDirs, many in a request, until the controller has accepted them. A
broker with one log directory has nothing to tell of a new replica, for which the controller assumes it.

A log that cannot be used although its directory works is assigned to the reserved directory LOST, so that
another replica leads; when a later start can use it, it is assigned to its own directory again. In Apache
Kafka the whole directory goes offline with it. The logs in a directory that has failed are not assigned: the
heartbeats name the directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from broker.controller_channel.forwarding import ControllerChannel
from broker.replication.partition_state import TopicIdPartition
from config.ports import Clock, Timers
from controller.metadata.image.brokers import LOST_DIRECTORY
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.metadata_version import DIRECTORIES_LEVEL
from protocol.codec.message import Message
from protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from protocol.peer_channel import PeerError
from storage.directories import LogDirectory

ASSIGNMENTS_PER_REQUEST: Final = 2000
RETRY_MS: Final = 500

_log = logging.getLogger("barnabas.replicas")

_Request = AssignReplicasToDirsRequest


class LogHomes(Protocol):
    """What is asked of the log manager."""

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None: ...

    def is_lost(self, topic: str, partition: int) -> bool: ...


class DirectoryAssignments:
    """Sends AssignReplicasToDirs for the replicas that lie in another directory than the image says. One
    request is under way at a time."""

    def __init__(
        self,
        node_id: int,
        channel: ControllerChannel,
        clock: Clock,
        timers: Timers,
        *,
        broker_epoch: Callable[[], int],
        logs: LogHomes,
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._broker_epoch = broker_epoch
        self._logs = logs
        self._wanted: dict[TopicIdPartition, bytes] = {}
        self._sent: dict[TopicIdPartition, bytes] = {}
        self._is_armed = False

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        """Is called for each image, after the publisher of replicas (see `broker.metadata.publishers`)."""
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        """Compares the directories of the partitions that changed, one partition a step."""
        if delta.topics is None or image.features.metadata_version < DIRECTORIES_LEVEL:
            return
        for gone in delta.topics.deleted.values():
            for index in gone.partitions:
                self._wanted.pop((gone.id, index), None)
                yield
        for topic_id, changed in delta.topics.changed.items():
            for index in changed.partitions:
                self._compare(image, changed.name, topic_id, index)
                yield

    def changed(self, image: ClusterImage, topic: str, index: int) -> None:
        """Called when a replica has been moved to another directory of this broker, and when its log has been
        made or lost."""
        found = image.topics.by_name.get(topic)
        if found is not None and image.features.metadata_version >= DIRECTORIES_LEVEL:
            self._compare(image, topic, found.id, index)

    def _compare(self, image: ClusterImage, topic: str, topic_id: bytes, index: int) -> None:
        found = image.topics.by_name.get(topic)
        partition = None if found is None or found.id != topic_id else found.partitions.get(index)
        if partition is None or self._node_id not in partition.replicas:
            self._wanted.pop((topic_id, index), None)
            return
        directory_id = self._directory_id_of(topic, index)
        if directory_id is None:
            return
        if partition.directory_of(self._node_id) == directory_id:
            self._wanted.pop((topic_id, index), None)
            return
        self._wanted[topic_id, index] = directory_id
        self._arm(0)

    def _directory_id_of(self, topic: str, index: int) -> bytes | None:
        """The id of the directory in which the replica lies; None if nobody knows it."""
        if self._logs.is_lost(topic, index):
            return LOST_DIRECTORY
        home = self._logs.directory_of(topic, index)
        return None if home is None else home.directory_id

    def _arm(self, delay_ms: int) -> None:
        if not self._is_armed and not self._sent:
            self._is_armed = True
            self._timers.call_at(self._clock.monotonic_ms() + delay_ms, self._send)

    def _send(self) -> None:
        self._is_armed = False
        if not self._wanted:
            return
        epoch = self._broker_epoch()
        if epoch < 0:
            self._arm(RETRY_MS)
            return
        replicas = list(self._wanted)[:ASSIGNMENTS_PER_REQUEST]
        self._sent = {replica: self._wanted[replica] for replica in replicas}
        self._channel.send(_request(self._node_id, epoch, self._sent), self._answered)

    def _answered(self, response: Message | PeerError) -> None:
        sent, self._sent = self._sent, {}
        if not isinstance(response, AssignReplicasToDirsResponse) or response.error_code:
            _log.info("The controller did not take where %d replicas lie, trying on", len(sent))
            self._arm(RETRY_MS)
            return
        for replica, directory_id in sent.items():
            if self._wanted.get(replica) == directory_id:
                del self._wanted[
                    replica
                ]  # accepted, or refused because the partition is no longer on this broker
        if self._wanted:
            self._arm(0)


def _request(
    node_id: int, epoch: int, replicas: dict[TopicIdPartition, bytes]
) -> AssignReplicasToDirsRequest:
    request = _Request(broker_id=node_id, broker_epoch=epoch)
    directories: dict[bytes, dict[bytes, list[int]]] = {}
    for (topic_id, index), directory_id in replicas.items():
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    for directory_id, topics in directories.items():
        told = [
            _Request.TopicData(topic_id, [_Request.PartitionData(index) for index in indexes])
            for topic_id, indexes in topics.items()
        ]
        request.directories.append(_Request.DirectoryData(directory_id, told))
    return request
