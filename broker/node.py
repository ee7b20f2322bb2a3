"""A node, put together from its config and its surroundings. Only this and `broker.server` know everything.

What lies outside the node comes as one object (`broker.ports.surroundings`); neither this module nor anything
that it imports makes a clock, a file, a thread or a socket by itself.

The start does this, in order: it locks the log directories and opens the logs; it opens the controller's
listener and the metadata log; it opens the broker's listeners, whose ports are known then. When the loop runs
the controller is elected, and the broker registers, follows the metadata log, makes its partitions and is
unfenced. Then the node is ready.

The end does this, in order: a broker takes no new connections, and asks the controller for a controlled
shutdown; a controller that leads the quorum resigns, and stays until another one leads; requests that wait
are answered; both roles stop; logs, checkpoints and the marker of a clean shutdown are written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.admin.pages import Pages
from broker.controller_channel.lifecycle import BrokerState
from broker.metrics.loop_health import LoopHealth, next_second_ms, slow_turn_family
from broker.metrics.network_families import network_collector
from broker.metrics.quorum_families import quorum_collector
from broker.metrics.replica_families import coordinator_families, replica_collector
from broker.metrics.request_families import request_collector
from broker.policies.process import PolicyNotLoaded
from broker.ports.surroundings import PageServer, Surroundings
from broker.scheduling.idle_work import IdleWork, codec_imports
from broker.server.broker_server import BrokerServer
from broker.server.controller_server import ControllerServer
from broker.server.shared_server import SharedServer
from config.broker_config import BrokerConfig
from config.listeners import address_text
from controller.metadata.log_opening import OtherVoters
from controller.metadata.supported_features import UnsupportedCluster
from protocol.serving.request_context import RequestContext
from storage.directories import DirectoryRefused
from storage.errors import LogStorageError

_log = logging.getLogger("barnabas.node")

CONTROLLED_SHUTDOWN_MS: Final = 5_000
RESIGNATION_MS: Final = 5_000
DRAIN_MS: Final = 5_000
BEHIND_MS: Final = 100
"""Until the next look at the logs when retention has not let go of all that it should."""


class StartFailed(Exception):
    """The node cannot start; the text is one line for the operator."""


class Node:
    """A node: a controller, and a broker too if its roles say so.

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
        if not config.is_controller:
            raise StartFailed(
                "process.roles must contain controller: this release has no brokers that are brokers alone"
            )
        self.is_stopping = False
        self._surroundings = surroundings
        self._config = config
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        self._shared = SharedServer(surroundings, config, cluster_id)
        self._controller: ControllerServer | None = None
        self._broker: BrokerServer | None = None
        self._admin: PageServer | None = None
        self._health = LoopHealth(self._shared.clock, self._shared.timers, surroundings.stalls.ran_ns)
        self._pauses = surroundings.collector_pauses
        self._idle_work = IdleWork(self._shared.clock, self._shared.timers, codec_imports())
        self._watchdog = surroundings.watch_loop(self._current_request)

    # Start

    def start(self) -> None:
        """Opens everything; `on_ready` follows when the loop runs. Raises StartFailed and OSError."""
        shared = self._shared
        try:
            report = shared.open_directories()
            if report.logs:
                _log.info(
                    "Opened %d logs, looked through %d segments, cut %d bytes of torn tails",
                    report.logs,
                    report.scanned_segments,
                    report.cut_bytes,
                )
            self._controller = ControllerServer(shared)
            if self._config.is_broker:
                self._broker = BrokerServer(
                    shared,
                    self._controller.channel,
                    kraft_version=self._controller.log.kraft_version,
                    on_ready=self._ready,
                    on_failure=self._failed,
                )
            self._controller.start()
        except (
            DirectoryRefused,
            LogStorageError,
            UnsupportedCluster,
            OtherVoters,
            PolicyNotLoaded,
        ) as failure:
            raise StartFailed(str(failure)) from failure
        self._observe(self._controller, self._broker)
        if self._broker is not None:
            self._broker.start()
        else:
            shared.timers.call_soon(self._ready)
        self._arm_housekeeping()

    def _observe(self, controller: ControllerServer, broker: BrokerServer | None) -> None:
        collectors = self._shared.collectors
        requests = [controller.dispatcher.metrics]
        if broker is not None:
            requests.insert(0, broker.dispatcher.metrics)
            collectors.register(replica_collector(broker.replicas, broker.lifecycle))
            collectors.register(partial(coordinator_families, broker.services.groups))
        collectors.register(
            quorum_collector(
                controller.log,
                controller.controller,
                self._shared.clock,
                lambda: self._health.idle_ratio,
                ignores_static_voters=bool(self._config.quorum_voters),
            )
        )
        collectors.register(request_collector(requests))
        collectors.register(network_collector(self._shared.server))
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

    def _current_request(self) -> RequestContext | None:
        return None if self._broker is None else self._broker.dispatcher.current

    def _ready(self) -> None:
        if self._controller is None or self.is_stopping:
            return
        self._shared.health.set_ready()
        controller = [
            f"{name}://{address_text(each.host, each.port)}"
            for name, each in self._controller.acceptors.items()
        ]
        serves = ""
        if self._broker is not None:
            broker = [
                f"{name}://{address_text(each.host, each.port)}"
                for name, each in self._broker.endpoints.items()
            ]
            serves = f" serves {', '.join(broker)};"
            self._shared.timers.call_soon(self._broker.dispatcher.routes.warm)
            self._idle_work.start()
        self._on_ready(
            f"Barnabas is ready: node {self._config.node_id}{serves} controller {', '.join(controller)}"
        )

    @property
    def client_address(self) -> str:
        """The address of the first listener, as it is typed into a client; empty for a controller alone."""
        first = None if self._broker is None else next(iter(self._broker.endpoints.values()), None)
        return "" if first is None else address_text(first.host, first.port)

    def _failed(self, sentence: str) -> None:
        _log.error("%s", sentence)
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
        """Begins a graceful stop; `on_stopped` is called at its end."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self._shared.health.set_not_ready("the broker is shutting down")
        if self._broker is None:
            self._resign()  # its successor may need a connection to it
            return
        self._shared.server.stop()
        if self._broker.lifecycle.state is BrokerState.SHUTTING_DOWN:
            self._resign()
            return
        self._broker.lifecycle.begin_controlled_shutdown(CONTROLLED_SHUTDOWN_MS, self._may_go)

    def _may_go(self, agreed: bool) -> None:
        if not agreed:
            _log.warning("The controller did not agree to the shutdown in time; stopping all the same")
        self._resign()

    def _resign(self) -> None:
        if self._controller is None:
            self._drain()
        else:
            self._controller.resign(RESIGNATION_MS, self._drain)

    def _drain(self) -> None:
        self._shared.server.stop()
        deadline_ms = self._shared.clock.monotonic_ms() + DRAIN_MS
        self._shared.server.drain(deadline_ms, lambda _cut: self._silence())
        if self._broker is not None:
            self._broker.answer_all()

    def _silence(self) -> None:
        """Stops both roles; then the loop may end."""
        if self._broker is not None:
            self._broker.close()
        if self._controller is not None:
            self._controller.shut_down()
        if self._admin is not None:
            self._admin.close()
        self._watchdog.stop()
        self._idle_work.stop()
        self._pauses.remove()
        self._health.stop()
        self._on_stopped()

    def close(self) -> None:
        """Writes everything to the disk, and the marker of a clean shutdown. Called after the loop has
        ended."""
        if self._controller is not None:
            self._controller.close_policies()
        self._surroundings.close()
        if self._controller is not None:
            self._controller.close()
        epoch = -1 if self._broker is None else self._broker.lifecycle.epoch
        self._shared.close_directories(epoch)
        _log.info("Stopped")
