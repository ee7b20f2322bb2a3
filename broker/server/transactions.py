"""The transactions of a broker, put together: its coordinator, and what it asks other brokers.

    as a coordinator   WriteTxnMarkers to the leaders of an ended transaction's partitions
    as a leader        AddPartitionsToTxn to the coordinator of a transaction that begins on a partition

Each of the two has a channel of its own to every broker that it asks, made with the first request: a marker
may wait long for its replicas, and producers must not wait behind it. A broker is reached at the address that
it has registered for the inter-broker listener; when that changes a new channel takes the place of the old
one. What is for this broker itself goes through its own dispatcher, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from broker.controller_channel.peer.in_process import InProcessPeer
from broker.coordinator.ports import InternalTopics
from broker.coordinator.transaction.first_writes import FirstWrites
from broker.coordinator.transaction.partition_verification import PartitionVerification, VerificationSettings
from broker.coordinator.transaction.transaction_coordinator import (
    TRANSACTION_TOPIC,
    ProducerIdSource,
    TransactionCoordinator,
)
from broker.coordinator.transaction.transaction_markers import NO_LEADER
from broker.coordinator.transaction.transaction_operation import TransactionSettings
from broker.metadata.cache import MetadataCache
from broker.network.interfaces import Service
from broker.replication.coordinator_log import CoordinatorLog
from broker.server.quorum import connect_to_broker
from broker.server.shared_server import SharedServer
from config.broker_config import BrokerConfig
from config.ports import Timers
from controller.metadata.image.features import TRANSACTION_VERSION
from protocol.codec.message import Message
from protocol.peer_channel import PeerChannel, PeerError
from protocol.serving.handler_table import HandlerTable

__all__ = [
    "BrokerChannels",
    "BrokerTransactions",
    "transaction_settings",
    "verification_settings",
]

VERIFICATION: Final = "verification"
MARKERS: Final = "markers"


class ClosableChannel(PeerChannel, Protocol):
    """A channel to one broker."""

    def close_channel(self) -> None: ...


class Addresses(Protocol):
    """What is needed of the connections of a node."""

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """The address at which a broker listens for the others; None while it is not known."""
        ...

    def connect(self, host: str, port: int) -> ClosableChannel: ...

    def here(self) -> ClosableChannel:
        """A channel to this broker itself."""
        ...


class BrokerChannels:
    """Implements `broker.coordinator.transaction.transaction_markers.BrokerChannel`."""

    def __init__(self, node_id: int, addresses: Addresses, timers: Timers, *, timeout_ms: int) -> None:
        self._node_id = node_id
        self._addresses = addresses
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._channels: dict[int, tuple[tuple[str, int] | None, ClosableChannel]] = {}
        """The channel to each broker, with the address to which it leads; None for this broker."""

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message | None], None]) -> None:
        channel = self._channel(broker_id)
        if channel is None:
            self._timers.call_soon(partial(on_response, None))
            return

        def take(response: Message | PeerError) -> None:
            on_response(None if isinstance(response, PeerError) else response)

        channel.send(request, take, timeout_ms=self._timeout_ms)

    def _channel(self, broker_id: int) -> ClosableChannel | None:
        if broker_id == self._node_id:
            if broker_id not in self._channels:
                self._channels[broker_id] = (None, self._addresses.here())
            return self._channels[broker_id][1]
        address = self._addresses.address(broker_id)
        known = self._channels.get(broker_id)
        if known is not None and known[0] == address:
            return known[1]
        if known is not None:
            self._drop(broker_id)
        if address is None:
            return None
        channel = self._addresses.connect(*address)
        self._channels[broker_id] = (address, channel)
        return channel

    def brokers_changed(self) -> None:
        """Closes the channels to brokers that are gone, or listen elsewhere now, because they will not
        answer."""
        for broker_id, (address, _) in list(self._channels.items()):
            if broker_id != self._node_id and self._addresses.address(broker_id) != address:
                self._drop(broker_id)

    def _drop(self, broker_id: int) -> None:
        _, channel = self._channels.pop(broker_id)
        self._timers.call_soon(channel.close_channel)

    def close(self) -> None:
        for broker_id in list(self._channels):
            self._drop(broker_id)


class NodeAddresses:
    """Implements `Addresses` for one purpose, which is in the names of its connections.

    serve: returns what serves requests to this broker itself, and its handlers; it is called when the first
    request comes.
    """

    def __init__(
        self,
        shared: SharedServer,
        metadata: MetadataCache,
        purpose: str,
        serve: Callable[[], tuple[Service, HandlerTable]],
    ) -> None:
        self._shared = shared
        self._metadata = metadata
        self._listener = shared.config.inter_broker_listener_name
        self._client_id = f"broker-{shared.node_id}-transaction-{purpose}"
        self._serve = serve

    def address(self, broker_id: int) -> tuple[str, int] | None:
        registration = self._metadata.image.brokers.get(broker_id)
        endpoint = None if registration is None else registration.endpoints.get(self._listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def connect(self, host: str, port: int) -> ClosableChannel:
        return connect_to_broker(self._shared, host, port, self._client_id)

    def here(self) -> ClosableChannel:
        shared = self._shared
        service, handlers = self._serve()
        return InProcessPeer(
            service,
            handlers,
            memory=shared.memory,
            clock=shared.clock,
            timers=shared.timers,
            client_id=self._client_id,
            listener=self._listener,
            principal=None if shared.broker_login is None else shared.broker_login.principal,
        )


class _Leaders:
    """Knows leaders and coordinators by the metadata image."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.partition_for: Callable[[str], int] = lambda _: 0

    def leader(self, topic: str, index: int) -> int | None:
        entry = self._metadata.partition(topic, index)
        return None if entry is None else entry.leader

    def coordinator(self, transactional_id: str) -> int | None:
        leader = self.leader(TRANSACTION_TOPIC, self.partition_for(transactional_id))
        return NO_LEADER if leader is None else leader


