"""`barnabas start --nodes N` in a process of its own: the parent, its children, and what it has told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from tests.support.brokers.quorum_members import ROOT

__all__ = ["ANY_PORTS", "WAIT_SECONDS", "Nodes"]

READY: Final = re.compile(r"Barnabas is ready: (\d+) nodes serve (\S+)")
WAIT_SECONDS: Final = 90
ANY_PORTS: Final = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"


class Nodes:
    """The parent process runs from the start on; its children are numbered from 1."""

    def __init__(
        self,
        folder: Path,
        count: int,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """options: further properties, each as `key=value`. environment: further variables."""
        self.log_file = folder / "nodes.log"
        overrides = [f"log.dirs={folder / 'data'}", ANY_PORTS, "barnabas.admin.listener=", *options]
        command = [sys.executable, "-m", "broker", "start", "--nodes", str(count)]
        for each in overrides:
            command += ["--override", each]
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def await_ready(self) -> str:
        """The bootstrap servers, those of node 1 first. Raises RuntimeError with the log of a start that
        fails."""
        if self.process.stdout is None:
            raise RuntimeError("the nodes' standard output is not a pipe")
        watchdog = threading.Timer(WAIT_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        found = READY.match(line)
        if found is None:
            raise RuntimeError(f"the nodes are not ready: {line}\n{self.log()}")
        return found[2]

    def log(self) -> str:
        return self.log_file.read_text()

    def pid_of(self, number: int) -> int | None:
        """None while it does not run; one that was killed just now is a zombie for a moment."""
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):
                if any(word.endswith(f"node-{number}.properties") for word in child.cmdline()):
                    return int(child.pid)
        return None

    def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_SECONDS)

    def kill(self) -> None:
        """The children too."""
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children():
                child.kill()
            self.process.kill()
            self.process.wait()
