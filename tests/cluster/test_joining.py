"""`barnabas config check --cluster` beside clusters that a node may join, and others."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from broker.cli.cluster_check import check_cluster
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BROKER, CONTROLLER, KAFKAS, OURS, Cluster
from tests.support.brokers.quorum_members import ROOT
from tests.support.clients.librdkafka import until
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.tool_server import ToolServer


def verdict(bootstrap: str, file: Path | None = None) -> tuple[int, list[str]]:
    out = io.StringIO()
    code = check_cluster(bootstrap, None if file is None else str(file), out)
    return code, [line.strip() for line in out.getvalue().splitlines()]


def test_what_is_finalized_in_a_cluster_of_kafkas_is_named_with_the_way_out(
    tmp_path: Path, tool_server: ToolServer
) -> None:
    """A cluster of today's defaults; the command that is told makes it one that can be joined."""
    with GenuineKafka(tmp_path / "kafka") as kafka:
        code, lines = verdict(kafka.bootstrap_servers)
        assert code == 1
        in_the_way = {line.partition(" is finalized")[0] for line in lines if " is finalized " in line}
        assert in_the_way >= {"share.version", "streams.version"}
        command = lines[-1].removeprefix("type: kafka-features.sh ")
        assert command != lines[-1]
        done = tool_server.run("kafka-features", *command.split())
        assert done.code == 0, done.err
        # A broker learns a moment later what the controller has finalized.
        until(lambda: verdict(kafka.bootstrap_servers)[0] == 0, "nothing stands in the way")
        code, lines = verdict(kafka.bootstrap_servers)
        assert (code, len(lines)) == (0, 1)
        assert lines[0].endswith("nothing stands in the way")


def newcomer(cluster: Cluster, node_id: int) -> Path:
    """The file of another broker, which is not formatted."""
    cluster.folder /= "newcomer"
    node = cluster.add(node_id, OURS, BROKER)
    node.write_properties()
    return node.properties_file


def test_an_id_that_is_taken_and_a_directory_that_is_not_formatted_are_told_at_once(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(OURS, OURS, roles=[CONTROLLER, BROKER])
    first = cluster.nodes[2]
    servers = cluster.bootstrap
    try:
        file = newcomer(cluster, 2)
        code, lines = verdict(servers, file)
        assert code == 1
        assert f"node.id 2 is that of the broker at {servers}. Ids in use: 2" in lines
        assert any(f"barnabas storage format -t {cluster.cluster_id} -c" in line for line in lines)
        file.write_text(file.read_text().replace("node.id=2", "node.id=3"))
        cluster.nodes[2].properties["node.id"] = "3"
        cluster.nodes[2].format(cluster.cluster_id)
        assert verdict(servers, file)[0] == 0
    finally:
        first.kill()


def test_a_broker_of_ours_can_join_kafkas_without_what_is_missing_here(new_cluster: NewCluster) -> None:
    cluster = new_cluster(KAFKAS, KAFKAS, roles=[CONTROLLER, BROKER])
    servers = cluster.bootstrap
    command = [sys.executable, "-m", "broker", "config", "check", "--cluster", servers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing stands in the way" in done.stdout


def test_an_address_where_nobody_answers_is_named() -> None:
    code, lines = verdict("127.0.0.1:1")
    assert code == 2
    assert lines[0].startswith("127.0.0.1:1 does not answer as a broker does")
    assert verdict("somewhere")[0] == 2
