"""The broker's part of a node: partitions, groups, handlers, and its registration with the controller.

At the start it registers with the controller, follows the metadata log until it has seen its own
registration, makes its partitions, and asks to be unfenced; then its listeners take connections.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.controller_channel.alter_partition_manager import AlterPartitionManager
from broker.controller_channel.directory_assignments import DirectoryAssignments
from broker.controller_channel.forwarding import ControllerChannel
from broker.controller_channel.lifecycle import BrokerIdentity, BrokerLifecycle, BrokerState
from broker.controller_channel.peer.to_leader import LeaderPeer
from broker.controller_channel.producer_ids import ProducerIds
from broker.controller_channel.topic_creation import TopicCreation
from broker.coordinator.consumer.operation import ConsumerGroupSettings
from broker.coordinator.group_coordinator import GROUP_TOPIC, GroupCoordinator
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.transaction.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from broker.dispatch.dispatcher import Dispatcher
from broker.dispatch.routes import RemembersRequests
from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.fetch_lane import FetchLanes
from broker.fast_lane.produce_lane import ProduceLanes
from broker.handlers.table import broker_handlers
from broker.metadata.cache import MetadataCache
from broker.metadata.loader import MetadataLoader
from broker.metadata.publishers import (
    BrokerConfigPublisher,
    BrokersPublisher,
    ClientQuotasPublisher,
    CordonedDirectoriesPublisher,
    MetadataCachePublisher,
    MetadataPublisher,
    ReplicasPublisher,
    RightsPublisher,
    ThrottlesPublisher,
    TopicChangesPublisher,
)
from broker.metrics.fetcher_families import fetcher_collector
from broker.metrics.quota_families import quota_collector
from broker.network.interfaces import Listener, Service
from broker.quotas.client_quotas import ClientQuotas
from broker.replication.coordinator_log import CoordinatorLog
from broker.replication.delayed_fetch import FetchPurgatory
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.isr_maintenance import IsrMaintenance
from broker.replication.log_retries import LogRetries
from broker.replication.replica_manager import LeaderChange, ReplicaManager
from broker.replication.replica_selector import replica_selector
from broker.replication.waiting_appends import WaitingAppends
from broker.scheduling.long_work import LongWork
from broker.scheduling.lookups import Lookups
from broker.security.authorizer import configured_authorizer
from broker.server.connection_limits import address_rates
from broker.server.dynamic_configs import DynamicConfigListeners
from broker.server.followers import (
    make_fetchers,
    replication_quota,
)
from broker.server.shared_server import SharedServer
from broker.server.transactions import BrokerTransactions
from broker.services import BrokerServices
from config.broker_config import BrokerConfig
from config.listeners import Endpoint
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.image.features import KRAFT_VERSION
from controller.metadata.metadata_version import DIRECTORIES_LEVEL
from controller.metadata.supported_features import SUPPORTED_FEATURES
from protocol.peer_channel import PeerChannel
from protocol.registry import ApiKey
from storage.directories import FailedDirectory

_log = logging.getLogger("barnabas.node")

_MINUTE_MS: Final = 60_000


class BrokerServer:
    """Is made when the logs are open. `start` begins the registration; the broker serves from `on_ready` on.

    channel: makes a channel to the active controller, given a client id. kraft_version: the version of the
    quorum as this node knows it now. publishers: others that follow the broker's image. on_failure: is told
    why the broker cannot start.
    """

    def __init__(
        self,
        shared: SharedServer,
        channel: Callable[[str], LeaderPeer],
        *,
        kraft_version: Callable[[], int],
        publishers: Sequence[MetadataPublisher] = (),
        on_ready: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._shared = shared
        self._on_ready = on_ready
        self._kraft_version = kraft_version
        self._finalized_by_quorum = {KRAFT_VERSION: kraft_version()}
        self._knows_its_logs = False
        self._serves = False
        config = shared.config
        self.acceptors: dict[str, Listener] = shared.listen(config.broker_listeners)
        self.endpoints = shared.advertised(config.advertised_listeners, self.acceptors)
        self.lane_epoch = LaneEpoch()
        self.metadata = MetadataCache(random_source=shared.random_source, lane_epoch=self.lane_epoch)
        self.long_work = LongWork(shared.clock, shared.timers)
        self.isr = self._make_isr(channel(f"broker-{shared.node_id}-alter-partition"))
        self.replicas = ReplicaManager(
            node_id=shared.node_id,
            logs=shared.logs,
            config=config,
            metadata=self.metadata,
            clock=shared.clock,
            waiting=WaitingAppends(
                clock=shared.clock,
                timers=shared.timers,
                disks=shared.threads.appends,
                codecs=shared.threads.codecs,
                stalls=shared.surroundings.stalls,
                long_work=self.long_work,
            ),
            lane_epoch=self.lane_epoch,
            isr_keeper=self.isr,
        )
        self.fetchers = make_fetchers(shared, self.metadata, lambda: self.lifecycle.epoch)
        self.replicas.copy_with(self.fetchers)
        shared.collectors.register(fetcher_collector(self.fetchers, shared.clock))
        self.services = self._make_services(
            self._make_controller_channel(channel(f"broker-{shared.node_id}-forwarding"))
        )
        self.dispatcher = self._make_dispatcher()
        for endpoint in config.broker_listeners:
            shared.server.serve(endpoint.listener, self._service_of(endpoint, config))
        self.quotas, self.address_rates = client_quotas(shared), address_rates(config)
        shared.collectors.register(quota_collector(self.quotas, shared.clock))
        self.followers = DynamicConfigListeners(
            shared, self.services, self.acceptors, self._service_of, self.lane_epoch
        )
        self.followers.limit_connections(config)
        self.loader = self._make_loader(channel(f"broker-{shared.node_id}-metadata"), publishers)
        self.lifecycle = self._make_lifecycle(channel(f"broker-{shared.node_id}-lifecycle"), on_failure)
        shared.tell_of_descriptors()
        shared.logs.watch(self._log_went_offline, self._directory_failed)

    def _make_dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self.services.handlers,
            self.services,
            clock=self._shared.clock,
            authorizer=configured_authorizer(
                self._shared.config,
                lambda: self.metadata.image.acls,
                lambda: self.metadata.image is not EMPTY_IMAGE,
            ),
            lane=self._shared.lane,
            current=self._shared.current_request,
            fast_lanes=self._make_fast_lanes(),
        )

    def _service_of(self, endpoint: Endpoint, config: BrokerConfig) -> Service:
        """What serves the connections of a listener. Raises ConfigError."""
        return self._shared.authentication.guarded(
            endpoint,
            config,
            self.dispatcher,
            lambda mechanism, user: self.metadata.image.scram.look_up(mechanism.type, user),
        )

    def _make_controller_channel(self, peer: LeaderPeer) -> ControllerChannel:
        return ControllerChannel(
            peer,
            clock=self._shared.clock,
            timers=self._shared.timers,
            request_timeout_ms=self._shared.config.integer("request.timeout.ms"),
            versions=peer.versions,
        )

    def _make_isr(self, channel: PeerChannel) -> IsrMaintenance:
        shared, config = self._shared, self._shared.config
        self.alter_partitions = AlterPartitionManager(
            node_id=shared.node_id,
            channel=channel,
            clock=shared.clock,
            timers=shared.timers,
            broker_epoch=lambda: self.lifecycle.epoch,
            request_timeout_ms=config.integer("request.timeout.ms"),
        )
        return IsrMaintenance(
            self.alter_partitions,
            registration=lambda broker_id: self.metadata.image.brokers.get(broker_id),
            broker_epoch=lambda: self.lifecycle.epoch,
            clock=shared.clock,
            timers=shared.timers,
            max_lag_ms=config.integer("replica.lag.time.max.ms"),
        )

    def _make_fast_lanes(self) -> dict[int, RemembersRequests]:
        return {
            ApiKey.PRODUCE: ProduceLanes(self.replicas),
            ApiKey.FETCH: FetchLanes(self.services),
        }

    def _make_services(self, controller: ControllerChannel) -> BrokerServices:
        shared, config = self._shared, self._shared.config
        topics = TopicCreation(channel=controller, metadata=self.metadata, config=config)
        coordinator_log = CoordinatorLog(self.replicas, self.replicas.appends, shared.clock)
        producer_ids = ProducerIds(
            node_id=shared.node_id, broker_epoch=lambda: self.lifecycle.epoch, channel=controller
        )
        self.transactions = BrokerTransactions(
            shared, self.metadata, coordinator_log, topics, producer_ids,
            lambda: (self.dispatcher, self.services.handlers),
        )  # fmt: skip
        return BrokerServices(
            node_id=shared.node_id,
            cluster_id=shared.cluster_id,
            config=config,
            clock=shared.clock,
            timers=shared.timers,
            metadata=self.metadata,
            logs=shared.logs,
            replicas=self.replicas,
            fetches=FetchPurgatory(
                sessions=FetchSessions(
                    slots=config.integer("max.incremental.fetch.session.cache.slots"),
                    random_source=shared.random_source,
                ),
                max_bytes=config.integer("fetch.max.bytes"),
                clock=shared.clock,
                timers=shared.timers,
                selector=replica_selector(config.optional_text("replica.selector.class")),
                leader_quota=replication_quota(config),
                max_lag_ms=config.integer("replica.lag.time.max.ms"),
            ),
            groups=GroupCoordinator(
                group_settings(config),
                writer=coordinator_log,
                reader=coordinator_log,
                cluster=self.metadata,
                topics=topics,
                clock=shared.clock,
                timers=shared.timers,
                random_source=shared.random_source,
                group_overrides=lambda group_id: self.metadata.image.configs.of(
                    ConfigResourceType.GROUP, group_id
                ),
            ),
            transactions=self.transactions.coordinator,
            first_writes=self.transactions.first_writes,
            coordinator_log=coordinator_log,
            topics=topics,
            lookups=Lookups(clock=shared.clock, work=self.long_work, threads=shared.threads.codecs),
            producer_ids=producer_ids,
            controller=controller,
            handlers=broker_handlers(),
            loggers=shared.surroundings.loggers,
            features=SUPPORTED_FEATURES,
            finalized_by_quorum=self._finalized_by_quorum,
            check_stores=shared.check_stores,
        )

    def _make_loader(self, channel: PeerChannel, others: Sequence[MetadataPublisher]) -> MetadataLoader:
        shared = self._shared
        configs = BrokerConfigPublisher(shared.config, shared.node_id)
        configs.on_config(self.replicas.configure)
        configs.on_config(self.followers.follow)
        configs.on_config(self._follow_rates)
        configs.on_config(lambda _, new: self.fetchers.resize(new.integer("num.replica.fetchers")))
        throttles = ThrottlesPublisher(
            shared.node_id, leader=self.services.fetches.replication.quota, follower=self.fetchers.quota
        )
        configs.on_config(throttles.configure)
        configs.on_config(lambda _, new: self.services.groups.configure(consumer_group_settings(new)))
        configs.on_config(lambda _, new: self.transactions.configure(new))
        replicas: ReplicasPublisher[LeaderChange] = ReplicasPublisher(self.replicas)
        replicas.on_leader_change(self._leader_changed)
        self.directories = DirectoryAssignments(
            shared.node_id, self.services.controller, shared.clock, shared.timers,
            broker_epoch=lambda: self.lifecycle.epoch, logs=shared.logs,
        )  # fmt: skip
        self.cordoned = CordonedDirectoriesPublisher(
            configs, shared.logs, lambda: self.lifecycle.cordoned_dirs_changed()
        )
        shared.logs.moves.on_moved = self._log_moved
        self.retries = LogRetries(
            self.replicas, shared.clock, shared.timers,
            on_leader_change=self._leader_changed, on_made=self._log_made,
        )  # fmt: skip
        return MetadataLoader(
            node_id=shared.node_id,
            cluster_id=shared.cluster_id,
            directory_id=shared.directory_id,
            channel=channel,
            clock=shared.clock,
            timers=shared.timers,
            publishers=(
                replicas.retirement,
                ClientQuotasPublisher(self.quotas, self.address_rates, self._quotas_changed),
                MetadataCachePublisher(self.metadata),
                RightsPublisher(self.services.fetches.sessions),
                configs,
                self.cordoned,
                replicas,
                BrokersPublisher(self.fetchers, *self.transactions.channels),
                throttles,
                self.directories,
                TopicChangesPublisher(self.services.groups, self.services.transactions),
                *others,
            ),
            is_registered=lambda offset: 0 <= self.lifecycle.epoch < offset,
            on_progress=self._metadata_advanced,
        )

    def _make_lifecycle(self, channel: PeerChannel, on_failure: Callable[[str], None]) -> BrokerLifecycle:
        shared, config = self._shared, self._shared.config
        identity = BrokerIdentity(
            node_id=shared.node_id,
            cluster_id=shared.cluster_id,
            endpoints=self.endpoints,
            features=SUPPORTED_FEATURES,
            log_dirs=[each.directory_id for each in shared.logs.directories if each.directory_id is not None],
            rack=config.optional_text("broker.rack"),
            previous_epoch=shared.previous_broker_epoch,
        )
        return BrokerLifecycle(
            identity,
            channel=channel,
            clock=shared.clock,
            timers=shared.timers,
            random_source=shared.random_source,
            metadata_offset=lambda: self.loader.offset,
            heartbeat_interval_ms=config.integer("broker.heartbeat.interval.ms"),
            session_timeout_ms=config.integer("broker.session.timeout.ms"),
            registration_timeout_ms=config.integer("initial.broker.registration.timeout.ms"),
            on_state=self._state_changed,
            on_failure=on_failure,
            on_registered=lambda: self.loader.look_again(),
            cordoned_dirs=self.cordoned.directory_ids,
        )

    # Start and readiness

    def reason_not_ready(self) -> str | None:
        """The reason for which clients should not connect to this broker, as its own image says; None if they
        may."""
        own = self.metadata.image.brokers.get(self._shared.node_id)
        if own is None:
            return "it is not registered in the cluster"
        if own.fenced:
            return "the controller has fenced it"
        return None

    def start(self) -> None:
        self.lifecycle.start()
        self.lifecycle.ready_to_unfence()
        self.loader.start()
        self.isr.start(self.replicas.by_name.values)

    def _metadata_advanced(self) -> None:
        if not self._knows_its_logs:
            self._knows_its_logs = True
            self._set_strays_aside()
        self._finalized_by_quorum[KRAFT_VERSION] = self._kraft_version()
        self.lifecycle.metadata_advanced()
        self._serve_when_known()
        own = self.metadata.image.brokers.get(self._shared.node_id)
        level = self.metadata.image.features.metadata_version
        if own is not None and not own.log_dirs and level >= DIRECTORIES_LEVEL:
            self.lifecycle.register_again()  # the level was raised to one that knows directories

    def _set_strays_aside(self) -> None:
        """Renames the logs on disk that the first image does not assign to this broker: their topics were
        deleted while it was down. An operator may remove them."""
        logs = self._shared.logs
        logs.set_rivals_aside()
        for log in logs.unclaimed():
            _log.warning("%s is not in the cluster's metadata any more and is set aside", log.name)
            try:
                logs.set_aside(log.topic, log.partition)
            except OSError as error:
                _log.error("%s could not be set aside: %s", log.name, error)

    def _state_changed(self, state: BrokerState) -> None:
        if state is BrokerState.RUNNING:
            self._serve_when_known()

    def _serve_when_known(self) -> None:
        """Starts the listeners when this broker's own image says that it is unfenced. Before that its
        Metadata answers would lack this broker, and some clients ask again only after half a minute."""
        own = self.metadata.image.brokers.get(self._shared.node_id)
        if self._serves or self.lifecycle.state is not BrokerState.RUNNING or own is None or own.fenced:
            return
        self._serves = True
        for acceptor in self.acceptors.values():
            acceptor.start()
        self._on_ready()

    def _leader_changed(self, change: LeaderChange) -> None:
        topic, index, leader_epoch, leads = change
        coordinator: GroupCoordinator | TransactionCoordinator
        if topic == GROUP_TOPIC:
            coordinator = self.services.groups
        elif topic == TRANSACTION_TOPIC:
            coordinator = self.services.transactions
        else:
            return
        if leads:
            coordinator.elected(index, leader_epoch)
        else:
            coordinator.resigned(index, leader_epoch)

    def _log_moved(self, key: tuple[str, int]) -> None:
        self.replicas.log_moved(*key)
        self.directories.changed(self.metadata.image, *key)

    def _log_made(self, key: tuple[str, int]) -> None:
        """A log was created, for which there was no space before."""
        self.directories.changed(self.metadata.image, *key)

    def _follow_rates(self, image: ClusterImage, config: BrokerConfig) -> None:
        rate = config.integer("replica.alter.log.dirs.io.max.bytes.per.second")
        self._shared.logs.moves.bytes_per_second = rate

    def _quotas_changed(self) -> None:
        """Without quotas nobody asks for them. Clients that have one now leave their fast lanes."""
        in_force = self.quotas or None
        self.dispatcher.throttle_by(in_force)
        self.services.fetches.client_quotas = self.quotas if self.quotas.limits_fetches else None
        self._shared.server.limits.address_rates = self.address_rates or None
        self.lane_epoch.bump()

    # Disks that fail

    def _log_went_offline(self, key: tuple[str, int], reason: str) -> None:
        change = self.replicas.log_went_offline(*key)
        if change is not None:
            self._leader_changed(change)
        self.directories.changed(self.metadata.image, *key)

    def _directory_failed(self, failed: FailedDirectory, keys: list[tuple[str, int]]) -> None:
        """Reports the directory to the controller. The process ends if it holds the metadata log, or is the
        last one."""
        shared = self._shared
        _log.warning("%d partitions went offline with log directory %s", len(keys), failed.path)
        if failed.path == shared.metadata_directory:
            shared.surroundings.halt(f"Shutdown broker because the metadata log dir {failed.path} has failed")
        if not shared.logs.directories:
            paths = ", ".join(shared.config.log_directories)
            shared.surroundings.halt(f"Shutdown broker because all log dirs in {paths} have failed")
        if failed.directory_id is not None:
            timeout_ms = shared.config.integer("log.dir.failure.timeout.ms")
            self.lifecycle.directory_failed(failed.directory_id, timeout_ms)

    def answer_all(self) -> None:
        """Answers all waiting requests with what there is, because the broker stops."""
        self.services.fetches.answer_all()
        self.services.groups.close()
        self.services.transactions.close()

    def close(self) -> None:
        self.isr.stop()
        self.alter_partitions.close()
        self.fetchers.close()
        self.transactions.close()
        self.lifecycle.stop()
        self.loader.stop()
        self.retries.stop()


def client_quotas(shared: SharedServer) -> ClientQuotas:
    """The quotas of clients, which limit nobody before the metadata say so."""
    window_ms = shared.config.integer("quota.window.size.seconds") * 1_000
    windows = shared.config.integer("quota.window.num")
    return ClientQuotas(shared.clock, window_ms=window_ms, windows=windows)


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The group coordinator's settings, from the broker's configuration."""
    return GroupSettings(
        group_min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        group_max_size=config.integer("group.max.size"),
        # Kafka takes a delay below zero, too, and its timer does not wait then.
        group_initial_rebalance_delay_ms=max(config.integer("group.initial.rebalance.delay.ms"), 0),
        offset_metadata_max_characters=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        offsets_commit_timeout_ms=config.integer("offsets.commit.timeout.ms"),
        offsets_load_buffer_bytes=config.integer("offsets.load.buffer.size"),
        offsets_topic_partition_count=config.integer("offsets.topic.num.partitions"),
        consumer=consumer_group_settings(config),
    )


