"""A cluster of nodes in processes of their own: brokers, controllers or both, ours, Apache Kafka's or mixed.

    with Cluster(folder, [OURS] * 3) as cluster:           three nodes with both roles, numbered from 1
        cluster.format().start()
        cluster.await_brokers()                            all are registered and unfenced everywhere
        cluster.bootstrap                                  for clients
        cluster.nodes[2].kill(); cluster.nodes[2].start()  on the same directory and ports

`Cluster(folder, [OURS, KAFKAS], roles=[CONTROLLER, BROKER])` gives each node its own roles, and `add` makes a
node that joins later. A node's `pause` and `resume` are SIGSTOP and SIGCONT. `properties` hold for all nodes
(`FAST` is a set of short time-outs); `nodes[2].properties` may be changed before that node's next start.

With `network=CutNetwork()` the nodes reach each other through its proxies, brokers at a listener of their
own, and a test may cut it between any two; clients and tests reach the nodes directly.
"""

from __future__ import annotations

import signal
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.brokers.cut_network import CutNetwork
from tests.support.brokers.ports import free_ports
from tests.support.brokers.quorum import DYNAMIC, KAFKAS, OURS, STATIC, new_id
from tests.support.brokers.quorum_members import (
    WAIT_SECONDS,
    GenuineController,
    Member,
    OurController,
    await_found,
)
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.genuine.tool_server import ToolServer

__all__ = [
    "BOTH",
    "BROKER",
    "CONTROLLER",
    "DYNAMIC",
    "FAST",
    "KAFKAS",
    "OURS",
    "STATIC",
    "Cluster",
    "GenuineNode",
    "Node",
    "OurNode",
]

BOTH: Final = "broker,controller"
BROKER: Final = "broker"
CONTROLLER: Final = "controller"

POLL_SECONDS: Final = 0.02
ANSWER_SECONDS: Final = 30
"""A node that gets no processor time for a while answers all the same; one that is gone refuses at once."""
METADATA_VERSION: Final = 12

FAST: Final = {
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "5000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
"""Properties for tests in which nodes die: short, and long enough for a machine with other work."""

FoundT = TypeVar("FoundT")


class Node(Member):
    """One node of a cluster. client_port: of its listener for clients; 0 if it is a controller alone."""

    client_port: int = 0
    roles: str = BOTH

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles.split(",")

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles.split(",")

    @property
    def client_address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.client_port}"

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


class OurNode(OurController, Node):
    """A Barnabas node."""


class GenuineNode(GenuineController, Node):
    """A node of Apache Kafka 4.3.1."""


