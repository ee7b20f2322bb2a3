"""A Barnabas broker as a user starts it: a process of its own, ports by the kernel (`ports`).

The tests learn the ports from the line that announces readiness, and on failure
they show the end of the broker's log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tests.support.brokers.ports import free_ports

ROOT: Final = Path(__file__).resolve().parents[3]
READY: Final = re.compile(r"Barnabas is ready: .*?(?P<broker>(?:PLAINTEXT|SSL)://(?P<address>\S+:\d+))")
CONTROLLER: Final = re.compile(r"CONTROLLER://(?P<address>\S+:\d+)")
READY_SECONDS: Final = 90


class BarnabasProcess:
    """One broker process on a data directory that outlives it.

    ``overrides`` are Kafka's property names. ``start`` may be called again after
    ``stop`` or ``kill``: same directory, and the same port unless told otherwise.
    """

    def __init__(
        self, data: Path, overrides: Mapping[str, str] | None = None, *, python: str = sys.executable
    ) -> None:
        self.data = data
        self.log_file = data.with_name(data.name + ".log")
        self.bootstrap_servers = ""
        self.bootstrap_controllers = ""
        self.ready_line = ""
        self._overrides = dict(overrides or {})
        self._python = python
        self._working_directory = ROOT
        self.module = "broker"
        """What is started: a test may put something before the broker's own `main`."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the broker has not been started")
        return self._process

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    def start(self, **overrides: str) -> Self:
        self._overrides.update({name.replace("_", "."): value for name, value in overrides.items()})
        command = [*self._program(), "start"]
        for name, value in (self._defaults() | self._overrides).items():
            command += ["--override", f"{name}={value}"]
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._working_directory,
                env=self._environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._await_ready()
        return self

    def start_anywhere(self) -> Self:
        """`start` on another port than before."""
        self.bootstrap_servers = ""
        return self.start()

    def _program(self) -> list[str]:
        return [self._python, "-m", self.module]

    def _environment(self) -> dict[str, str]:
        """That of the tests, but compiled modules are kept, as they are for users. A start that compiles all
        takes more than twice as long."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return kept | {"PYTHONUNBUFFERED": "1"}

    def _defaults(self) -> dict[str, str]:
        port = self.port if self.bootstrap_servers else free_ports(1)[0]
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
            "log.dirs": str(self.data),
            "barnabas.admin.listener": "127.0.0.1:0",
        }

    def _await_ready(self) -> None:
        stdout = self.process.stdout
        if stdout is None:
            raise RuntimeError("the broker's standard output is not a pipe")
        watchdog = threading.Timer(READY_SECONDS, self.process.kill)
        watchdog.start()
        try:
            for line in stdout:
                found = READY.search(line)
                if found:
                    self.ready_line = line.rstrip("\n")
                    self.bootstrap_servers = found["address"]
                    controller = CONTROLLER.search(line)
                    self.bootstrap_controllers = controller["address"] if controller else ""
                    threading.Thread(target=stdout.read, daemon=True).start()
                    return
        finally:
            watchdog.cancel()
        code = self.process.wait()
        raise RuntimeError(f"the broker ended with {code} before it was ready:\n{self.log_tail()}")

    def log_tail(self, size_bytes: int = 4000) -> str:
        text = self.log_file.read_bytes() if self.log_file.exists() else b""
        return text[-size_bytes:].decode(errors="replace")

    def stop(self, timeout_seconds: float = 90) -> int:
        """SIGTERM and wait: a clean stop, as systemd does it. The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(
                f"the broker did not stop in {timeout_seconds} s:\n{self.log_tail()}"
            ) from None

    def kill(self) -> None:
        """kill -9, as a crash does it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()
