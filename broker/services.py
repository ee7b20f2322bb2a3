"""What the handlers of a broker listener are given: every part of the broker that answers requests.

A handler names in the type of its first argument the two or three parts that it needs, each by its protocol
from here; it knows nothing of the others, nor of how they were put together (`broker.server.broker_server`).
The table of the handlers is where mypy compares what they need with what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from broker.controller_channel.forwarding import ControllerChannel
from broker.controller_channel.producer_ids import ProducerIds
from broker.controller_channel.topic_creation import TopicCreation
from broker.coordinator.group_coordinator import GroupCoordinator
from broker.coordinator.transaction.first_writes import FirstWrites
from broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from broker.metadata.cache import MetadataCache
from broker.replication.coordinator_log import CoordinatorLog
from broker.replication.delayed_fetch import FetchPurgatory
from broker.replication.replica_manager import ReplicaManager
from broker.scheduling.lookups import Lookups
from config.broker_config import BrokerConfig
from config.log_levels import Loggers
from config.ports import Clock, Timers
from controller.metadata.image.brokers import VersionRange
from protocol.serving.handler_table import HandlerTable
from storage.log_manager import LogManager


class HasNodeId(Protocol):
    @property
    def node_id(self) -> int: ...


class HasClusterId(Protocol):
    @property
    def cluster_id(self) -> str: ...


class HasConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class HasClock(Protocol):
    @property
    def clock(self) -> Clock: ...


class HasTimers(Protocol):
    @property
    def timers(self) -> Timers: ...


class HasMetadata(Protocol):
    @property
    def metadata(self) -> MetadataCache: ...


class HasLogs(Protocol):
    @property
    def logs(self) -> LogManager: ...


class HasReplicas(Protocol):
    @property
    def replicas(self) -> ReplicaManager: ...


class HasFetches(Protocol):
    @property
    def fetches(self) -> FetchPurgatory: ...


class HasTransactions(Protocol):
    @property
    def transactions(self) -> TransactionCoordinator: ...


class HasFirstWrites(Protocol):
    @property
    def first_writes(self) -> FirstWrites: ...


class HasCoordinatorLog(Protocol):
    @property
    def coordinator_log(self) -> CoordinatorLog: ...


class HasTopics(Protocol):
    @property
    def topics(self) -> TopicCreation: ...


class HasLookups(Protocol):
    @property
    def lookups(self) -> Lookups: ...


class HasProducerIds(Protocol):
    @property
    def producer_ids(self) -> ProducerIds: ...


class HasController(Protocol):
    @property
    def controller(self) -> ControllerChannel: ...


class HasHandlers(Protocol):
    @property
    def handlers(self) -> HandlerTable: ...


class HasLoggers(Protocol):
    @property
    def loggers(self) -> Loggers: ...


class HasFeatures(Protocol):
    @property
    def features(self) -> Mapping[str, VersionRange]: ...


class HasFinalizedByQuorum(Protocol):
    @property
    def finalized_by_quorum(self) -> Mapping[str, int]: ...


class ChecksStores(Protocol):
    @property
    def check_stores(self) -> Callable[[BrokerConfig], None]: ...


def _no_stores(config: BrokerConfig) -> None:
    """Where no listener speaks TLS."""


class BrokerServices(msgspec.Struct):
    """The broker role of one node.

    features: the feature levels that this broker can work with. finalized_by_quorum: levels
    that are not in the metadata image but in the quorum's own records (kraft.version). check_stores: raises
    ConfigError if a listener that is open could not exchange its key store and trust store for those of a
    config.
    """

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    timers: Timers
    metadata: MetadataCache
    logs: LogManager
    replicas: ReplicaManager
    fetches: FetchPurgatory
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    first_writes: FirstWrites
    coordinator_log: CoordinatorLog
    topics: TopicCreation
    lookups: Lookups
    producer_ids: ProducerIds
    controller: ControllerChannel
    handlers: HandlerTable
    loggers: Loggers
    features: Mapping[str, VersionRange]
    finalized_by_quorum: Mapping[str, int]
    check_stores: Callable[[BrokerConfig], None] = _no_stores
