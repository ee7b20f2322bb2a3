"""What this broker knows of the cluster, in the shape in which it is asked for.

The cluster's image is replayed elsewhere and handed in whole; here it is kept, looked up and turned into
parts of Metadata answers. Those parts are made once per topic and listener and kept as long as the topic's
image and the brokers' image are the same objects: images share what did not change, so identity says it
all. Whoever gets a kept part must not change it.

What a client may be told depends on its listener: a broker without an endpoint there does not exist for it,
and a partition led by such a broker has a leader that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from broker.coordinator.consumer.metadata_hash import topic_hash
from broker.coordinator.ports import CoordinatorEndpoint
from broker.fast_lane.epoch import LaneEpoch
from config.ports import RandomSource
from controller.metadata.image.brokers import BrokerRegistration, BrokersImage
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta
from controller.metadata.image.topics import PartitionRegistration, TopicImage
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponse

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics of the coordinators. Clients see them marked as internal and may not produce to them."""

NO_LEADER: Final = -1
UNKNOWN_BROKER: Final = -1

TopicPart = MetadataResponse.MetadataResponseTopic
PartitionPart = MetadataResponse.MetadataResponsePartition
BrokerPart = MetadataResponse.MetadataResponseBroker

_LEADER_NOT_AVAILABLE: Final = int(ErrorCode.LEADER_NOT_AVAILABLE)
_LISTENER_NOT_FOUND: Final = int(ErrorCode.LISTENER_NOT_FOUND)
_REPLICA_NOT_AVAILABLE: Final = int(ErrorCode.REPLICA_NOT_AVAILABLE)


class Wording(NamedTuple):
    """How a version of the Metadata response reports brokers that cannot be reached on the listener."""

    hides_unreachable: bool
    """Version 0 leaves out replicas that are fenced or have no endpoint, and reports their absence as an
    error."""
    knows_listeners: bool
    """Since version 6 a leader without an endpoint on this listener is LISTENER_NOT_FOUND; before, it was
    LEADER_NOT_AVAILABLE."""


FIRST_WORDING: Final = Wording(True, False)
MIDDLE_WORDING: Final = Wording(False, False)
NEWEST_WORDING: Final = Wording(False, True)


def wording_of(version: int) -> Wording:
    """The wording that belongs to a version of the Metadata API."""
    if version == 0:
        return FIRST_WORDING
    return NEWEST_WORDING if version >= 6 else MIDDLE_WORDING


