"""The book's exercise with Kafka Connect (4.1.1.2): a file whose lines become the records of a topic.

Same book as in ``test_book_cluster``. The worker has the book's properties and those that say where it lives:
its three topics have the three replicas of Connect's default, and nobody creates the connector's topic.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, OURS
from tests.support.clients.book import consume, fields
from tests.support.clients.librdkafka import until
from tests.support.genuine.connect_worker import ConnectWorker
from tests.support.genuine.tool_server import Tool, ToolServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CONNECTOR: Final = "rocket-source"
TOPIC: Final = "rockets"


def rows_of(tool: Tool, topic: str) -> list[dict[str, str]]:
    """Of ``kafka-topics --describe``: the topic, then its partitions."""
    return [fields(line) for line in tool("kafka-topics", "--describe", "--topic", topic).lines]


def require_answer(worker: ConnectWorker, path: str, wanted: Callable[[Any], bool]) -> None:
    last: list[Any] = []

    def says() -> bool:
        worker.require_running()
        last[:] = [worker.ask(path)]
        return last[0] is not None and wanted(last[0])

    until(says, f"the answer to GET {path}")


def append(file: Path, line: str) -> None:
    with file.open("a") as end:
        end.write(f"{line}\n")


def read(tool: Tool, count: int) -> list[str]:
    return consume(tool, TOPIC, "--from-beginning", "--max-messages", str(count), seconds=60).lines


def await_running(worker: ConnectWorker) -> None:
    running = {"state": "RUNNING", "worker_id": worker.address}
    status = {"name": CONNECTOR, "connector": running, "tasks": [{"id": 0, **running}], "type": "source"}

    def runs(told: Any) -> bool:
        told["connector"].pop("version", None)
        for task in told["tasks"]:
            task.pop("version", None)
        return bool(told == status)

    require_answer(worker, f"/connectors/{CONNECTOR}/status", runs)


def test_b1_to_b7_lines_of_a_file(new_cluster: NewCluster, tool_server: ToolServer, tmp_path: Path) -> None:
    cluster = new_cluster(OURS, OURS, OURS, **FAST)
    tool = tool_server.tool_at(lambda: cluster.bootstrap)
    file = tmp_path / "rockets.txt"
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": TOPIC}
    worker = ConnectWorker("worker", cluster.nodes[1].client_address, tmp_path, is_plain=True).begin()
    try:
        require_answer(worker, "/connectors", lambda told: told == [])
        # A worker refuses while its group rebalances.
        until(lambda: worker.ask("/connectors", {"name": CONNECTOR, "config": config}, "POST"), "it is made")
        require_answer(worker, "/connectors", lambda told: told == [CONNECTOR])
        await_running(worker)
        until(lambda: f"Couldn't find file {file} for FileStreamSourceTask" in worker.log_tail(), "a warning")
        for kind in ("config", "offset", "status"):
            topic, *partitions = rows_of(tool, f"connect-{kind}")
            assert topic["ReplicationFactor"] == "3"
            assert {len(each["Replicas"].split(",")) for each in partitions} == {3}
        assert TOPIC not in tool("kafka-topics", "--list").lines
        for line in ("Death Star", "Falcon"):
            append(file, line)
        until(lambda: TOPIC in tool("kafka-topics", "--list").lines, "the topic is created by the broker")
        assert read(tool, 2) == ["Death Star", "Falcon"]
        worker.ask_to_stop()
        worker.await_end()
        append(file, "X-Wing")
        worker.begin()
        assert read(tool, 3) == ["Death Star", "Falcon", "X-Wing"], "it goes on where it was"
        await_running(worker)
    finally:
        worker.kill()