class BrokerTransactions:
    """All that a broker has for transactions. serve: see `NodeAddresses`."""

    def __init__(
        self,
        shared: SharedServer,
        metadata: MetadataCache,
        log: CoordinatorLog,
        topics: InternalTopics,
        producer_ids: ProducerIdSource,
        serve: Callable[[], tuple[Service, HandlerTable]],
    ) -> None:
        config, clock, timers = shared.config, shared.clock, shared.timers
        leaders = _Leaders(metadata)
        channels: Mapping[str, BrokerChannels] = {
            purpose: BrokerChannels(
                shared.node_id,
                NodeAddresses(shared, metadata, purpose, serve),
                timers,
                timeout_ms=config.integer("request.timeout.ms"),
            )
            for purpose in (MARKERS, VERIFICATION)
        }
        self.channels = tuple(channels.values())
        self.coordinator = TransactionCoordinator(
            transaction_settings(config),
            writer=log,
            reader=log,
            cluster=metadata,
            topics=topics,
            clock=clock,
            timers=timers,
            producer_ids=producer_ids,
            server_version=lambda: metadata.image.features.level(TRANSACTION_VERSION),
            leaders=leaders,
            channel=channels[MARKERS],
        )
        leaders.partition_for = self.coordinator.partition_for
        verification = PartitionVerification(
            verification_settings(config),
            coordinators=leaders,
            channel=channels[VERIFICATION],
            clock=clock,
            timers=timers,
        )
        self.first_writes = FirstWrites(verification, clock, is_enabled=_is_enabled(config))

    def configure(self, config: BrokerConfig) -> None:
        """Takes over a changed configuration of the broker."""
        self.first_writes.is_enabled = _is_enabled(config)

    def close(self) -> None:
        for each in self.channels:
            each.close()


def _is_enabled(config: BrokerConfig) -> bool:
    return config.flag("transaction.partition.verification.enable")


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """The transaction coordinator's settings, from the broker's configuration."""
    return TransactionSettings(
        transaction_max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        transaction_abort_timed_out_transaction_cleanup_interval_ms=config.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=config.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        transaction_two_phase_commit_enable=config.flag("transaction.two.phase.commit.enable"),
        transaction_state_log_num_partitions=config.integer("transaction.state.log.num.partitions"),
        transaction_state_log_load_buffer_size=config.integer("transaction.state.log.load.buffer.size"),
    )


def verification_settings(config: BrokerConfig) -> VerificationSettings:
    """The settings by which a leader asks coordinators, from the broker's configuration."""
    return VerificationSettings(
        add_partitions_to_txn_retry_backoff_ms=config.integer("add.partitions.to.txn.retry.backoff.ms"),
        add_partitions_to_txn_retry_backoff_max_ms=config.integer(
            "add.partitions.to.txn.retry.backoff.max.ms"
        ),
        request_timeout_ms=config.integer("request.timeout.ms"),
    )
