"""One node of a simulated cluster: its place in the cluster, its machine, its lives, and what rules see.

The rules look into a running node through the properties here, and change nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
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
from controller.metadata.image.features import METADATA_VERSION
from controller.metadata.metadata_version import LATEST_METADATA_VERSION
from controller.metadata.supported_features import default_levels
from controller.raft.identity import Address, ReplicaKey
from controller.raft.node import RaftNode
from controller.raft.voters import Voter

__all__ = [
    "BROKER_PORT",
    "BROKER_PORTS",
    "CLUSTER_ID",
    "CONTROLLER_LISTENER",
    "CONTROLLER_PORT",
    "CONTROLLER_PORTS",
    "DATA",
    "FirstVoters",
    "NodePlace",
    "SimulatedNode",
]

CLUSTER_ID: Final = "uitV0ZJKSwi6ZntyNnO-kQ"
DATA: Final = "/data"
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
BROKER_PORTS: Final = (BROKER_PORT, 9192)
CONTROLLER_PORTS: Final = (CONTROLLER_PORT, 9193)
"""Where nodes listen that change their addresses (`address_changes`), the first one at the beginning."""
CONTROLLER_LISTENER: Final = "CONTROLLER"


class NodePlace(msgspec.Struct, frozen=True):
    """node_id: also in the machine's name, `node-1`. properties: beyond those that every node has.
    broker_port, controller_port: where the next life of the node listens."""

    node_id: int
    is_broker: bool
    is_controller: bool
    properties: Mapping[str, str] = {}
    broker_port: int = BROKER_PORT
    controller_port: int = CONTROLLER_PORT

    @property
    def host(self) -> str:
        return f"node-{self.node_id}"

    @property
    def roles(self) -> str:
        return ",".join(["broker"] * self.is_broker + ["controller"] * self.is_controller)

    def config(self, voters: FirstVoters) -> BrokerConfig:
        listeners = [f"PLAINTEXT://{self.host}:{self.broker_port}"] * self.is_broker
        listeners += [f"{CONTROLLER_LISTENER}://{self.host}:{self.controller_port}"] * self.is_controller
        settings = {
            "node.id": str(self.node_id),
            "process.roles": self.roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": CONTROLLER_LISTENER,
            "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": DATA,
            **voters.settings(),
            **self.properties,
        }
        return load(layered(default_settings(settings))).config


class FirstVoters(msgspec.Struct, frozen=True):
    """The controllers with whom the quorum begins.

    directory_ids: those of their directories, beside the places. With them the quorum is a dynamic one
    (kraft.version 1): the voters are in the log, and nodes find the quorum through these controllers. Without
    any it is a static one: `controller.quorum.voters` of each node says who votes. ports: at which
    those of a dynamic quorum may be found.
    """

    places: Sequence[NodePlace]
    directory_ids: Sequence[bytes] = ()
    ports: Sequence[int] = (CONTROLLER_PORT,)

    @property
    def is_dynamic(self) -> bool:
        return bool(self.directory_ids)

    def settings(self) -> Mapping[str, str]:
        """How a node is told of the quorum."""
        if self.is_dynamic:
            addresses = [f"{place.host}:{port}" for port in self.ports for place in self.places]
            return {"controller.quorum.bootstrap.servers": ",".join(addresses)}
        voters = (f"{place.node_id}@{place.host}:{CONTROLLER_PORT}" for place in self.places)
        return {"controller.quorum.voters": ",".join(voters)}

    def voters(self) -> Sequence[Voter]:
        """What `--initial-controllers` says; nothing for a static quorum."""
        return tuple(
            Voter(
                ReplicaKey(place.node_id, directory_id),
                MappingProxyType({CONTROLLER_LISTENER: Address(place.host, CONTROLLER_PORT)}),
            )
            for place, directory_id in zip(self.places, self.directory_ids, strict=False)
        )


class SimulatedNode:
    """lives: how often it was started."""

    def __init__(
        self,
        place: NodePlace,
        machine: Machine,
        voters: FirstVoters,
        *,
        features: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """features: levels with which it is formatted, where they are not the default ones."""
        self.place = place
        self.node_id = place.node_id
        self.machine = machine
        self.lives = 0
        self._voters = voters
        self._features = features
        self._was_formatted = False

    def __repr__(self) -> str:
        return self.place.host

    def format(self) -> None:
        """`barnabas storage format` of the directories that are empty. Of a dynamic quorum only the first
        format names the first voters: a node whose disk was lost is a replica with another directory, which
        does not vote."""
        machine = self.machine
        is_first, self._was_formatted = not self._was_formatted, True
        levels = dict(self._features)
        metadata_version = levels.pop(METADATA_VERSION, LATEST_METADATA_VERSION)
        is_named = is_first and any(place.node_id == self.node_id for place in self._voters.places)
        Formatter(
            CLUSTER_ID,
            self._config(),
            machine.files,
            machine.clock,
            machine.random,
            standalone=False,
            metadata_version=metadata_version,
            features={**default_levels(metadata_version), **levels},
            first_voters=self._voters.voters() if is_named else (),
            ignore_formatted=not is_first,
        ).run(StringIO())

    @property
    def directories(self) -> list[str]:
        """Its log directories; the first one holds the metadata log."""
        return self.place.properties.get("log.dirs", DATA).split(",")

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
    def kraft_version(self) -> int | None:
        """That of its metadata log; None while it does not run."""
        replica = None if self.machine.node is None else self.machine.node.replica
        return None if replica is None else replica.log.kraft_version

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

    @property
    def quorum_replica(self) -> RaftNode | None:
        """Its replica of the metadata log, a voter or an observer."""
        replica = None if self.machine.node is None else self.machine.node.replica
        return None if replica is None else replica.log.raft
