"""Apache Kafka itself, one node, from Maven's jars: the measure of all the rest."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tests.support.brokers.ports import free_ports
from tests.support.genuine.kafka_jars import java_command, measured_java_command

NO_FEATURES: Final = tuple(f"{name}.version=0" for name in ("share", "streams"))
"""The feature levels of a broker that serves groups of consumers and transactions, as Barnabas does."""


class GenuineKafka:
    """One node of Apache Kafka 4.3.1, broker and controller in one process."""

    def __init__(self, data: Path, overrides: Mapping[str, str] | None = None, *, heap: str = "512m") -> None:
        self.data = data
        self.log_file = data.with_name(data.name + ".log")
        self.heap = heap
        self.flags: tuple[str, ...] = ()
        """Of a broker that is measured, in place of those that make a test's broker start fast."""
        self.more_flags: tuple[str, ...] = ()
        self.features: tuple[str, ...] = ()
        """Levels to format with where Kafka's own are not wanted, as ``group.version=0``."""
        broker, controller = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{broker}"
        self.bootstrap_controllers = f"127.0.0.1:{controller}"
        self.properties = _one_node(data, broker, controller) | dict(overrides or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Apache Kafka has not been started")
        return self._process.pid

    def start(self, timeout_seconds: float = 120) -> Self:
        if self._process is not None and self._process.poll() is None:
            raise RuntimeError(f"Kafka runs already, as process {self.pid}: two would share {self.data}")
        file = self.write_properties()
        if not self.data.exists():
            self.format()
        if self.flags:
            command = measured_java_command("kafka.Kafka", str(file), heap=self.heap, flags=self.flags)
        else:
            command = java_command("kafka.Kafka", str(file), heap=self.heap, extra=self.more_flags)
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
        self._await_port(timeout_seconds)
        return self

    def write_properties(self) -> Path:
        """The file that it is started with."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        file = self.data.with_name(self.data.name + ".properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))
        return file

    def format(self) -> None:
        """As kafka-storage.sh does it; the first start would."""
        command = java_command(
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            "-t",
            "bWVhc3VyZW9mYWxsdGhpbg",
            "-c",
            str(self.write_properties()),
            *(word for feature in self.features for word in ("--feature", feature)),
        )
        subprocess.run(command, check=True, capture_output=True, timeout=180)

    def _await_port(self, timeout_seconds: float) -> None:
        host, _, port = self.bootstrap_servers.partition(":")
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"Apache Kafka did not start:\n{self.log_file.read_text()[-3000:]}")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(120)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        is_running = self._process is not None and self._process.poll() is None
        return self if is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _one_node(data: Path, broker: int, controller: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
