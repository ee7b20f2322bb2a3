"""The fetchers of a broker, put together: connections to other brokers at their inter-broker listener.

One publisher tells the fetchers when brokers have registered, because a leader may be known only then, or may
listen at another address. Another one tells both quotas of a broker, the follower's and the leader's, which
replicas are throttled, and to which rate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.metadata.cache import MetadataCache
from broker.quotas.replication_quota import ReplicationQuota, throttled_partitions
from broker.replication.fetcher.fetcher_manager import ReplicaFetcherManager
from broker.replication.fetcher.fetcher_surroundings import FetcherSettings, FetcherSurroundings
from broker.server.quorum import connect
from broker.server.shared_server import SharedServer
from config.broker_config import BrokerConfig
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.configs import ConfigResourceType

__all__ = ["FollowersPublisher", "ThrottlesPublisher", "make_fetchers", "replication_quota"]

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


def make_fetchers(
    shared: SharedServer, metadata: MetadataCache, broker_epoch: Callable[[], int]
) -> ReplicaFetcherManager:
    """broker_epoch: of this broker's registration."""
    config = shared.config
    listener = config.inter_broker_listener_name

    def endpoint(broker_id: int) -> BrokerEndpoint | None:
        registration = metadata.image.brokers.get(broker_id)
        return None if registration is None else registration.endpoints.get(listener)

    surroundings = FetcherSurroundings(
        node_id=shared.node_id,
        broker_epoch=broker_epoch,
        settings=fetcher_settings(config),
        clock=shared.clock,
        timers=shared.timers,
        suspect=shared.logs.suspect,
        quota=replication_quota(config),
    )
    return ReplicaFetcherManager(
        surroundings,
        fetchers_per_leader=config.integer("num.replica.fetchers"),
        connect=partial(connect, shared),
        endpoint=endpoint,
    )


def replication_quota(config: BrokerConfig) -> ReplicationQuota:
    """Without a limit, and for no replicas yet."""
    return ReplicationQuota(
        window_ms=1_000 * config.integer("replication.quota.window.size.seconds"),
        windows=config.integer("replication.quota.window.num"),
    )


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    return FetcherSettings(
        max_bytes=config.integer("replica.fetch.max.bytes"),
        response_max_bytes=config.integer("replica.fetch.response.max.bytes"),
        min_bytes=config.integer("replica.fetch.min.bytes"),
        wait_max_ms=config.integer("replica.fetch.wait.max.ms"),
        backoff_ms=config.integer("replica.fetch.backoff.ms"),
        timeout_ms=config.integer("replica.socket.timeout.ms"),
    )


class FollowersPublisher:
    """Comes after the replicas' publisher: what they follow has been told by then."""

    def __init__(self, fetchers: ReplicaFetcherManager) -> None:
        self._fetchers = fetchers

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.brokers is not None:
            self._fetchers.brokers_changed()

    def configure(self, image: ClusterImage, config: BrokerConfig) -> None:
        """The broker's configuration has changed."""
        self._fetchers.resize(config.integer("num.replica.fetchers"))


class ThrottlesPublisher:
    """leader, follower: the quotas of this broker for what it sends, and for what it copies."""

    def __init__(self, node_id: int, *, leader: ReplicationQuota, follower: ReplicationQuota) -> None:
        self._node_id = node_id
        self._leader = leader
        self._follower = follower

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        if delta.configs is None:
            return
        for resource_type, topic in delta.configs.changed:
            if resource_type == ConfigResourceType.TOPIC:
                configs = image.configs.of(resource_type, topic)
                for quota, name in ((self._leader, LEADERS), (self._follower, FOLLOWERS)):
                    quota.throttle(topic, throttled_partitions(configs.get(name, ""), self._node_id))

    def configure(self, image: ClusterImage, config: BrokerConfig) -> None:
        """The broker's configuration has changed."""
        self._leader.limit(config.integer("leader.replication.throttled.rate"))
        self._follower.limit(config.integer("follower.replication.throttled.rate"))
