"""A node, put together from its config and its surroundings. Only this and `broker.server` know everything.

What lies outside the node comes as one object (`broker.ports.surroundings`); neither this module nor anything
that it imports makes a clock, a file, a thread or a socket by itself.

A node has the roles that process.roles gives it. Each node has a replica of the metadata log: a controller's
may vote, that of a node that is a broker alone observes the quorum.

The start does this, in order: it locks the log directories and opens the logs; it opens the metadata log, and
the listener of a controller; it opens the broker's listeners, whose ports are known then. When the loop runs
the controllers elect a leader, and the broker registers with it, follows the metadata log, makes its
partitions and is unfenced. Then the node is ready.

The end does this, in order: a broker takes no new connections, and asks the active controller for a
controlled shutdown; a controller that leads the quorum resigns, and stays until another one leads; requests
that wait are answered; all roles stop; logs, checkpoints and the marker of a clean shutdown are written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from broker.admin.pages import Pages
from broker.controller_channel.lifecycle import NO_EPOCH, BrokerState
from broker.metrics.log_families import log_collector
from broker.metrics.loop_health import LoopHealth, next_second_ms, slow_turn_family
from broker.metrics.network_families import network_collector
from broker.metrics.purgatory_families import purgatory_collector
from broker.metrics.quorum_families import (
    FollowsTheLog,
    broker_metadata_collector,
    controller_collector,
    replica_of_quorum_collector,
)
from broker.metrics.replica_families import coordinator_families, replica_collector
from broker.metrics.request_families import request_collector
from broker.policies.process import PolicyNotLoaded
from broker.ports.surroundings import PageServer, Surroundings
from broker.scheduling.idle_work import IdleWork, codec_imports
from broker.server.broker_server import BrokerServer
from broker.server.controller_server import ControllerServer
from broker.server.observer_server import ObserverServer
from broker.server.shared_server import SharedServer
from config.broker_config import BrokerConfig
from config.listeners import address_text
from controller.metadata.log_opening import OtherVoters
from controller.metadata.supported_features import UnsupportedCluster
from storage.directories import DirectoryRefused
from storage.errors import LogStorageError

_log = logging.getLogger("barnabas.node")

CONTROLLED_SHUTDOWN_MS: Final = 300_000
"""The time for which a broker waits until the controller has moved its leaderships away; it is Kafka's."""
CONTROLLER_SILENCE_MS: Final = 5_000
"""The time for which it waits for a controller that does not answer at all."""
RESIGNATION_MS: Final = 5_000
DRAIN_MS: Final = 5_000
BEHIND_MS: Final = 100
"""The time until housekeeping is called again when retention has not deleted all that it should."""


class StartFailed(Exception):
    """The node cannot start; the text is one line for the operator."""


