"""A cluster of three nodes as one side. Node 1 is the controller too: who leads the quorum is no chance."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

from tests.side_by_side.normalising import Normalisation
from tests.side_by_side.sides import Side
from tests.support.brokers.cluster import BOTH, BROKER, Cluster
from tests.support.genuine.tool_server import ToolServer

ROLES: Final = (BOTH, BROKER, BROKER)
PROPERTIES: Final = {
    "auto.leader.rebalance.enable": "false",
    "replica.fetch.max.bytes": "1024",  # a throttled replica gets one batch before it is held back
    "log.initial.task.delay.ms": "3600000",
}

OF_CLUSTERS: Final = (
    Normalisation(
        "how far the metadata log is, and when it was fetched, is a matter of time",
        re.compile(r"(?m)^(?P<id>\d+)(?P<directory>\s+<id>)\s+\d+\s+\d+\s+\S+\s+\S+(?P<status>\s+\w+)\s*$"),
        r"\g<id>\g<directory> <offset> <lag> <time> <time>\g<status>",
    ),
    Normalisation(
        "so is the lag of a quorum's members",
        re.compile(r"(?<=^MaxFollowerLag)(\w*:\s+)-?\d+", re.MULTILINE),
        r"\g<1><lag>",
    ),
    Normalisation(
        "a broker names any broker as the controller, for no client reaches the controllers",
        re.compile(r"(?<=^controller = )<broker \d> \(id: \d", re.MULTILINE),
        "<a broker> (id: <its id>",
    ),
    Normalisation(
        "how much of a throttled partition was copied is a matter of time, and so is its size",
        re.compile(r'(?<="size":)\d+|(?<="offsetLag":)\d+'),
        "<size>",
    ),
)


OBSERVERS: Final = re.compile(r"(?<=^CurrentObservers:       ).*", re.MULTILINE)
"""Kafka keeps them in a hash table: they are compared sorted."""


class _Asked(NamedTuple):
    """The first node, as the broker of a side."""

    bootstrap_servers: str
    bootstrap_controllers: str
    data: Path


class ClusterSide(Side):
    """Three nodes that are asked case after case."""

    def __init__(self, cluster: Cluster, tools: ToolServer, folder: Path) -> None:
        first = cluster.nodes[1]
        asked = _Asked(first.client_address, cluster.bootstrap_controllers, first.data)
        super().__init__(asked, tools, folder)
        self.cluster = cluster

    def without_randomness(self, answer: str, *, unordered: bool = False) -> str:
        for node_id, node in self.cluster.nodes.items():
            answer = answer.replace(node.client_address, f"<broker {node_id}>")
            answer = re.sub(rf"(?<!\d){node.client_port}(?!\d)", f"<port {node_id}>", answer)
            answer = answer.replace(str(node.data), f"<data {node_id}>")
        text = super().without_randomness(answer, unordered=unordered)
        for each in OF_CLUSTERS:
            text = each.pattern.sub(each.instead, text)
        return OBSERVERS.sub(lambda found: json.dumps(sorted(json.loads(found[0]), key=str)), text)


def new_cluster(kind: str, folder: Path, tools: ToolServer) -> Cluster:
    """Not formatted yet."""
    return Cluster(folder, [kind] * len(ROLES), roles=ROLES, tools=tools, properties=PROPERTIES)
