"""What keeps a node out of a cluster, from what the cluster told and what the node's file says."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from broker.cli import cluster_check
from broker.cli.cluster_check import NOT_ASKED, Cluster, NotAsked, ask_cluster, check_cluster, obstacles
from config.broker_config import BrokerConfig
from config.loading import file_settings, layered, load
from storage.meta_properties import MetaProperties, encode_meta_properties

CLUSTER = Cluster(
    "kafka:9092", "AQAAAAAAAAAAAAAAAAAAAA", {"metadata.version": 25, "kraft.version": 1}, {1: "kafka:9092"}
)


def file_of(tmp_path: Path, node_id: int = 2, listener: str = "127.0.0.1:9092") -> str:
    return (
        f"process.roles=broker\nnode.id={node_id}\nlisteners=PLAINTEXT://{listener}\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=kafka:9093\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )


def config_of(tmp_path: Path, node_id: int = 2, listener: str = "127.0.0.1:9092") -> BrokerConfig:
    text = file_of(tmp_path, node_id, listener)
    return load(layered(file_settings("server.properties", text.encode()))).config


def write_identity(folder: Path, cluster_id: str, node_id: int) -> None:
    folder.mkdir()
    properties = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=b"d" * 16)
    (folder / "meta.properties").write_bytes(encode_meta_properties(properties, 0))


def test_nothing_stands_in_the_way_of_a_formatted_node(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_identity(tmp_path / name, CLUSTER.cluster_id, 2)
    assert obstacles(CLUSTER, config_of(tmp_path)) == []
    assert obstacles(CLUSTER, None) == []


def test_all_obstacles_are_told_at_once(tmp_path: Path) -> None:
    levels = {"metadata.version": 25, "share.version": 1, "streams.version": 1}
    cluster = Cluster("kafka:9092", CLUSTER.cluster_id, levels, {2: "elsewhere:9092", 1: "127.0.0.1:9092"})
    write_identity(tmp_path / "a", "b3RoZXJjbHVzdGVyb3RoZQ", 2)
    found = obstacles(cluster, config_of(tmp_path))
    out = ("--feature share.version", "--feature streams.version")
    assert found == [
        "share.version is finalized at level 1, and this version does not know it",
        "streams.version is finalized at level 1, and this version does not know it",
        f"type: kafka-features.sh --bootstrap-server kafka:9092 disable {' '.join(out)}",
        "node.id 2 is that of the broker at elsewhere:9092. Ids in use: 1, 2",
        "advertised.listeners: 127.0.0.1:9092 is where broker 1 listens",
        f"{tmp_path}/a belongs to cluster b3RoZXJjbHVzdGVyb3RoZQ, not to {CLUSTER.cluster_id}",
        f"{tmp_path}/b is not formatted. Type: barnabas storage format -t {CLUSTER.cluster_id} -c FILE",
    ]


def test_a_node_that_runs_already_is_not_in_its_own_way(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_identity(tmp_path / name, CLUSTER.cluster_id, 1)
    assert obstacles(CLUSTER, config_of(tmp_path, node_id=1, listener="kafka:9092")) == []


def test_a_name_that_cannot_be_one_is_told_like_one_that_does_not_answer() -> None:
    with pytest.raises(NotAsked, match=r"^a\.\.b:9092 does not answer as a broker does: "):
        ask_cluster("a..b:9092")


def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "meta.properties").mkdir(parents=True)
    file = tmp_path / "server.properties"
    file.write_text(file_of(tmp_path))
    monkeypatch.setattr(cluster_check, "ask_cluster", lambda bootstrap, tls: CLUSTER)
    out = io.StringIO()
    assert check_cluster("kafka:9092", str(file), out) == NOT_ASKED
    assert out.getvalue() == "The node's directories cannot be read: [Errno 21] Is a directory\n"
