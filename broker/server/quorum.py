"""How a node takes part in the quorum: its replica of the metadata log, and channels to other nodes.

The replica is a voter or an observer. It asks other replicas over channels to each of them; the broker of the
node sends its requests to whichever replica leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from broker.controller_channel.peer.in_process import InProcessPeer
from broker.controller_channel.peer.login import Login
from broker.controller_channel.peer.tcp import TcpPeer
from broker.controller_channel.peer.to_leader import LeaderPeer
from broker.network.interfaces import Service
from broker.server.shared_server import SharedServer
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.log import NO_LEADER
from controller.metadata.log_opening import open_replica, raft_config
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.raft.identity import Address
from protocol.serving.handler_table import HandlerTable

__all__ = [
    "LeaderChannels",
    "connect_to_broker",
    "connect_to_controller",
    "open_metadata_log",
    "quorum_channel",
]


def open_metadata_log(shared: SharedServer, endpoints: Mapping[str, BrokerEndpoint]) -> ReplicatedMetadataLog:
    """Opens this node's replica of the metadata log, without starting it.

    endpoints: those of the controller listeners, with the ports that they really have; none for an observer.
    For what it raises see `controller.metadata.log_opening.open_replica`.
    """
    config = shared.config
    quorum = raft_config(
        config, cluster_id=shared.cluster_id, directory_id=shared.directory_id, endpoints=endpoints
    )
    return open_replica(
        config,
        quorum,
        files=shared.files,
        clock=shared.clock,
        timers=shared.timers,
        offload=shared.threads.files,
        random_source=shared.random_source,
        make_channel=partial(quorum_channel, shared),
        sync_offload=shared.threads.quorum,
    )


def quorum_channel(shared: SharedServer, host: str, port: int) -> TcpPeer:
    """A channel to another replica of the metadata log."""
    return connect_to_controller(shared, host, port, client_id=f"raft-client-{shared.node_id}")


def connect_to_controller(shared: SharedServer, host: str, port: int, client_id: str) -> TcpPeer:
    """A channel to a controller listener of another node: the first of controller.listener.names."""
    listener = shared.config.controller_listener_names[0]
    return _connect(shared, listener, host, port, client_id, shared.controller_login)


def connect_to_broker(shared: SharedServer, host: str, port: int, client_id: str) -> TcpPeer:
    """A channel to the inter-broker listener of another node."""
    listener = shared.config.inter_broker_listener_name
    return _connect(shared, listener, host, port, client_id, shared.broker_login)


def _connect(
    shared: SharedServer, listener: str, host: str, port: int, client_id: str, login: Login | None
) -> TcpPeer:
    """A channel to the listener of that name, by its security protocol. It reports a failed connection at
    once, because the caller can ask another node."""
    return TcpPeer(
        host,
        port,
        network=shared.surroundings.network,
        clock=shared.clock,
        timers=shared.timers,
        memory=shared.memory,
        client_id=client_id,
        is_patient=False,
        tls=partial(shared.tls_to, listener),
        login=login,
    )


class LeaderChannels:
    """Makes channels to the active controller for the broker of this node.

    service, handlers: serve the requests to this node's own replica. listener: the name of the listener to
    which these connections seem to belong.
    """

    def __init__(
        self,
        shared: SharedServer,
        log: ReplicatedMetadataLog,
        service: Service,
        handlers: HandlerTable,
        listener: str,
    ) -> None:
        self._shared = shared
        self._log = log
        self._service = service
        self._handlers = handlers
        self._listener = listener
        self._peers: list[LeaderPeer] = []
        log.watch_leader(self._leader_changed)

    def _leader_changed(self) -> None:
        if self._log.leader.leader_id != NO_LEADER:
            for peer in self._peers:
                peer.leader_changed()

    def channel(self, client_id: str) -> LeaderPeer:
        """A new channel. A request that waits long needs a channel of its own."""
        shared = self._shared
        here = InProcessPeer(
            self._service,
            self._handlers,
            memory=shared.memory,
            clock=shared.clock,
            timers=shared.timers,
            client_id=client_id,
            listener=self._listener,
            principal=None if shared.controller_login is None else shared.controller_login.principal,
        )
        peer = LeaderPeer(
            here,
            self._leader_elsewhere,
            partial(connect_to_controller, shared, client_id=client_id),
            shared.timers,
            may_lead=shared.config.is_controller,
        )
        self._peers.append(peer)
        return peer

    def _leader_elsewhere(self) -> Address | None:
        """The address of the leader if it is another node; None while no other node is known to lead."""
        if self._log.leader.leader_id in (NO_LEADER, self._shared.node_id):
            return None
        return self._log.leader_address
