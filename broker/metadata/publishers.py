"""What a broker does when the cluster's image changes: each publisher turns a difference into local action.

The metadata loader calls them in a fixed order, on the loop, with the new image and what changed in it; one
is done before the next begins, and the next image comes only after the last::

    ReplicasPublisher.retirement   drops the replicas of deleted topics
    ClientQuotasPublisher          puts the quotas of clients in force
    MetadataCachePublisher         shows the image to the handlers
    RightsPublisher                has readers asked again whether they may read
    BrokerConfigPublisher          applies the dynamic configs of this broker and of all brokers
    CordonedDirectoriesPublisher   keeps new partitions out of cordoned log directories
    ReplicasPublisher              creates, leads and follows partitions, and applies the configs of topics
    BrokersPublisher               has connections to brokers that are gone, or listen elsewhere, closed
    ThrottlesPublisher             tells the replication quotas which replicas are throttled
    TopicChangesPublisher          tells the coordinators which topics have changed or are gone

The directories of the replicas are compared too (`broker.controller_channel.directory_assignments`), and the
metadata log of the node takes its snapshots. The publishers call ports and know no network.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from broker.quotas.address_rates import AddressRates
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication_quota import ReplicationQuota, throttled_partitions
from config.broker_config import BrokerConfig
from config.checks import check_relations
from config.errors import ConfigError
from controller.metadata.client_quotas import IP, limits_of_addresses
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.metadata_version import CORDONED_LEVEL
from protocol.primitives import Uuid
from storage.directories import LogDirectory

__all__ = [
    "BrokerConfigPublisher",
    "BrokersPublisher",
    "ClientQuotasPublisher",
    "CordonedDirectoriesPublisher",
    "MetadataCachePublisher",
    "MetadataPublisher",
    "ReplicasPublisher",
    "RightsPublisher",
    "SteppedPublisher",
    "ThrottlesPublisher",
    "TopicChangesPublisher",
]

_log = logging.getLogger("barnabas.node")

ALL_BROKERS: Final = ""
"""The resource name of the dynamic configs that hold for all brokers."""

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"

OnConfig = Callable[[ClusterImage, BrokerConfig], None]

Change = TypeVar("Change")


class MetadataPublisher(Protocol):
    """Follows the cluster's image.

    The first call comes when the loader has caught up for the first time: its delta holds everything. A
    subject that did not change has None in the delta. What a publisher raises is our bug and ends the
    process.
    """

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None: ...


@runtime_checkable
class SteppedPublisher(Protocol):
    """A publisher whose work may be long: between its steps the loop serves others. The next publisher, and
    the next image, come after the last step."""

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]: ...


class ImageHolder(Protocol):
    """What `MetadataCachePublisher` needs of `broker.metadata.cache.MetadataCache`."""

    def apply(self, image: ClusterImage, delta: ImageDelta | None = None) -> None: ...


class MetadataCachePublisher:
    """Gives each image to the metadata cache. It comes before the publishers about whose work clients ask,
    because they ask through the cache."""

    def __init__(self, cache: ImageHolder) -> None:
        self._cache = cache

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        self._cache.apply(image, delta)


class RemembersRights(Protocol):
    """What `RightsPublisher` needs of `broker.replication.fetch_sessions.FetchSessions`."""

    def rights_changed(self) -> None: ...


class RightsPublisher:
    """Tells those who do not ask for each request what a client may do that access control entries have
    changed. It comes after the metadata cache, because the authorizer looks there."""

    def __init__(self, *remembering: RemembersRights) -> None:
        self._remembering = remembering

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.acls is not None:
            for each in self._remembering:
                each.rights_changed()


class Replicas(Protocol[Change]):
    """What `ReplicasPublisher` needs of `broker.replication.replica_manager.ReplicaManager`."""

    def retire_in_steps(self, delta: ImageDelta, changes: list[Change], /) -> Iterator[None]: ...

    def apply_in_steps(
        self, image: ClusterImage, delta: ImageDelta | None, changes: list[Change], /
    ) -> Iterator[None]: ...


class ReplicasPublisher(Generic[Change]):
    """Gives each change of the image to the replica manager, and reports the changes of leadership.

    It is two publishers. `retirement` comes before the metadata cache, the rest after it: a deleted topic's
    replicas are dropped while the cache still shows the topic, and a new one's are created when the cache
    shows it already. In between some partitions of a topic may not be hosted yet or any more; those that are
    hosted always belong to the topic that the cache knows by that name.

    Coordinators live on partitions of their own topics. They learn of a change of leadership after the
    partition itself has learnt of it.
    """

    def __init__(self, replicas: Replicas[Change]) -> None:
        self._replicas = replicas
        self._on_leader_change: list[Callable[[Change], None]] = []
        self.retirement: Final = _Retirement(self)

    def on_leader_change(self, callback: Callable[[Change], None]) -> None:
        """Calls `callback` once for each partition of which this broker becomes leader or stops being it."""
        self._on_leader_change.append(callback)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        """Applies the image, one partition a step: a directory is created for each, and a request may create
        thousands."""
        changes: list[Change] = []
        yield from self._notify_all(self._replicas.apply_in_steps(image, delta, changes), changes)

    def retire_in_steps(self, delta: ImageDelta) -> Iterator[None]:
        """Drops the partitions of deleted topics, before the metadata cache shows the new image."""
        changes: list[Change] = []
        yield from self._notify_all(self._replicas.retire_in_steps(delta, changes), changes)

    def _notify_all(self, steps: Iterator[None], changes: list[Change]) -> Iterator[None]:
        """Runs the steps, and calls the callbacks with what each of them changed before the next one."""
        for _ in steps:
            if changes:
                self._notify(changes)
            yield
        self._notify(changes)

    def _notify(self, changes: list[Change]) -> None:
        for change in changes:
            for callback in self._on_leader_change:
                callback(change)
        changes.clear()


class _Retirement:
    """The publisher that drops the partitions of deleted topics."""

    def __init__(self, replicas: ReplicasPublisher[Any]) -> None:
        self._replicas = replicas

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        for _ in self.publish_in_steps(delta, image):
            pass

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
        return self._replicas.retire_in_steps(delta)


class BrokerConfigPublisher:
    """Applies the dynamic configs of this broker (resource BROKER with its id) and of all brokers (the empty
    name). `config` holds the values that are in force now.

    The static file lies below them and never changes, so the config in force is made anew from it each time,
    and the callbacks get it in the order of their registration. Settings that this release cannot use are
    left out, and the config says which. Settings that contradict each other change nothing: the controller
    does not know this broker's file and may have accepted them.
    """

    def __init__(self, static: BrokerConfig, node_id: int) -> None:
        self.config = static
        self._static = static
        self._own = (int(ConfigResourceType.BROKER), str(node_id))
        self._shared = (int(ConfigResourceType.BROKER), ALL_BROKERS)
        self._on_config: list[OnConfig] = []

    def on_config(self, callback: OnConfig) -> None:
        """Calls `callback` with each new config from now on; not with the present one."""
        self._on_config.append(callback)

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.configs is None:
            return
        if self._own not in delta.configs.changed and self._shared not in delta.configs.changed:
            return
        wanted = self._static.with_dynamic(image.configs.of(*self._own), image.configs.of(*self._shared))
        try:
            check_relations(wanted)
        except ConfigError as fault:
            _log.error("The dynamic configs of this broker could not be applied: %s", fault)
            return
        self.config = wanted
        for callback in self._on_config:
            callback(image, self.config)


class Cordons(Protocol):
    """What `CordonedDirectoriesPublisher` needs of `storage.log_manager.LogManager`."""

    @property
    def directories(self) -> list[LogDirectory]: ...

    def cordon(self, paths: Iterable[str], /) -> bool: ...


class CordonedDirectoriesPublisher:
    """Keeps new partitions out of the log directories that `cordoned.log.dirs` names, once the metadata
    version knows of them (KIP-1066). on_change: is called when other directories are cordoned than before.

    It comes after the publisher of configs and before that of replicas, which creates logs.
    """

    def __init__(self, configs: BrokerConfigPublisher, logs: Cordons, on_change: Callable[[], None]) -> None:
        self._configs = configs
        self._logs = logs
        self._on_change = on_change
        self._is_supported = False

    def directory_ids(self) -> list[bytes] | None:
        """The ids of the cordoned directories, for the controller; None where the metadata version has no
        place for them, or is not known yet."""
        if not self._is_supported:
            return None
        cordoned = [each.directory_id for each in self._logs.directories if each.is_cordoned]
        return [directory_id for directory_id in cordoned if directory_id is not None]

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        self._is_supported = image.features.metadata_version >= CORDONED_LEVEL
        if self._logs.cordon(self._configs.config.cordoned_log_directories if self._is_supported else ()):
            self._on_change()


class FollowsBrokers(Protocol):
    """Keeps connections to other brokers."""

    def brokers_changed(self) -> None:
        """Called when brokers have registered, have been unregistered or listen at another address."""
        ...


class BrokersPublisher:
    """Tells those who keep connections to other brokers when the registrations of brokers change.

    It comes after the publisher of replicas, because a leader to follow may become reachable only when its
    broker registers.
    """

    def __init__(self, *connected: FollowsBrokers) -> None:
        self._connected = connected

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.brokers is not None:
            for each in self._connected:
                each.brokers_changed()


class ClientQuotasPublisher:
    """Puts the cluster's quotas of clients and addresses in force, as soon as they change. It comes before
    the metadata cache, so that a quota which a client is shown holds already.

    on_change: is called then. Before it returns, all that was decided by the former quotas must be forgotten.
    """

    def __init__(self, quotas: ClientQuotas, addresses: AddressRates, on_change: Callable[[], None]) -> None:
        self._quotas = quotas
        self._addresses = addresses
        self._on_change = on_change

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.quotas is None:
            return
        changed = delta.quotas.changed
        self._quotas.follow(image.quotas, changed)
        if any(kind == IP for entity in changed for kind, _ in entity):
            self._addresses.follow(limits_of_addresses(image.quotas))
        self._on_change()


class ThrottlesPublisher:
    """Tells the replication quotas of this broker which replicas are throttled, and to which rate (KIP-73).

    leader, follower: the quotas for what this broker sends, and for what it copies.
    """

    def __init__(self, node_id: int, *, leader: ReplicationQuota, follower: ReplicationQuota) -> None:
        self._node_id = node_id
        self._leader = leader
        self._follower = follower

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.configs is None:
            return
        for (resource_type, topic), changes in delta.configs.changed.items():
            if resource_type == ConfigResourceType.TOPIC:
                configs = image.configs.of(resource_type, topic)
                for quota, name in ((self._leader, LEADERS), (self._follower, FOLLOWERS)):
                    if name not in changes:
                        continue
                    quota.throttle(topic, throttled_partitions(configs.get(name, ""), self._node_id))

    def configure(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Takes over the rates from a changed configuration of the broker."""
        self._leader.limit(config.integer("leader.replication.throttled.rate"))
        self._follower.limit(config.integer("follower.replication.throttled.rate"))


class FollowsTopics(Protocol):
    """What `TopicChangesPublisher` needs of a coordinator."""

    def topics_changed(self, deleted: Mapping[str, Uuid], changed: frozenset[str]) -> None: ...


class TopicChangesPublisher:
    """Tells the coordinators which topics have changed or are gone."""

    def __init__(self, *coordinators: FollowsTopics) -> None:
        self._coordinators = coordinators

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.topics is None:
            return
        deleted = {gone.name: gone.id for gone in delta.topics.deleted.values()}
        changed = (image.topics.by_id.get(topic_id) for topic_id in delta.topics.changed)
        names = frozenset(topic.name for topic in changed if topic is not None)
        for each in self._coordinators:
            each.topics_changed(deleted, names | deleted.keys())
