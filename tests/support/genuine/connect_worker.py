"""Workers of Kafka Connect in distributed mode, and their REST interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.brokers.ports import free_ports
from tests.support.genuine.java_program import JavaProgram
from tests.support.genuine.kafka_jars import KAFKA_VERSION, java_command, kafka_jars

__all__ = ["ConnectWorker"]

STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
GROUP: Final = "connect"
SESSION: Final = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
"""Of the workers, and of the consumers of the sinks."""
ANSWER_SECONDS: Final = 10
STORES: Final = ("config", "offset", "status")
"""Of which the workers keep what in a topic each."""
FOR_TESTS: Final = {
    **{f"{kind}.storage.replication.factor": "1" for kind in STORES},
    "offset.storage.partitions": "3",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "500",
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "consumer.auto.offset.reset": "earliest",
    **{f"{group}{name}": value for group in ("", "consumer.") for name, value in SESSION.items()},
    "scheduled.rebalance.max.delay.ms": "0",
    "connector.client.config.override.policy": "All",
}


class ConnectWorker(JavaProgram):
    """One worker of the cluster that those with the same `servers` make: with exactly-once sources, short
    times, and topics of one replica. is_plain: with Connect's defaults instead."""

    def __init__(
        self, name: str, servers: str, folder: Path, *, heap: str = "256m", is_plain: bool = False
    ) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        plugins = folder / "plugins" / "connect-file"
        plugins.mkdir(parents=True, exist_ok=True)
        jar = plugins / f"connect-file-{KAFKA_VERSION}.jar"
        if not jar.exists():
            jar.symlink_to(kafka_jars() / jar.name)
        file = folder / f"{name}.properties"
        properties = _properties(servers, self.address, plugins.parent) | ({} if is_plain else FOR_TESTS)
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = java_command("org.apache.kafka.connect.cli.ConnectDistributed", str(file), heap=heap)
        super().__init__(command, folder / f"{name}.log")

    def ask(self, path: str, body: Mapping[str, Any] | None = None, method: str = "PUT") -> Any:
        """The answer to a GET, or to a PUT or POST of this body; None: it does not answer, or not yet."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            data,
            {"Content-Type": "application/json"},
            method="GET" if body is None else method,
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError):
            return None

    def runs_at(self, connector: str) -> str | None:
        """The address of the worker that runs the only task of a connector; None: nobody does now."""
        status = self.ask(f"/connectors/{connector}/status")
        tasks = [] if status is None else status["tasks"]
        return str(tasks[0]["worker_id"]) if [each["state"] for each in tasks] == ["RUNNING"] else None


def _properties(servers: str, address: str, plugins: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "group.id": GROUP,
        "listeners": f"http://{address}",
        "plugin.path": str(plugins),
        "plugin.discovery": "service_load",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        **{f"{kind}.storage.topic": f"connect-{kind}" for kind in STORES},
    }
