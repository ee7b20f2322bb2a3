"""The controller's part of a node: its replica of the metadata log, the quorum controller, its listeners."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.controller_channel.peer.in_process import InProcessPeer
from broker.controller_channel.peer.tcp import TcpPeer
from broker.controller_channel.peer.to_leader import LeaderPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.policies.process import configured_policies
from broker.server.shared_server import SharedServer
from controller.format import read_bootstrap_records
from controller.handler_table import controller_handlers
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.log import NO_LEADER
from controller.metadata.log_opening import open_replica, raft_config
from controller.quorum_controller import QuorumController
from controller.registration import FollowerRegistration
from controller.services import ControllerServices


class ControllerServer:
    """Is made after the log directories are locked. It serves when it is started and the loop runs."""

    def __init__(self, shared: SharedServer) -> None:
        config = shared.config
        self._shared = shared
        self.handlers = controller_handlers()
        self.policies = configured_policies(shared.surroundings, config)
        self.acceptors = shared.listen(config.controller_listeners)
        endpoints = shared.advertised(config.advertised_controller_listeners, self.acceptors)
        quorum = raft_config(
            config, cluster_id=shared.cluster_id, directory_id=shared.directory_id, endpoints=endpoints
        )
        self.log = open_replica(
            config,
            quorum,
            files=shared.files,
            clock=shared.clock,
            timers=shared.timers,
            offload=shared.threads.files,
            random_source=shared.random_source,
            make_channel=self._quorum_channel,
            sync_offload=shared.threads.quorum,
        )
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
        self.dispatcher = Dispatcher(
            self.handlers, services, clock=shared.clock, authorizer=shared.authorizer, lane=shared.lane
        )
        for listener in self.acceptors:
            shared.server.serve(listener, self.dispatcher)
        self.registration = FollowerRegistration(
            self.controller,
            lambda: self.log.leader_address,
            self._quorum_channel,
            shared.clock,
            shared.timers,
        )

    def _quorum_channel(self, host: str, port: int) -> TcpPeer:
        """A channel to another replica of the metadata log."""
        return self._connect(host, port, client_id=f"raft-client-{self._shared.node_id}")

    def _connect(self, host: str, port: int, *, client_id: str) -> TcpPeer:
        """A channel to another controller. It reports a failed connection at once, because the caller can ask
        another controller."""
        shared = self._shared
        return TcpPeer(
            host,
            port,
            network=shared.surroundings.network,
            clock=shared.clock,
            timers=shared.timers,
            memory=shared.memory,
            client_id=client_id,
            is_patient=False,
        )

    def start(self) -> None:
        """Starts the replica; a single voter leads when this returns. Raises UnsupportedCluster."""
        self.log.start()
        self.controller.start()
        self.registration.start()
        for acceptor in self.acceptors.values():
            acceptor.start()

    def channel(self, client_id: str) -> LeaderPeer:
        """A channel to the active controller for the broker of this node. A request that waits long needs a
        channel of its own."""
        shared = self._shared
        listener = next(iter(self.acceptors))
        here = InProcessPeer(
            self.dispatcher,
            self.handlers,
            memory=shared.memory,
            clock=shared.clock,
            timers=shared.timers,
            client_id=client_id,
            listener=listener,
        )
        connect = partial(self._connect, client_id=client_id)
        return LeaderPeer(here, self._leader_elsewhere, connect, shared.timers)

    def _leader_elsewhere(self) -> BrokerEndpoint | None:
        leader = self.log.leader.leader_id
        if leader in (NO_LEADER, self._shared.node_id):
            return None
        listener = self._shared.config.controller_listener_names[0]
        return self.log.quorum(self._shared.clock.wall_ms()).endpoints.get(leader, {}).get(listener)

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
