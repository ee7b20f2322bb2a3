"""Java's transactional producers, consumers and admin, directed from Python (TransactionClients.java)."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Final, Self

from tests.support.genuine.kafka_jars import java_command
from tests.support.genuine.tool_server import compile_java

PATIENCE_SECONDS: Final = 100


class JavaRefusal(Exception):
    """A client threw: ``name`` is the exception's, ``message`` what it says."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class JavaClients:
    """One JVM with clients that have names. A call returns its answer's words, or raises `JavaRefusal`."""

    def __init__(self, address: str, folder: Path) -> None:
        command = java_command("TransactionClients", address)
        command[command.index("-cp") + 1] = compile_java("TransactionClients", folder)
        self._log_file = folder / "java-clients.log"
        with open(self._log_file, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def __call__(self, *words: object) -> list[str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the clients have no pipes")
        watchdog = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        watchdog.start()
        try:
            stdin.write("\t".join(map(str, words)) + "\n")
            stdin.flush()
            kind, *answer = stdout.readline().rstrip("\n").split("\t")
        finally:
            watchdog.cancel()
        if kind == "error":
            raise JavaRefusal(answer[0], answer[1])
        if kind != "ok":
            raise RuntimeError(f"{words}: no answer\n{self._log_file.read_text()[-3000:]}")
        return answer

    def refusal(self, *words: object) -> str:
        """The name of the exception that a call must end with."""
        try:
            answer = self(*words)
        except JavaRefusal as refusal:
            return refusal.name
        raise AssertionError(f"{words} was answered with {answer}")

    def read(self, topic: str, partitions: int, isolation: str) -> list[list[str]]:
        """The values of each partition, as far as the isolation level shows them."""
        answer = self("read", topic, partitions, isolation)
        return [values.split(",") if values else [] for values in answer]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
