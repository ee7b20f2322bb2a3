"""Clusters of several brokers in processes of their own, ours and Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.brokers.cluster import DYNAMIC, OURS, Cluster
from tests.support.brokers.cut_network import CutNetwork
from tests.support.genuine.tool_server import ToolServer

NewCluster = Callable[..., Cluster]


@pytest.fixture
def new_cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewCluster]:
    """A factory: formatted, started, all brokers unfenced, killed at the end. Java only for genuine nodes.

    roles: of each node, both for all without it. Further keywords are properties with `_` for dots; `start`
    False leaves the nodes formatted. network: by which the nodes reach each other; closed at the end.
    folder: below the test's own, for a second cluster.
    """
    with ExitStack() as stack:

        def make(
            *kinds: str,
            roles: list[str] | None = None,
            voters: str = DYNAMIC,
            start: bool = True,
            network: CutNetwork | None = None,
            folder: str = "",
            **properties: str,
        ) -> Cluster:
            tools: ToolServer | None = None
            if any(kind != OURS for kind in kinds):
                tools = request.getfixturevalue("tool_server")
            given = {name.replace("_", "."): value for name, value in properties.items()}
            if network is not None:
                stack.enter_context(network)
            cluster = Cluster(
                tmp_path / folder,
                kinds,
                roles=roles,
                tools=tools,
                voters=voters,
                properties=given,
                network=network,
            )
            stack.enter_context(cluster)
            cluster.format()
            if start:
                cluster.start()
                cluster.await_brokers()
            return cluster

        yield make
