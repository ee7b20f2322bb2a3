"""The fetchers of a broker, put together: they connect to other brokers at the inter-broker listener."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.metadata.cache import MetadataCache
from broker.quotas.replication_quota import ReplicationQuota
from broker.replication.fetcher.fetcher_manager import ReplicaFetcherManager
from broker.replication.fetcher.fetcher_surroundings import FetcherSettings, FetcherSurroundings
from broker.server.quorum import connect_to_broker
from broker.server.shared_server import SharedServer
from config.broker_config import BrokerConfig
from controller.metadata.image.brokers import BrokerEndpoint

__all__ = ["make_fetchers", "replication_quota"]


def make_fetchers(
    shared: SharedServer, metadata: MetadataCache, broker_epoch: Callable[[], int]
) -> ReplicaFetcherManager:
    """Makes the manager of the fetchers. broker_epoch: returns the epoch of this broker's registration."""
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
        connect=partial(connect_to_broker, shared),
        endpoint=endpoint,
    )


def replication_quota(config: BrokerConfig) -> ReplicationQuota:
    """A quota without a limit, and for no replicas yet."""
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
