"""`barnabas start --nodes N`: a cluster of one command."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.brokers.quorum_members import ROOT
from tests.support.brokers.several_nodes import ANY_PORTS, WAIT_SECONDS, Nodes
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    started: list[Nodes] = []

    def make(count: int, *options: str) -> Nodes:
        started.append(Nodes(tmp_path, count, options))
        return started[-1]

    yield make
    for each in started:
        each.kill()


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_cluster_of_one_command_keeps_its_data_and_its_addresses(start: Callable[..., Nodes]) -> None:
    nodes = start(5)
    servers = nodes.await_ready()
    assert len(servers.split(",")) == 5
    create_placed(servers, "spread", [[1], [2], [3], [4], [5]])
    write_to_all(servers, "spread", partitions=5, count=20)
    assert nodes.stop() == 0
    again = start(5)
    assert again.await_ready() == servers
    assert read_all(servers, "spread", partitions=5, count=20) == numbered_values(5, 20)
    assert again.stop() == 0


def test_a_node_that_dies_is_started_again(start: Callable[..., Nodes]) -> None:
    nodes = start(3, "broker.session.timeout.ms=5000", "broker.heartbeat.interval.ms=300")
    servers = nodes.await_ready()
    create_placed(servers, "spread", [[1], [2], [3]])
    write_to_all(servers, "spread", partitions=3, count=20)
    first = nodes.pid_of(2)
    assert first is not None
    psutil.Process(first).kill()
    wait(lambda: nodes.pid_of(2) not in (None, first), "node 2 runs again")
    assert "Node 2 has ended (exit code -9); it is started again in 1 s" in nodes.log()
    assert read_all(servers, "spread", partitions=3, count=20) == numbered_values(3, 20)


def test_nodes_stop_when_their_parent_dies(start: Callable[..., Nodes]) -> None:
    nodes = start(2)
    nodes.await_ready()
    children = psutil.Process(nodes.process.pid).children()
    assert len(children) == 2
    nodes.process.kill()
    nodes.process.wait()
    assert not psutil.wait_procs(children, WAIT_SECONDS)[1]


def test_what_cannot_be_is_refused_with_one_line(tmp_path: Path) -> None:
    data = f"log.dirs={tmp_path / 'data'}"
    for options, told in (
        (["--nodes", "0"], "--nodes 0: from 1 to 32 nodes can run on one host"),
        (["--nodes", "2", "--override", "node.id=7"], "--nodes gives each node its own node.id"),
        (["--nodes", "2", "server.properties"], "server.properties describes one node"),
        (
            ["--nodes", "9", "--override", "listeners=PLAINTEXT://:9092,CONTROLLER://:9096"],
            "would need the ports",
        ),
        (["--prepare"], "--prepare writes the files of several nodes"),
    ):
        command = [sys.executable, "-m", "broker", "start", *options, "--override", data]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, options
        assert told in done.stderr
        assert done.stderr.count("\n") == 1


def test_fewer_nodes_than_before_are_refused(tmp_path: Path) -> None:
    def prepare(count: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "broker", "start", "--nodes", str(count), "--prepare"]
        command += ["--override", f"log.dirs={tmp_path}", "--override", ANY_PORTS]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    first = prepare(3)
    assert first.stdout.splitlines() == [f"{tmp_path}/node-{number}.properties" for number in (1, 2, 3)]
    kept = (tmp_path / "node-2.properties").read_text()
    assert prepare(3).returncode == 0
    assert (tmp_path / "node-2.properties").read_text() == kept
    refused = prepare(2)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{tmp_path} holds 3 nodes" in refused.stderr
