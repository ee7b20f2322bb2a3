"""``Broker(nodes=3)``: a cluster for the tests of a program that must live through a failover."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker.launcher.embedded import Broker, BrokerFailed
from tests.support.brokers.against import barnabas_only
from tests.support.clients.spread import numbered_values, read_all, write_to_all

pytestmark = barnabas_only


def require_taken(address: str) -> None:
    """Nobody else gets the port, although nobody listens on it: the node comes back to it."""
    host, _, port = address.rpartition(":")
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((host, int(port)))
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect((host, int(port)))


def test_a_node_that_is_killed_is_replaced_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker(nodes=3, start_timeout_seconds=120) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 3
        topic = cluster.create_topic(partitions=3, timeout_seconds=60)
        write_to_all(cluster.bootstrap_servers, topic, 3, 20)
        for node in (1, 2):
            cluster.kill(node)
            assert cluster.is_running
            require_taken(cluster.bootstrap_servers.split(",")[node - 1])
            write_to_all(cluster.bootstrap_servers, topic, 3, 20, first=20 * node)
            assert cluster.create_topic(f"without-{node}", timeout_seconds=60) == f"without-{node}"
            cluster.start(node)
        assert read_all(cluster.bootstrap_servers, topic, 3, 60) == numbered_values(3, 60)
        assert "node 2:\n" in cluster.log_tail()
    assert not cluster.is_running
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_s_data_for_the_next_one(tmp_path: Path) -> None:
    data = tmp_path / "Käfer 城"
    with Broker(nodes=2, data=data, start_timeout_seconds=120) as cluster:
        servers = cluster.bootstrap_servers
        topic = cluster.create_topic(timeout_seconds=60)
        write_to_all(servers, topic, 1, 20)
    with Broker(nodes=2, data=data, start_timeout_seconds=120) as cluster:
        assert cluster.bootstrap_servers == servers
        assert read_all(servers, topic, 1, 20) == numbered_values(1, 20)
    with pytest.raises(BrokerFailed, match="holds 2 nodes"):
        Broker(nodes=1, data=data).start()


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no node 1: this broker has no numbered nodes"):
        Broker().kill(1)
    with Broker(nodes=1) as cluster:
        with pytest.raises(ValueError, match="there is no node 2: this broker has nodes 1 to 1"):
            cluster.kill(2)
        with pytest.raises(RuntimeError, match="node 1 runs"):
            cluster.start(1)
