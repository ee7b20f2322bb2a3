"""One node of a simulated cluster: its place in the cluster, its machine, its lives, and what rules see.

The rules look into a running node through the properties here, and change nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Final

import msgspec

from broker.node import Node
from broker.replication.partition import Partition
from broker.server.broker_server import BrokerServer
from broker.server.controller_server import ControllerServer
from broker.simulation.cluster.surroundings import Machine
from config.broker_config import BrokerConfig
from config.loading import default_settings, layered, load
from controller.format import Formatter
from controller.metadata.image.cluster_image import ClusterImage

__all__ = ["BROKER_PORT", "CLUSTER_ID", "CONTROLLER_PORT", "DATA", "NodePlace", "SimulatedNode"]

CLUSTER_ID: Final = "uitV0ZJKSwi6ZntyNnO-kQ"
DATA: Final = "/data"
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093


class NodePlace(msgspec.Struct, frozen=True):
    """node_id: also in the machine's name, `node-1`. properties: beyond those that every node has."""

    node_id: int
    is_broker: bool
    is_controller: bool
    properties: Mapping[str, str] = {}

    @property
    def host(self) -> str:
        return f"node-{self.node_id}"

    @property
    def roles(self) -> str:
        return ",".join(["broker"] * self.is_broker + ["controller"] * self.is_controller)

    def config(self, voters: Iterable[NodePlace]) -> BrokerConfig:
        """voters: the first ones of the quorum."""
        listeners = [f"PLAINTEXT://{self.host}:{BROKER_PORT}"] * self.is_broker
        listeners += [f"CONTROLLER://{self.host}:{CONTROLLER_PORT}"] * self.is_controller
        settings = {
            "node.id": str(self.node_id),
            "process.roles": self.roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{each.node_id}@{each.host}:{CONTROLLER_PORT}" for each in voters
            ),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": DATA,
            **self.properties,
        }
        return load(layered(default_settings(settings))).config


class SimulatedNode:
    """lives: how often it was started."""

    def __init__(self, place: NodePlace, machine: Machine, voters: Iterable[NodePlace]) -> None:
        self.place = place
        self.node_id = place.node_id
        self.machine = machine
        self.lives = 0
        self._voters = tuple(voters)

    def __repr__(self) -> str:
        return self.place.host

    def format(self) -> None:
        """`barnabas storage format` on its empty disk."""
        machine = self.machine
        Formatter(CLUSTER_ID, self._config(), machine.files, machine.clock, machine.random).run(StringIO())

    def start(self) -> None:
        """A new life, on a formatted disk. Raises what the start of a node raises."""
        self.lives += 1
        self.machine.start(self._config(), CLUSTER_ID)

    def _config(self) -> BrokerConfig:
        return self.place.config(self._voters)

    # What the rules see

    @property
    def node(self) -> Node | None:
        """The node of this life; None while it does not run."""
        return self.machine.node

    @property
    def is_up(self) -> bool:
        return self.machine.node is not None

    @property
    def is_ready(self) -> bool:
        return self.is_up and self.machine.ready_line is not None

    @property
    def broker(self) -> BrokerServer | None:
        return None if self.machine.node is None else self.machine.node.broker

    @property
    def controller(self) -> ControllerServer | None:
        replica = None if self.machine.node is None else self.machine.node.replica
        return replica if isinstance(replica, ControllerServer) else None

    @property
    def image(self) -> ClusterImage | None:
        """The broker's image of the metadata."""
        return None if self.broker is None else self.broker.metadata.image

    @property
    def partitions(self) -> Iterable[Partition]:
        """Those that its broker hosts, in whatever role."""
        return () if self.broker is None else self.broker.replicas.by_name.values()