class ListenerView:
    """The cluster as clients of one listener see it; it is valid for one image of the brokers."""

    __slots__ = ("_parts", "broker_parts", "brokers", "listener", "reachable")

    def __init__(self, brokers: BrokersImage, listener: str) -> None:
        self.brokers = brokers
        self.listener = listener
        self.reachable: dict[int, CoordinatorEndpoint] = {}
        """The endpoint of each registered broker that has this listener, by broker id."""
        self.broker_parts: list[MetadataResponse.MetadataResponseBroker] = []
        """The brokers that Metadata lists: the unfenced ones, or all when none is. Kafka lists none then,
        which happens when the last broker may shut down and has not yet; librdkafka since 2.13 takes that for
        an order to forget every address, and waits for ever (its issue 5301)."""
        fenced_parts: list[MetadataResponse.MetadataResponseBroker] = []
        for broker_id in sorted(brokers.by_id):
            registration = brokers.by_id[broker_id]
            endpoint = registration.endpoints.get(listener)
            if endpoint is None:
                continue
            self.reachable[broker_id] = CoordinatorEndpoint(broker_id, endpoint.host, endpoint.port)
            part = BrokerPart(broker_id, endpoint.host, endpoint.port, registration.rack)
            (fenced_parts if registration.fenced else self.broker_parts).append(part)
        self.broker_parts = self.broker_parts or fenced_parts
        self._parts: dict[Wording, dict[str, tuple[TopicImage, MetadataResponse.MetadataResponseTopic]]] = {}

    def topic(self, image: TopicImage, wording: Wording) -> MetadataResponse.MetadataResponseTopic:
        """The topic as the Metadata response has it. It is cached, so the caller must not change it."""
        parts = self._parts.get(wording)
        if parts is None:
            parts = self._parts[wording] = {}
        kept = parts.get(image.name)
        if kept is not None and kept[0] is image:
            return kept[1]
        known: Mapping[int, PartitionRegistration] = {} if kept is None else kept[0].partitions
        told = {} if kept is None else dict(zip(known, kept[1].partitions, strict=True))
        made = TopicPart(
            0,
            image.name,
            image.id,
            image.name in INTERNAL_TOPICS,
            [
                told[index] if known.get(index) is entry else self.partition(index, entry, wording)
                for index, entry in image.partitions.items()
            ],
        )
        parts[image.name] = (image, made)
        return made

    def forget(self, topic: str) -> None:
        for parts in self._parts.values():
            parts.pop(topic, None)

    def offline_replicas(self, entry: PartitionRegistration) -> list[int]:
        """Brokers whose replica clients of this listener cannot read: the broker is fenced or not to be
        reached here, or the replica lies in a log directory that has failed."""
        return [
            broker_id
            for broker_id, directory_id in zip(entry.replicas, entry.directories, strict=True)
            if self._is_offline(broker_id, directory_id)
        ]

    def _is_alive(self, broker_id: int) -> bool:
        return broker_id in self.reachable and not self.brokers.by_id[broker_id].fenced

    def _is_offline(self, broker_id: int, directory_id: bytes) -> bool:
        if not self._is_alive(broker_id):
            return True
        return not self.brokers.by_id[broker_id].has_online_directory(directory_id)

    def leader_error(self, entry: PartitionRegistration, wording: Wording) -> int:
        """The error code of a partition whose leader cannot be reached on this listener; 0 if it can."""
        if entry.leader in self.reachable:
            return 0
        if wording.knows_listeners and entry.leader in self.brokers.by_id:
            return _LISTENER_NOT_FOUND
        return _LEADER_NOT_AVAILABLE

    def partition(
        self, index: int, entry: PartitionRegistration, wording: Wording
    ) -> MetadataResponse.MetadataResponsePartition:
        replicas, isr = list(entry.replicas), list(entry.isr)
        if wording.hides_unreachable:
            replicas = [replica for replica in replicas if self._is_alive(replica)]
            isr = [replica for replica in isr if self._is_alive(replica)]
        error = self.leader_error(entry, wording)
        leader = NO_LEADER if error else entry.leader
        if not error and (len(replicas) < len(entry.replicas) or len(isr) < len(entry.isr)):
            error = _REPLICA_NOT_AVAILABLE
        offline = self.offline_replicas(entry)
        return PartitionPart(error, index, leader, entry.leader_epoch, replicas, isr, offline)


