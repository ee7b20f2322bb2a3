"""Nodes as users run them: a properties file, formatted by `storage format`, started with it.

Ours and Apache Kafka's have the same handles, so that a quorum or a cluster may be made of either, or of
both. A node is a controller unless its properties say otherwise (`tests.support.brokers.cluster` gives them).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

import psutil

from tests.support.genuine.genuine_kafka import NO_FEATURES
from tests.support.genuine.kafka_jars import java_command, measured_java_command
from tests.support.genuine.tool_server import ToolServer

ROOT: Final = Path(__file__).resolve().parents[3]
START_SECONDS: Final = 120
WAIT_SECONDS: Final = 120
STOP_SECONDS: Final = 90
POLL_SECONDS: Final = 0.01

FoundT = TypeVar("FoundT")


class Member(ABC):
    """One node: a directory, a port that it listens on, a properties file that outlive its process."""

    def __init__(
        self, node_id: int, folder: Path, port: int, directory_id: str, properties: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.port = port
        self.directory_id = directory_id
        self.data = folder / f"node-{node_id}"
        self.log_file = folder / f"node-{node_id}.log"
        self.properties_file = folder / f"node-{node_id}.properties"
        self.properties = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "log.dirs": str(self.data),
            **properties,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def as_initial_controller(self, port: int = 0) -> str:
        """As `storage format --initial-controllers` lists it. port: where others reach it, if not at its
        own."""
        return f"{self.node_id}@127.0.0.1:{port or self.port}:{self.directory_id}"

    @property
    def metadata_log(self) -> Path:
        return self.data / "__cluster_metadata-0"

    @property
    def directories(self) -> list[Path]:
        """Its log directories, `data` first."""
        return [Path(each) for each in self.properties["log.dirs"].split(",")]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"node {self.node_id} has not been started")
        return self._process.pid

    def write_properties(self) -> None:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.properties.items()]
        self.properties_file.write_text("".join(lines))

    @abstractmethod
    def format(self, cluster_id: str, *voters: str) -> None:
        """voters: the options of `storage format` that say who votes."""

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    def begin(self) -> Self:
        """The process runs; it may take a while until it answers."""
        self.write_properties()
        self._is_stopping = False
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=ROOT, env=os.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def await_listening(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.is_running:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(POLL_SECONDS)
        raise RuntimeError(f"node {self.node_id} does not listen:\n{self.log_tail()}")

    def start(self) -> Self:
        self.begin().await_listening()
        return self

    def ended(self) -> int:
        """Waits until the process has ended by itself; the exit code."""
        if self._process is None:
            raise RuntimeError(f"node {self.node_id} has not been started")
        return self._process.wait(START_SECONDS)

    def ask_to_stop(self) -> None:
        """SIGTERM, once: a second one would end it at once."""
        if self.is_running and not self._is_stopping:
            self.signal(signal.SIGTERM)
        self._is_stopping = True

    def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        if self._process is None:
            return 0
        self.ask_to_stop()
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(
                f"node {self.node_id} did not stop in {STOP_SECONDS} s:\n{self.log_tail()}"
            ) from None

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT make a pause."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, as a crash does it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def formatted_directory_id(self) -> str:
        """As `storage format` has given it, to one that was not an initial controller."""
        lines = (self.data / "meta.properties").read_text().splitlines()
        return dict(line.partition("=")[::2] for line in lines)["directory.id"].replace("\\", "")

    def snapshot_ends(self) -> list[int]:
        """The end offsets of its snapshots, the first voters' apart."""
        names = [path.name for path in self.metadata_log.glob("*.checkpoint")]
        return sorted(end for name in names if (end := int(name[:20])) > 0)

    def first_snapshot_end(self) -> int:
        return self.snapshot_ends()[0]

    def await_snapshots(self, count: int) -> None:
        await_found(lambda: len(self.snapshot_ends()) >= count or None, f"{count} snapshots", [self])

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    def log_tail(self, size_bytes: int = 4000) -> str:
        text = self.log_file.read_bytes() if self.log_file.exists() else b""
        return text[-size_bytes:].decode(errors="replace")


class OurController(Member):
    """A Barnabas node, without the admin port that only one of them could have."""

    def __init__(
        self, node_id: int, folder: Path, port: int, directory_id: str, properties: Mapping[str, str]
    ) -> None:
        super().__init__(node_id, folder, port, directory_id, {"barnabas.admin.listener": "", **properties})
        self.module = "broker"
        """What is started: a test may put something before the broker's own `main`."""

    def format(self, cluster_id: str, *voters: str) -> None:
        self.write_properties()
        command = [sys.executable, "-m", "broker", "storage", "format", "-t", cluster_id, *voters]
        command += ["-c", str(self.properties_file)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"storage format refused: {done.stdout}{done.stderr}")

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", self.module, "start", str(self.properties_file)]


class GenuineController(Member):
    """A node of Apache Kafka 4.3.1, with the feature levels that Barnabas has."""

    def __init__(
        self,
        node_id: int,
        folder: Path,
        port: int,
        directory_id: str,
        properties: Mapping[str, str],
        *,
        tools: ToolServer,
        heap: str = "256m",
        flags: tuple[str, ...] = (),
    ) -> None:
        """flags: of the virtual machine, its collector too, in place of those with which it starts soon."""
        super().__init__(node_id, folder, port, directory_id, properties)
        self._tools = tools
        self._heap = heap
        self._flags = flags

    def format(self, cluster_id: str, *voters: str) -> None:
        self.write_properties()
        features = [word for feature in NO_FEATURES for word in ("--feature", feature)]
        where = ("-t", cluster_id, "-c", str(self.properties_file))
        done = self._tools.run("kafka-storage", "format", *where, *voters, *features)
        if done.code != 0:
            raise RuntimeError(f"kafka-storage format refused: {done.out}{done.err}")

    def command(self) -> Sequence[str]:
        what = ("kafka.Kafka", str(self.properties_file))
        if self._flags:
            return measured_java_command(*what, heap=self._heap, flags=self._flags)
        return java_command(*what, heap=self._heap)


def await_found(
    found: Callable[[], FoundT | None],
    what: str,
    members: Iterable[Member],
    *,
    poll_seconds: float = POLL_SECONDS,
    seconds: float = WAIT_SECONDS,
) -> FoundT:
    """What is found as soon as it is; None: not yet. Raises RuntimeError with the last lines of the logs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = found()
        if result is not None:
            return result
        time.sleep(poll_seconds)
    tails = "\n".join(f"-- {each.node_id}:\n{each.log_tail(1500)}" for each in members)
    raise RuntimeError(f"{seconds:g} s have brought no {what}:\n{tails}")
