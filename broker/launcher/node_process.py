"""The process of one node of an embedded broker: it is begun, awaited and ended here.

The child is ``python -I child.py FOLDER start …``. It tells on standard output where it listens, logs to a
file, and has a session of its own.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .child import LIBRARIES

__all__ = ["BrokerFailed", "NodeProcess", "clear_away", "command", "end_all", "environment"]

ADDRESS: Final = re.compile(r"://(?P<host>[^,]*):(?P<port>\d+)")
READY: Final = re.compile(rb"^Barnabas is ready: node \d+ serves (?P<brokers>[^;\n]*)[;\n]", re.MULTILINE)
LOG_TAIL_BYTES: Final = 4_000
DYING_SECONDS: Final = 1.0


class BrokerFailed(Exception):
    """The broker did not start, or has ended by itself; the text shows the end of its log."""


class NodeProcess:
    """folder: what the process deletes if this one dies. arguments: what follows ``barnabas``. It may be
    begun again when it has ended."""

    def __init__(self, python: str, folder: Path | None, log_file: Path, arguments: Sequence[str]) -> None:
        self.log_file = log_file
        self.listeners: dict[str, str] = {}
        self._command = [*command(python, folder), *arguments, "--until-process-ends", str(os.getpid())]
        self._process: subprocess.Popen[bytes] | None = None
        self._held: list[socket.socket] = []

    def hold_ports(self, file: Path) -> None:
        """Keeps the ports of the node's configuration for it, until `let_ports_go`, also while it is down:
        clients and other nodes come back to them. They stay bound, without listening; so the kernel gives
        them to nobody else, and the node may listen on them, as both sides set SO_REUSEADDR."""
        # Properties are ISO-8859-1, as Java reads them.
        lines = [line for line in file.read_text("iso-8859-1").splitlines() if line.startswith("listeners=")]
        for host, port in ADDRESS.findall("".join(lines)):
            holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                holder.bind((host.strip("[]"), int(port)))
            except OSError:
                holder.close()  # somebody else listens on it; the node will say so
            else:
                self._held.append(holder)

    def let_ports_go(self) -> None:
        while self._held:
            self._held.pop().close()

    def begin(self) -> None:
        """Raises OSError."""
        self.close_output()
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Raises RuntimeError before the start."""
        if self._process is None:
            raise RuntimeError("the broker was not started")
        return self._process.pid

    def await_ready(self, timeout_seconds: float) -> None:
        """Returns when clients can connect. Raises BrokerFailed."""
        process = self._process
        if process is None or process.stdout is None:
            raise RuntimeError("the child's standard output is no pipe")
        deadline = time.monotonic() + timeout_seconds
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        told = b""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.failure(f"was not ready after {timeout_seconds:g} s")
            if not poll.poll(left * 1000):
                continue
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                process.wait(max(left, 1.0))
                raise self.failure("did not start")
            told += part
            found = READY.search(told)
            if found:
                break
        for entry in found["brokers"].decode().split(", "):
            name, _, address = entry.partition("://")
            self.listeners[name] = address

    def send_signal(self, number: signal.Signals) -> None:
        if self.is_running and self._process is not None:
            self._process.send_signal(number)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it has ended; it is killed when it has not ended in time."""
        process = self._process
        if process is None:
            return True
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True

    def kill(self) -> None:
        """Kills the process, which writes nothing any more, as in a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def runs_on(self) -> bool:
        """Whether the process still runs after its connection broke: connections break a moment before a
        process ends."""
        try:
            if self._process is not None:
                self._process.wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return False

    def close_output(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self, size_bytes: int = LOG_TAIL_BYTES) -> str:
        return self.log()[-size_bytes:].rstrip() or "(nothing was logged)"

    def failure(self, what: str) -> BrokerFailed:
        code = None if self._process is None else self._process.poll()
        ended = "" if code is None else f" (exit code {code})"
        return BrokerFailed(f"the broker {what}{ended}. Its log ended with:\n{self.log_tail()}")


def end_all(nodes: Sequence[NodeProcess], timeout_seconds: float) -> None:
    """Ends the processes with SIGTERM, together, and with SIGKILL what does not end in time."""
    deadline = time.monotonic() + timeout_seconds
    for node in nodes:
        node.send_signal(signal.SIGTERM)
    for node in nodes:
        node.wait(max(0.0, deadline - time.monotonic()))


def clear_away(nodes: Sequence[NodeProcess], folder: Path | None, owner: int, timeout_seconds: float) -> None:
    """Cleans up when a `Broker` is stopped or garbage-collected, or the interpreter ends."""
    if os.getpid() != owner:
        return  # a fork of the process that started it
    end_all(nodes, timeout_seconds)
    for node in nodes:
        node.close_output()
        node.let_ports_go()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def command(python: str, folder: Path | None) -> list[str]:
    """An interpreter of the program, isolated from the packages of the parent's project."""
    return [python, "-I", str(Path(__file__).with_name("child.py")), str(folder or "")]


def environment() -> Mapping[str, str]:
    """Without the variables that would configure a broker: what it is, the arguments say."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "NOTIFY_"))}
    libraries = [folder for folder in sys.path if folder and os.path.isdir(folder)]
    return kept | {LIBRARIES: os.pathsep.join(libraries)}
