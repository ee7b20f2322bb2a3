"""The controller's part of a node: the metadata log, the one who decides over it, and its listener."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.controller_channel.peer.in_process import InProcessPeer
from broker.controller_channel.peer.tcp import TcpPeer
from broker.controller_channel.peer.to_leader import LeaderPeer
from broker.dispatch.dispatcher import Dispatcher
from broker.policies.process import configured_policies
from broker.server.shared_server import Ground, advertised
from controller.bootstrap_records import read_bootstrap_records
from controller.handler_table import controller_handlers
from controller.metadata.image.brokers import Endpoint
from controller.metadata.log import NO_LEADER
from controller.metadata.log_opening import open_replica, raft_config
from controller.quorum_controller import QuorumController
from controller.registration import FollowerRegistration
from controller.services import ControllerServices


class ControllerRole:
    """Made when the log directories are locked; decides once it is started and the loop runs."""

    def __init__(self, ground: Ground) -> None:
        config = ground.config
        self._ground = ground
        self.handlers = controller_handlers()
        self.policies = configured_policies(ground.loop, config)
        self.acceptors = ground.listen(config.controller_listeners)
        endpoints = advertised(config.advertised_controller_listeners, self.acceptors)
        quorum = raft_config(
            config, cluster_id=ground.cluster_id, directory_id=ground.directory_id, endpoints=endpoints
        )
        self.log = open_replica(
            config,
            quorum,
            files=ground.files,
            clock=ground.clock,
            timers=ground.timers,
            offload=ground.offload,
            chance=ground.chance,
            make_channel=self._quorum_channel,
            sync_offload=ground.quorum_offload,
        )
        self.controller = QuorumController(
            node_id=ground.node_id,
            cluster_id=ground.cluster_id,
            log=self.log,
            config=config,
            clock=ground.clock,
            timers=ground.timers,
            chance=ground.chance,
            bootstrap_records=read_bootstrap_records(config, ground.files),
            endpoints=endpoints,
        )
        services = ControllerServices(
            node_id=ground.node_id,
            cluster_id=ground.cluster_id,
            config=config,
            clock=ground.clock,
            timers=ground.timers,
            controller=self.controller,
            log=self.log,
            handlers=self.handlers,
            loggers=ground.loggers,
            policies=self.policies,
        )
        self.dispatcher = Dispatcher(
            self.handlers, services, clock=ground.clock, authorizer=ground.authorizer, lane=ground.lane
        )
        for listener in self.acceptors:
            ground.server.serve(listener, self.dispatcher)
        self.registration = FollowerRegistration(
            self.controller,
            lambda: self.log.leader_address,
            self._quorum_channel,
            ground.clock,
            ground.timers,
        )

    def _quorum_channel(self, host: str, port: int) -> TcpPeer:
        """A way to another replica of the metadata log."""
        return self._connect(host, port, client_id=f"raft-client-{self._ground.node_id}")

    def _connect(self, host: str, port: int, *, client_id: str) -> TcpPeer:
        """To another controller; if it is dead there are others, so that is told at once."""
        ground = self._ground
        return TcpPeer(
            host,
            port,
            loop=ground.loop,
            clock=ground.clock,
            timers=ground.timers,
            hangups=ground.server.hangups,
            memory=ground.memory,
            client_id=client_id,
            is_patient=False,
        )

    def start(self) -> None:
        """An only voter leads when this returns. Raises UnsupportedCluster."""
        self.log.start()
        self.controller.start()
        self.registration.start()
        for acceptor in self.acceptors.values():
            acceptor.start()

    def channel(self, client_id: str) -> LeaderPeer:
        """A way to the controller for the broker in this process; one for each kind of long wait."""
        ground = self._ground
        listener = next(iter(self.acceptors))
        here = InProcessPeer(
            self.dispatcher,
            self.handlers,
            memory=ground.memory,
            clock=ground.clock,
            timers=ground.timers,
            client_id=client_id,
            listener=listener,
        )
        connect = partial(self._connect, client_id=client_id)
        return LeaderPeer(here, self._leader_elsewhere, connect, ground.timers)

    def _leader_elsewhere(self) -> Endpoint | None:
        leader = self.log.leader.leader_id
        if leader in (NO_LEADER, self._ground.node_id):
            return None
        listener = self._ground.config.controller_listener_names[0]
        return self.log.quorum(self._ground.clock.wall_ms()).endpoints.get(leader, {}).get(listener)

    def resign(self, timeout_ms: int, then: Callable[[], None]) -> None:
        """A leader of the quorum tells the others, and stays until one of them leads, or the time is over."""
        self.log.resign_and_stop(timeout_ms, then)

    def shut_down(self) -> None:
        self.registration.stop()
        self.controller.shut_down()

    def close(self) -> None:
        """After the loop has ended."""
        if self.policies is not None:
            self.policies.close()
        self.log.shut_down()
