"""What the handlers of a broker listener are given: every part of the broker that answers requests.

A handler takes what it needs and knows nothing of how it was put together; that is `broker/node.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.controller_channel.forwarding import ControllerChannel
from broker.controller_channel.producer_ids import ProducerIds
from broker.controller_channel.topic_creation import TopicCreation
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.metadata.cache import MetadataCache
from broker.replication.delayed_fetch import FetchPurgatory
from broker.replication.replica_manager import ReplicaManager
from broker.scheduling.lookups import Lookups
from config.broker_config import BrokerConfig
from config.log_levels import Loggers
from config.ports import Clock, Timers
from controller.metadata.image.brokers import VersionRange
from protocol.serving.handler_table import HandlerTable
from storage.log_manager import LogManager


class BrokerServices(msgspec.Struct):
    """The broker role of one node.

    features: the feature levels that this broker can work with. finalized_by_quorum: levels
    that are not in the metadata image but in the quorum's own records (kraft.version).
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
    topics: TopicCreation
    lookups: Lookups
    producer_ids: ProducerIds
    controller: ControllerChannel
    handlers: HandlerTable
    loggers: Loggers
    features: Mapping[str, VersionRange]
    finalized_by_quorum: Mapping[str, int]
