"""A Java program in a process of its own, that may be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

__all__ = ["JavaProgram"]

START_SECONDS: Final = 120
STOP_SECONDS: Final = 90


class JavaProgram:
    """Its standard error goes to the log file. Its standard input is open until it has to leave."""

    def __init__(
        self, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log_file = log_file
        self._command = list(command)
        self._environment = os.environ | dict(environment or {})
        self._process: subprocess.Popen[str] | None = None

    def begin(self) -> Self:
        """The process runs; `await_line` or a request tells when it works."""
        with open(self.log_file, "a") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self

    def await_line(self, wanted: str, seconds: float = START_SECONDS) -> None:
        """The program prints this line."""
        process = self._running()
        if process.stdout is None:
            raise RuntimeError("its standard output is not a pipe")
        watchdog = threading.Timer(seconds, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                if line.rstrip("\n") == wanted:
                    return
        finally:
            watchdog.cancel()
        raise AssertionError(f"it did not print {wanted!r} within {seconds} s:\n{self.log_tail()}")

    def leave(self, last: str) -> None:
        """Ends its standard input, waits for the last line that it prints, and for its end."""
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        self.await_line(last, STOP_SECONDS)
        code = process.wait(STOP_SECONDS)
        assert code == 0, f"it ended with {code}:\n{self.log_tail()}"

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self._running().send_signal(signal.SIGTERM)

    def await_end(self) -> None:
        self._running().wait(STOP_SECONDS)

    def kill(self) -> None:
        """kill -9, as a crash does it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()

    def pause(self) -> None:
        """SIGSTOP: it knows nothing of the time that goes by."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def require_running(self) -> None:
        """A program that gave up by itself has not kept its promise."""
        code = self._running().poll()
        assert code is None, f"it ended by itself with {code}:\n{self.log_tail()}"

    def log_tail(self, size_bytes: int = 4000) -> str:
        text = self.log_file.read_bytes() if self.log_file.exists() else b""
        return text[-size_bytes:].decode(errors="replace")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the program has not been started")
        return self._process
