"""One JVM that runs the genuine command line tools, call after call.

A tool in a JVM of its own takes a second, nearly all of it Java's start; here the second call of
a tool takes a tenth of that. What a tool reads and prints is what its kafka-*.sh script reads and prints.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, Self

from tests.support.genuine.kafka_jars import KAFKA_VERSION, java_command, kafka_jars
from tests.support.genuine.kafka_tools import CLASSES, ToolResult

SOURCES: Final = Path(__file__).parents[1] / "java"
TOOL_JARS: Final = (f"kafka-tools-{KAFKA_VERSION}.jar", f"kafka_2.13-{KAFKA_VERSION}.jar")

Tool = Callable[..., ToolResult]
"""`ToolServer.run` with the address of a broker already given."""


def compile_java(name: str, folder: Path, *others: str) -> str:
    """Compile tests/support/java/NAME.java, and others; the class path behind the genuine jars, whose archive
    of classes is good only where they come first."""
    classpath = f"{kafka_jars()}/*"
    files = [str(SOURCES / f"{each}.java") for each in (name, *others)]
    command = ["javac", "-cp", classpath, "-d", str(folder), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"javac refused {name}.java:\n{done.stderr}")
    return f"{classpath}:{folder}"


class ToolServer:
    """``run`` is `tests.support.genuine.kafka_tools.run_tool` without the second that Java needs to start."""

    def __init__(self, folder: Path, classpath: str = "") -> None:
        """``classpath`` is where `compile_java` put this server and what else ``run`` may be asked for."""
        classpath = classpath or compile_java("ToolServer", folder)
        jars = [str(kafka_jars() / name) for name in TOOL_JARS]
        command = java_command("ToolServer", *jars, heap="768m")  # what a tool prints is kept until it ends
        command[command.index("-cp") + 1] = classpath
        self.log_file = folder / "tool-server.log"
        with open(self.log_file, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    def run(self, name: str, *arguments: str, stdin: str = "", timeout_seconds: float = 180) -> ToolResult:
        """One call of a tool by the name of its script, or of any class by its full name."""
        words = [CLASSES.get(name, name), *arguments]
        request = struct.pack(">i", len(words)) + b"".join(_block(word) for word in words) + _block(stdin)
        watchdog = threading.Timer(timeout_seconds, self._process.kill)
        watchdog.start()
        try:
            self._pipe(self._process.stdin).write(request)
            self._pipe(self._process.stdin).flush()
            (code,) = struct.unpack(">i", self._read(4))
            return ToolResult(code, self._read_text(), self._read_text())
        except (EOFError, OSError):
            raise RuntimeError(
                f"{name} {' '.join(arguments)} did not end in {timeout_seconds} s, or took the JVM with it:\n"
                f"{self.log_file.read_text()[-2000:]}"
            ) from None
        finally:
            watchdog.cancel()

    def tool_at(self, bootstrap_servers: Callable[[], str]) -> Tool:
        """`run` with ``--bootstrap-server``. The addresses are asked for at each call, because brokers come
        and go."""

        def call(name: str, *arguments: str, stdin: str = "", timeout_seconds: float = 180) -> ToolResult:
            at = ("--bootstrap-server", bootstrap_servers())
            return self.run(name, *arguments, *at, stdin=stdin, timeout_seconds=timeout_seconds)

        return call

    def _read_text(self) -> str:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size).decode()

    def _read(self, size: int) -> bytes:
        data = self._pipe(self._process.stdout).read(size)
        if len(data) < size:
            raise EOFError
        return data

    @staticmethod
    def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
        if stream is None:
            raise RuntimeError("the tool server has no pipe")
        return stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                self._pipe(stream).close()


def _block(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data