class Cluster:
    """Nodes of `kinds` with `roles`, numbered from `first_id`. `format` before the first start."""

    def __init__(
        self,
        folder: Path,
        kinds: Sequence[str],
        *,
        roles: Sequence[str] | None = None,
        tools: ToolServer | None = None,
        voters: str = DYNAMIC,
        properties: Mapping[str, str] | None = None,
        first_id: int = 1,
        network: CutNetwork | None = None,
        heap: str = "256m",
        java_flags: tuple[str, ...] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """heap, java_flags: of the genuine nodes; see `GenuineController`. tls: how a client's connections
        to the brokers are secured."""
        self._tls = tls
        self.folder = folder
        self.network = network
        self.tools = tools
        self.cluster_id = new_id()
        self.nodes: dict[int, Node] = {}
        self._voters = voters
        self._heap = heap
        self._java_flags = java_flags
        self._properties = dict(properties or {})
        given = [BOTH] * len(kinds) if roles is None else list(roles)
        ids = range(first_id, first_id + len(kinds))
        ports = {
            node_id: free_ports(1)[0]
            for node_id, its_roles in zip(ids, given, strict=True)
            if CONTROLLER in its_roles
        }
        self._told_ports = {node_id: self._told_port(node_id, port) for node_id, port in ports.items()}
        servers = [f"127.0.0.1:{port}" for port in self._told_ports.values()]
        static = [f"{node_id}@127.0.0.1:{port}" for node_id, port in self._told_ports.items()]
        self._where = (
            {"controller.quorum.voters": ",".join(static)}
            if voters == STATIC
            else {"controller.quorum.bootstrap.servers": ",".join(servers)}
        )
        self._first_voters = list(ports)
        for node_id, kind, its_roles in zip(ids, kinds, given, strict=True):
            self.add(node_id, kind, its_roles, controller_port=ports.get(node_id, 0))

    def add(
        self,
        node_id: int,
        kind: str,
        roles: str = BOTH,
        *,
        properties: Mapping[str, str] | None = None,
        controller_port: int = 0,
    ) -> Node:
        """Another node: made, and neither formatted (`format_node`) nor started."""
        is_controller, is_broker = CONTROLLER in roles.split(","), BROKER in roles.split(",")
        port = controller_port or free_ports(1)[0]
        client_port = free_ports(1)[0] if is_broker else 0
        if is_controller and node_id not in self._told_ports:
            self._told_ports[node_id] = self._told_port(node_id, port)
        given = {
            "process.roles": roles,
            **self._listeners(node_id, client_port, port if is_controller else 0),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._where,
            **self._properties,
            **(properties or {}),
        }
        if not is_broker:
            del given["inter.broker.listener.name"]
        listening = port if is_controller else client_port
        node: Node
        if kind == OURS:
            node = OurNode(node_id, self.folder, listening, new_id(), given)
        elif self.tools is None:
            raise ValueError("a genuine node is formatted by the genuine tools")
        else:
            node = GenuineNode(
                node_id,
                self.folder,
                listening,
                new_id(),
                given,
                tools=self.tools,
                heap=self._heap,
                flags=self._java_flags,
            )
        node.client_port = client_port
        node.roles = roles
        self.nodes[node_id] = node
        return node

    def _told_port(self, node_id: int, port: int) -> int:
        """The port by which other nodes reach this one's."""
        return port if self.network is None else self.network.in_front_of(node_id, port)

    def _listeners(self, node_id: int, client_port: int, controller_port: int) -> dict[str, str]:
        """The properties for these ports, 0: it has no such listener."""
        listeners = [f"PLAINTEXT://127.0.0.1:{client_port}"] * bool(client_port)
        told = list(listeners)
        between = "PLAINTEXT"
        if self.network is not None and client_port:
            between = "INTERNAL"
            port = free_ports(1)[0]
            listeners.append(f"INTERNAL://127.0.0.1:{port}")
            told.append(f"INTERNAL://127.0.0.1:{self._told_port(node_id, port)}")
        if controller_port:
            listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
            told.append(f"CONTROLLER://127.0.0.1:{self._told_ports[node_id]}")
        given = {"listeners": ",".join(listeners), "inter.broker.listener.name": between}
        if self.network is not None:
            given["advertised.listeners"] = ",".join(told)
        return given

    def format(self) -> Self:
        """The directories of all nodes that are there, those of the first voters with their list."""
        for node_id in self.nodes:
            self.format_node(node_id)
        return self

    def format_node(self, node_id: int) -> Node:
        """A node that is no first voter is formatted to find the quorum."""
        node = self.nodes[node_id]
        options: tuple[str, ...] = ()
        if self._voters == DYNAMIC and node.is_controller:
            options = ("--no-initial-controllers",)
            if node_id in self._first_voters:
                first = [
                    self.nodes[each].as_initial_controller(self._told_ports[each])
                    for each in self._first_voters
                ]
                options = ("--initial-controllers", ",".join(first))
        node.format(self.cluster_id, *options)
        return node

    def start(self, *node_ids: int) -> Self:
        """These nodes, or all; side by side, until they listen."""
        chosen = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in chosen:
            node.begin()
        for node in chosen:
            node.await_listening()
        return self

    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    @property
    def brokers(self) -> list[int]:
        """The brokers whose processes run."""
        return [node_id for node_id in self.running() if self.nodes[node_id].is_broker]

    @property
    def bootstrap(self) -> str:
        """For clients: the brokers that run."""
        return ",".join(self.nodes[node_id].client_address for node_id in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """For --bootstrap-controller: the controllers that run."""
        return ",".join(self.nodes[each].address for each in self.running() if self.nodes[each].is_controller)

    def await_brokers(self, *node_ids: int) -> None:
        """Each running broker's metadata lists exactly these brokers, or all that run: they are registered
        and unfenced, and each broker knows it."""
        wanted = sorted(node_ids or self.brokers)

        def listed() -> bool | None:
            views = [self.alive_brokers(node_id) for node_id in self.brokers]
            return all(view == wanted for view in views) or None

        self.wait(listed, f"cluster in which brokers {wanted} are unfenced")

    def alive_brokers(self, node_id: int) -> list[int] | None:
        """The brokers that this broker's metadata lists; None if it cannot be asked."""
        metadata = self.metadata(node_id)
        return None if metadata is None else sorted(each.node_id for each in metadata.brokers)

    def metadata(self, node_id: int, *topics: str) -> MetadataResponse | None:
        """As this broker answers a client; None if it cannot be asked."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
        )
        try:
            with WireClient(
                self.nodes[node_id].client_address, timeout_seconds=ANSWER_SECONDS, tls=self._tls
            ) as client:
                return client.ask_for(MetadataResponse, request, METADATA_VERSION)
        except (OSError, ConnectionEnded):
            return None

    def wait(
        self,
        found: Callable[[], FoundT | None],
        what: str,
        *,
        poll_seconds: float = POLL_SECONDS,
        seconds: float = WAIT_SECONDS,
    ) -> FoundT:
        """What is found as soon as it is; None: not yet."""
        return await_found(found, what, self.nodes.values(), poll_seconds=poll_seconds, seconds=seconds)

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