class Node:
    """A node: a broker, a controller, or both, as its roles say.

    on_ready: is given the line that announces the node when it is ready. on_stopped: is called once, when the
    loop may end.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        config: BrokerConfig,
        cluster_id: str,
        *,
        on_ready: Callable[[str], None],
        on_stopped: Callable[[], None],
    ) -> None:
        self.is_stopping = False
        self.failure = ""
        """The reason for which the node stops, if it cannot do its work; empty if it was told to stop."""
        self._surroundings = surroundings
        self._config = config
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        self._shared = SharedServer(surroundings, config, cluster_id)
        self.replica: ControllerServer | ObserverServer | None = None
        """The replica of the metadata log."""
        self.broker: BrokerServer | None = None
        self._admin: PageServer | None = None
        self._health = LoopHealth(self._shared.clock, self._shared.timers, surroundings.stalls.ran_ns)
        self._pauses = surroundings.collector_pauses
        self._idle_work = IdleWork(self._shared.clock, self._shared.timers, codec_imports())
        self._watchdog = surroundings.watch_loop(lambda: self._shared.current_request.context)

    @property
    def has_failed(self) -> bool:
        """It stops because it cannot do its work, and not because it was told to."""
        return bool(self.failure)

    # Start

    def start(self) -> None:
        """Opens everything; `on_ready` follows when the loop runs. Raises StartFailed and OSError."""
        shared = self._shared
        try:
            shared.prepare_to_connect(self._config)
            report = shared.open_directories()
            if report.logs:
                _log.info(
                    "Opened %d logs, looked through %d segments, cut %d bytes of torn tails",
                    report.logs,
                    report.scanned_segments,
                    report.cut_bytes,
                )
            replica: ControllerServer | ObserverServer
            replica = ControllerServer(shared) if self._config.is_controller else ObserverServer(shared)
            self.replica = replica
            if self._config.is_broker:
                self.broker = BrokerServer(
                    shared,
                    replica.channel,
                    kraft_version=lambda: replica.log.kraft_version,
                    publishers=[replica] if isinstance(replica, ObserverServer) else [],
                    on_ready=self._ready,
                    on_failure=self._failed,
                )
            replica.start()
        except (
            DirectoryRefused,
            LogStorageError,
            UnsupportedCluster,
            OtherVoters,
            PolicyNotLoaded,
        ) as failure:
            raise StartFailed(str(failure)) from failure
        self._observe(replica, self.broker)
        if self.broker is not None:
            self._shared.health.register("broker", self.broker.reason_not_ready, for_readiness_only=True)
            self.broker.start()
        else:
            shared.timers.call_soon(self._ready)
        self._arm_housekeeping()

    def _observe(self, replica: ControllerServer | ObserverServer, broker: BrokerServer | None) -> None:
        collectors = self._shared.collectors
        requests = []
        if broker is not None:
            requests.append(broker.dispatcher.metrics)
            replicas, fetches = broker.replicas, broker.services.fetches
            collectors.register(
                replica_collector(replicas, broker.isr, broker.lifecycle, fetches.replication)
            )
            collectors.register(log_collector(replicas, self._shared.logs))
            collectors.register(purgatory_collector(replicas, fetches))
            services = broker.services
            collectors.register(partial(coordinator_families, services.groups, services.transactions))
        if isinstance(replica, ControllerServer):
            requests.append(replica.dispatcher.metrics)
        self._observe_metadata(replica, broker)
        collectors.register(request_collector(requests, self._queued_requests))
        for each in requests:
            self._health.at_window_end(each.end_window)
        collectors.register(network_collector(self._shared.server, self._shared.authentication.gates))
        collectors.register(self._health.collect)
        collectors.register(self._pauses.collect)
        collectors.register(lambda: iter([slow_turn_family(self._watchdog.slow_turns)]))
        self._health.start()
        self._pauses.install()
        self._watchdog.start()
        address = self._config.admin_listener
        if address is not None:
            self._admin = self._surroundings.serve_pages(Pages(self._shared.health, collectors))
            self._admin.open(*address)

    def _observe_metadata(
        self, replica: ControllerServer | ObserverServer, broker: BrokerServer | None
    ) -> None:
        collectors, clock, log = self._shared.collectors, self._shared.clock, replica.log
        has_static_voters = bool(self._config.quorum_voters)
        followers: list[FollowsTheLog] = []
        if isinstance(replica, ControllerServer):
            controller = replica.controller
            followers.append(controller)
            collectors.register(
                controller_collector(log, controller, clock, ignores_static_voters=has_static_voters)
            )
        if broker is not None:
            followers.append(broker.loader)
            collectors.register(
                broker_metadata_collector(log, broker.loader, clock, ignores_static_voters=has_static_voters)
            )
        collectors.register(
            replica_of_quorum_collector(log, followers[0], clock, lambda: self._health.idle_ratio)
        )

    def _queued_requests(self) -> int:
        return self._shared.lane.queued + self._shared.server.interrupted

    def _ready(self) -> None:
        if self.replica is None or self.is_stopping:
            return
        self._shared.health.set_ready()
        parts = []
        if self.broker is not None:
            parts.append(f"serves {_addresses(self.broker.endpoints)}")
            self._shared.timers.call_soon(self.broker.dispatcher.routes.warm)
            self._idle_work.start()
        if isinstance(self.replica, ControllerServer):
            parts.append(f"controller {_addresses(self.replica.acceptors)}")
        self._on_ready(f"Barnabas is ready: node {self._config.node_id} {'; '.join(parts)}")

    @property
    def client_address(self) -> str:
        """The address of the first listener, as it is typed into a client; empty for a controller alone."""
        first = None if self.broker is None else next(iter(self.broker.endpoints.values()), None)
        return "" if first is None else address_text(first.host, first.port)

    def _failed(self, sentence: str) -> None:
        _log.error("%s", sentence)
        self.failure = sentence
        self.stop()

    def _housekeep(self) -> None:
        if self.is_stopping:
            return
        self._arm_housekeeping(is_behind=self._shared.logs.housekeeping())

    def _arm_housekeeping(self, *, is_behind: bool = False) -> None:
        now_ms = self._shared.clock.monotonic_ms()
        due_ms = now_ms + BEHIND_MS if is_behind else next_second_ms(now_ms)
        self._shared.timers.call_at(due_ms, self._housekeep)

    # End

    def stop(self) -> None:
        """Begins a graceful stop; `on_stopped` is called at its end.

        The listeners stay open until the controller lets the broker go, as in Apache Kafka: the others must
        reach it to copy what it leads, and to move its leaders if it is the active controller itself.
        """
        if self.is_stopping:
            return
        self.is_stopping = True
        self._shared.health.set_not_ready("the broker is shutting down")
        if self.broker is None:
            self._resign()
            return
        if self.broker.lifecycle.state is BrokerState.SHUTTING_DOWN:
            self._resign()
            return
        self.broker.replicas.begin_controlled_shutdown()
        self.broker.lifecycle.begin_controlled_shutdown(
            CONTROLLED_SHUTDOWN_MS, self._may_go, silence_ms=CONTROLLER_SILENCE_MS
        )

    def _may_go(self, agreed: bool) -> None:
        if not agreed:
            _log.warning("The controller did not agree to the shutdown in time; stopping all the same")
        self._resign()

    def _resign(self) -> None:
        if self.replica is None:
            self._drain()
        else:
            self.replica.resign(RESIGNATION_MS, self._drain)

    def _drain(self) -> None:
        self._shared.server.stop()
        deadline_ms = self._shared.clock.monotonic_ms() + DRAIN_MS
        self._shared.server.drain(deadline_ms, lambda _cut: self._silence())
        if self.broker is not None:
            self.broker.answer_all()

    def _silence(self) -> None:
        """Stops all roles; then the loop may end."""
        if self.broker is not None:
            self.broker.close()
        if self.replica is not None:
            self.replica.shut_down()
        if self._admin is not None:
            self._admin.close()
        self._watchdog.stop()
        self._idle_work.stop()
        self._pauses.remove()
        self._health.stop()
        self._on_stopped()

    def _last_broker_epoch(self) -> int:
        """That of the registration after which the logs were last changed: a life that ends before it has
        registered has changed nothing, and the end in order of the life before it still counts (KIP-966)."""
        epoch = NO_EPOCH if self.broker is None else self.broker.lifecycle.epoch
        return self._shared.previous_broker_epoch if epoch == NO_EPOCH else epoch

    def close(self) -> None:
        """Writes everything to the disk, and the marker of a clean shutdown. Called after the loop has
        ended."""
        if self.replica is not None:
            self.replica.close_policies()
        self._surroundings.close()
        if self.replica is not None:
            self.replica.close()
        self._shared.close_directories(self._last_broker_epoch())
        _log.info("Stopped")


class _Address(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def _addresses(listeners: Mapping[str, _Address]) -> str:
    """The listeners as the line of readiness names them."""
    return ", ".join(f"{name}://{address_text(each.host, each.port)}" for name, each in listeners.items())