class MetadataCache:
    """The newest image and its views. `apply` is called by the publisher of images, everything else by
    handlers."""

    __slots__ = (
        "_hashes",
        "_lane_epoch",
        "_random_source",
        "_unfenced",
        "_views",
        "image",
        "newest_topic_version",
    )

    def __init__(self, *, random_source: RandomSource, lane_epoch: LaneEpoch | None = None) -> None:
        """lane_epoch: that of the node, which every new image bumps."""
        self._lane_epoch = lane_epoch or LaneEpoch()
        self._random_source = random_source
        self.image: ClusterImage = EMPTY_IMAGE
        self.newest_topic_version = -1
        """The offset of the first image that had the topic which was created last."""
        self._hashes: dict[str, tuple[TopicImage, int]] = {}
        self._views: dict[str, ListenerView] = {}
        self._unfenced: list[BrokerRegistration] = []

    def apply(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
        """Shows this image from now on. The delta only helps to drop what was cached of deleted topics."""
        if image.brokers is not self.image.brokers:
            self._views = {}
            self._unfenced = image.brokers.unfenced()
        elif delta is not None and delta.topics is not None:
            for gone in delta.topics.deleted.values():
                for view in self._views.values():
                    view.forget(gone.name)
        if self.newest_topic_version < 0 or (delta is not None and delta.topics and delta.topics.created):
            self.newest_topic_version = image.offset
        if delta is not None and delta.topics is not None:
            for gone in delta.topics.deleted.values():
                self._hashes.pop(gone.name, None)
        self.image = image
        self._lane_epoch.bump()

    def view(self, listener: str) -> ListenerView:
        view = self._views.get(listener)
        if view is None:
            view = self._views[listener] = ListenerView(self.image.brokers, listener)
        return view

    # Topics.

    def topic(self, name: str) -> TopicImage | None:
        return self.image.topics.by_name.get(name)

    def topic_id(self, name: str) -> bytes | None:
        found = self.image.topics.by_name.get(name)
        return None if found is None else found.id

    def topic_name(self, topic_id: bytes) -> str | None:
        found = self.image.topics.by_id.get(topic_id)
        return None if found is None else found.name

    def topic_names(self) -> list[str]:
        """The names of all topics, in no particular order."""
        return list(self.image.topics.by_name)

    def partition_count(self, name: str) -> int | None:
        found = self.image.topics.by_name.get(name)
        return None if found is None else len(found.partitions)

    def topic_hash(self, name: str) -> int | None:
        """A hash that differs where the topic's id, its partitions or the racks of its replicas differ; None
        for a topic that does not exist."""
        found = self.image.topics.by_name.get(name)
        if found is None:
            return None
        known = self._hashes.get(name)
        if known is None or known[0] is not found:
            known = self._hashes[name] = (found, topic_hash(found.id, name, self._racks(found)))
        return known[1]

    def _racks(self, topic: TopicImage) -> list[list[str]]:
        """The racks of the replicas of each partition, in order."""
        brokers = self.image.brokers.by_id
        found = []
        for index in range(len(topic.partitions)):
            replicas = topic.partitions[index].replicas
            racks = (brokers[replica].rack for replica in replicas if replica in brokers)
            found.append(sorted(rack for rack in racks if rack is not None))
        return found

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        found = self.image.topics.by_name.get(topic)
        return None if found is None else found.partitions.get(index)

    # Brokers.

    def any_broker_id(self) -> int:
        """The broker that clients are told as the controller: any broker that is alive, since each of them
        forwards (KIP-590)."""
        alive = self._unfenced
        if not alive:
            return UNKNOWN_BROKER
        return alive[0 if len(alive) == 1 else self._random_source.below(len(alive))].id

    def is_alive(self, broker_id: int) -> bool:
        """Whether the controller holds the broker for alive: registered and not fenced."""
        registration = self.image.brokers.get(broker_id)
        return registration is not None and not registration.fenced

    def broker_epoch(self, broker_id: int) -> int:
        """The epoch of the broker's registration, which each restart of it raises; -1 if it has none."""
        registration = self.image.brokers.get(broker_id)
        return -1 if registration is None else registration.epoch

    def endpoint(self, node_id: int, listener: str) -> CoordinatorEndpoint | None:
        """The endpoint at which clients of the listener reach a broker; None if there is none."""
        return self.view(listener).reachable.get(node_id)

    def leader_endpoint(self, topic: str, index: int, listener: str) -> CoordinatorEndpoint | None:
        entry = self.partition(topic, index)
        return None if entry is None else self.endpoint(entry.leader, listener)


def with_operations(
    part: MetadataResponse.MetadataResponseTopic, operations: int
) -> MetadataResponse.MetadataResponseTopic:
    """A copy of a cached topic that says what the client may do with it."""
    return msgspec.structs.replace(part, topic_authorized_operations=operations)
