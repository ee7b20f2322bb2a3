"""Producers and consumers of genuine clients: one program of each client, which is given jobs by turns.

A program stays for as long as its broker is measured, so that a virtual machine is warm. It reads jobs on its
standard input, a line each, and says ``ready`` when its clients have what they need. On a further line it
begins, tells the outcome as a line of JSON, ``records`` and ``seconds``, and says ``done`` when its clients
are closed::

    produce TOPIC PRODUCERS RECORD_BYTES WARM SECONDS
    consume TOPIC CONSUMERS PARTITIONS RECORDS      the partitions are dealt out to the consumers

Producers have been sending for WARM seconds when they are ready, and go on: what counts is what is
acknowledged within the SECONDS after, since producers live for long, and the first batch of each on each
partition costs a broker more than later ones. Consumers read the topic once.

Each client is an instance of its own with a thread of its own, and has the settings that its library gives
it. librdkafka is driven in C, since Python costs more than it does; it is the library in the wheel of
confluent-kafka, so nothing has to be installed but a C compiler.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

import confluent_kafka

from tests.performance.compiled import compiled
from tests.performance.contenders import Contender
from tests.performance.processor_time import spent
from tests.support.genuine.go_programs import MODULE, go_program
from tests.support.genuine.kafka_jars import KAFKA_VERSION, measured_java_command, missing
from tests.support.genuine.tool_server import compile_java

CLIENT_HEAP: Final = "1g"
CLIENT_FLAGS: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExplicitGCInvokesConcurrent")
"""Those of Kafka's own start script, with a heap for eight producers in one virtual machine."""
WARM_SECONDS: Final = 1.5
PATIENCE_SECONDS: Final = 180.0
"""A program that has not answered for so long is killed."""


class Client(NamedTuple):
    """A genuine client. command: where its program can be had, what it is started with for the broker at an
    address; its folder keeps what has to be compiled. Skips (`missing`) where something is not installed."""

    title: str
    command: Callable[[Path, str], list[str]]


class Run(NamedTuple):
    """What one job did, and the processor seconds of both sides by the kernel's account."""

    records: int
    seconds: float
    broker_seconds: float
    client_seconds: float


class GenuineProgram:
    """The program of one client for one broker."""

    def __init__(self, client: Client, folder: Path, contender: Contender) -> None:
        self._contender = contender
        self._log_file = folder / "clients.log"
        command = client.command(folder, contender.process.bootstrap_servers)
        with open(self._log_file, "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def produce(self, topic: str, producers: int, record_bytes: int, seconds: float) -> Run:
        """Raises RuntimeError, as `consume` does, if the program has failed or says nothing any more."""
        return self._run(f"produce {topic} {producers} {record_bytes} {WARM_SECONDS:g} {seconds:.3f}")

    def consume(self, topic: str, consumers: int, partitions: int, records: int) -> Run:
        return self._run(f"consume {topic} {consumers} {partitions} {records}")

    def _run(self, job: str) -> Run:
        watchdog = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._say(job)
            self._hear()
            before, own = self._contender.spent(), spent(self._process.pid)
            self._say("go")
            told = json.loads(self._hear())
            broker = self._contender.spent() - before
            client = spent(self._process.pid) - own
            self._hear()
        except (EOFError, OSError):
            said = self._log_file.read_text(errors="replace")[-2000:]
            raise RuntimeError(
                f"{self._contender.name}: a client did not do its job ({job}):\n{said}"
            ) from None
        finally:
            watchdog.cancel()
        return Run(told["records"], told["seconds"], broker.seconds, client.seconds)

    def _say(self, line: str) -> None:
        stream = _pipe(self._process.stdin)
        stream.write(line + "\n")
        stream.flush()

    def _hear(self) -> str:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise EOFError
        return line

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                _pipe(stream).close()


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RuntimeError("the program has no pipe")
    return stream


def _librdkafka(folder: Path, address: str) -> list[str]:
    program = compiled("librdkafka_client")
    if program is None:
        missing("librdkafka is driven in C: there is no cc, gcc or clang on the PATH")
    home = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    library = next(home.glob("librdkafka*.so*"), None)
    if library is None:
        missing("this confluent-kafka has no librdkafka in its wheel")
    return [str(program), str(library), address]


def _java(folder: Path, address: str) -> list[str]:
    command = measured_java_command("LoadClients", address, heap=CLIENT_HEAP, flags=CLIENT_FLAGS)
    command[command.index("-cp") + 1] = compile_java("LoadClients", folder)
    return command


def _franz_go(folder: Path, address: str) -> list[str]:
    return [go_program("load", optimized=True), address]


def _franz_go_version() -> str:
    found = re.search(r"twmb/franz-go v(\S+)", (MODULE / "go.mod").read_text())
    return found[1] if found else ""


CLIENTS: Final[Sequence[Client]] = (
    Client(f"librdkafka {confluent_kafka.libversion()[0]}", _librdkafka),
    Client(f"Java client {KAFKA_VERSION}", _java),
    Client(f"franz-go {_franz_go_version()}", _franz_go),
)