def consumer_group_settings(config: BrokerConfig) -> ConsumerGroupSettings:
    """The settings of consumer groups, from the broker's configuration."""
    return ConsumerGroupSettings(
        group_consumer_max_size=config.integer("group.consumer.max.size"),
        group_consumer_assignors=config.consumer_group_assignors,
        group_consumer_migration_policy=config.text("group.consumer.migration.policy"),
        group_consumer_regex_refresh_interval_ms=config.integer("group.consumer.regex.refresh.interval.ms"),
        group_consumer_session_timeout_ms=config.integer("group.consumer.session.timeout.ms"),
        group_consumer_min_session_timeout_ms=config.integer("group.consumer.min.session.timeout.ms"),
        group_consumer_max_session_timeout_ms=config.integer("group.consumer.max.session.timeout.ms"),
        group_consumer_heartbeat_interval_ms=config.integer("group.consumer.heartbeat.interval.ms"),
        group_consumer_min_heartbeat_interval_ms=config.integer("group.consumer.min.heartbeat.interval.ms"),
        group_consumer_max_heartbeat_interval_ms=config.integer("group.consumer.max.heartbeat.interval.ms"),
        group_consumer_assignment_interval_ms=config.integer("group.consumer.assignment.interval.ms"),
        group_consumer_min_assignment_interval_ms=config.integer("group.consumer.min.assignment.interval.ms"),
        group_consumer_max_assignment_interval_ms=config.integer("group.consumer.max.assignment.interval.ms"),
    )
