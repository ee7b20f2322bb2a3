"""The controller's part of a node: its replica of the metadata log, the quorum controller, its listeners."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.controller_channel.peer.to_leader import LeaderPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.metrics.quota_families import mutation_collector
from broker.network.interfaces import Listener
from broker.policies.process import configured_policies
from broker.quotas.throttle import AsTold
from broker.security.authorizer import configured_authorizer
from broker.server.connection_limits import address_rates, controller_limits
from broker.server.quorum import LeaderChannels, open_metadata_log, quorum_channel
from broker.server.shared_server import SharedServer
from controller.format import read_bootstrap_records
from controller.handler_table import controller_handlers
from controller.metadata.client_quotas import limits_of_addresses
from controller.metadata.image.quotas import QuotasImage
from controller.quorum_controller import QuorumController
from controller.registration import FollowerRegistration
from controller.services import ControllerServices
from protocol.scram import ScramCredential, ScramMechanism


class ControllerServer:
    """The controller of a node. It is made after the log directories are locked, and serves when it is
    started and the loop runs."""

    def __init__(self, shared: SharedServer) -> None:
        self._config = config = shared.config
        self._waiting: list[Listener] = []
        self.handlers = controller_handlers()
        self.policies = configured_policies(shared.surroundings, config)
        self._limits = controller_limits(config)
        self._address_rates = address_rates(config)
        self.acceptors = shared.listen(config.controller_listeners, self._limits)
        endpoints = shared.advertised(config.advertised_controller_listeners, self.acceptors)
        self.log = open_metadata_log(shared, endpoints)
        self.controller = QuorumController(
            node_id=shared.node_id,
            cluster_id=shared.cluster_id,
            log=self.log,
            config=config,
            clock=shared.clock,
            timers=shared.timers,
            random_source=shared.random_source,
            bootstrap_records=read_bootstrap_records(config, shared.files),
            endpoints=endpoints,
        )
        self.controller.on_image(lambda image, delta: self._start_waiting())
        self._quotas = QuotasImage()
        self.controller.on_image(lambda image, delta: self._follow_quotas(image.quotas))
        services = ControllerServices(
            node_id=shared.node_id,
            cluster_id=shared.cluster_id,
            config=config,
            clock=shared.clock,
            timers=shared.timers,
            controller=self.controller,
            log=self.log,
            handlers=self.handlers,
            loggers=shared.surroundings.loggers,
            policies=self.policies,
        )
        mutations = services.mutations
        shared.collectors.register(mutation_collector(lambda: mutations.tokens(shared.clock.monotonic_ms())))
        self.dispatcher = Dispatcher(
            self.handlers,
            services,
            clock=shared.clock,
            authorizer=configured_authorizer(
                config, lambda: self.controller.image.acls, lambda: self.log.is_caught_up
            ),
            lane=shared.lane,
            current=shared.current_request,
        )
        for endpoint in config.controller_listeners:
            service = shared.authentication.guarded(endpoint, config, self.dispatcher, self._credential)
            shared.server.serve(endpoint.listener, service)
        self.registration = FollowerRegistration(
            self.controller,
            lambda: self.log.leader_address,
            partial(quorum_channel, shared),
            shared.clock,
            shared.timers,
        )
        listener = next(iter(self.acceptors))
        self._channels = LeaderChannels(shared, self.log, self.dispatcher, self.handlers, listener)

    def _credential(self, mechanism: ScramMechanism, user: str) -> tuple[ScramCredential | None, int]:
        return self.controller.image.scram.look_up(mechanism.type, user)

    def start(self) -> None:
        """Starts the replica; a single voter leads when this returns. Raises UnsupportedCluster."""
        self.log.start()
        self.controller.start()
        self.registration.start()
        early = self._config.early_start_listeners if self._config.has_authorizer else self.acceptors
        for name, acceptor in self.acceptors.items():
            if name in early:
                acceptor.start()
            else:
                self._waiting.append(acceptor)
        self._start_waiting()

    def _follow_quotas(self, quotas: QuotasImage) -> None:
        """Has the quotas hold here: an address opens no more connections than it may, and who is told a
        throttle time is not heard for so long."""
        if quotas is self._quotas:
            return
        self._quotas = quotas
        self._address_rates.follow(limits_of_addresses(quotas))
        self._limits.address_rates = self._address_rates or None
        self.dispatcher.throttle_by(AsTold() if quotas.by_entity else None)

    def _start_waiting(self) -> None:
        """Starts the listeners that wait until the access control entries are loaded (early.start.listeners).
        A replica that has caught up is told so with the next record at the latest."""
        if self.log.is_caught_up:
            for acceptor in self._waiting:
                acceptor.start()
            self._waiting.clear()

    def channel(self, client_id: str) -> LeaderPeer:
        """A channel to the active controller for the broker of this node. A request that waits long needs a
        channel of its own."""
        return self._channels.channel(client_id)

    def resign(self, timeout_ms: int, then: Callable[[], None]) -> None:
        """Resigns, if this replica leads the quorum, and calls `then` when another one leads or the time is
        over."""
        self.log.resign_and_stop(timeout_ms, then)

    def shut_down(self) -> None:
        self.registration.stop()
        self.controller.shut_down()

    def close_policies(self) -> None:
        """Ends the policies' process. Called after the loop has ended, and before the helper threads are
        ended: one of them may be waiting for a verdict."""
        if self.policies is not None:
            self.policies.close()

    def close(self) -> None:
        """Closes the metadata log. Called after the loop and the helper threads have ended."""
        self.log.shut_down()
