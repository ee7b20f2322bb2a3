"""A broker for a test, a script or a notebook: ``with Broker() as broker: broker.bootstrap_servers``.

It is the same program as ``barnabas start``, in a child interpreter of its own: no name of ours meets a name
of yours (your project may have a ``config.py``), and nothing of it runs in your process.

    your process                                       the child
      Broker.start  ── python -I child.py start … ──▶    ready in some 0.4 s
                    ◀── one line on its standard output: where it listens
      Broker.stop   ── SIGTERM ──▶                        a clean end
      your end, however it comes ── a pidfd ──▶           the same, and it clears its folder away

The child has a session of its own: Ctrl-C in your terminal reaches you alone, and your ``with`` (or the end
of your interpreter) stops the broker. No signal handler, no thread: a notebook's cell, a worker thread and
pytest-xdist's workers may each start their own. A process that you fork does not stop the broker when it
ends.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from .child import LIBRARIES
from .topics import TopicRefused, create_topic

__all__ = ["Broker", "BrokerFailed", "TopicRefused"]

READY: Final = re.compile(rb"^Barnabas is ready: node \d+ serves (?P<brokers>.*); controller ", re.MULTILINE)
LOG_TAIL_BYTES: Final = 4_000
STOP_SECONDS: Final = 15.0
LAST_STOP_SECONDS: Final = 3.0
"""How long a broker may take to stop when the interpreter of the test or notebook is ending."""
DYING_SECONDS: Final = 1.0


class BrokerFailed(Exception):
    """The broker did not start, or has ended by itself; the text shows the end of its log."""


class Broker:
    """One Kafka-compatible broker on 127.0.0.1, gone with its data at the end.

    config: Kafka's broker properties by name, over the defaults of an embedded broker (one partition of
    ``__consumer_offsets``, no admin port). host, port: where clients connect; port 0 takes a free one. data:
    a folder that stays, with its data, for the next broker; without it the data lies in a temporary one.
    keep: the temporary folder, with data and log, stays too. log: a file for the broker's log; else it is in
    the temporary folder. python: another interpreter for the child. Raises nothing before `start`.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        data: str | os.PathLike[str] | None = None,
        keep: bool = False,
        log: str | os.PathLike[str] | None = None,
        start_timeout_seconds: float = 30.0,
        python: str | None = None,
    ) -> None:
        self.bootstrap_servers = ""
        """The value for clients' ``bootstrap.servers``; empty until the broker is started."""
        self.listeners: dict[str, str] = {}
        """The address (host and port) of each listener, by the listener's name."""
        self._config = {name: _text(value) for name, value in (config or {}).items()}
        self._host = f"[{host}]" if ":" in host else host
        self._port = port
        self._data = None if data is None else Path(data).absolute()
        self._keep = keep
        self._log = None if log is None else Path(log).absolute()
        self._start_timeout_seconds = start_timeout_seconds
        self._python = python or sys.executable
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._undo: weakref.finalize[[subprocess.Popen[bytes], Path | None, int], Broker] | None = None

    # Start and stop

    def start(self) -> Self:
        """Returns when clients can connect. Raises BrokerFailed with the last lines of the log."""
        if self._process is not None:
            raise RuntimeError("this broker was started before; make another one")
        self._folder = Path(tempfile.mkdtemp(prefix="barnabas-"))
        command = [self._python, "-I", str(Path(__file__).with_name("child.py")), str(self._folder), "start"]
        for name, value in (self._defaults(self._folder) | self._config).items():
            command += ["--override", f"{name}={value}"]
        command += ["--until-process-ends", str(os.getpid())]
        try:
            with open(self.log_file, "ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_environment(),
                    start_new_session=True,
                )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        folder = None if self._keep else self._folder
        self._undo = weakref.finalize(self, _end, self._process, folder, os.getpid())
        try:
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stops the broker cleanly and deletes the temporary folder. It does nothing if the broker has ended
        already."""
        if self._undo is not None and self._undo.alive and self._process is not None:
            _terminate(self._process, STOP_SECONDS)
            self._undo()

    def kill(self) -> None:
        """Kills the broker as a crash would: it writes nothing any more."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.stop()

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stops the broker. If the ``with`` block raised, the end of the broker's log is added to the
        exception as a note."""
        if isinstance(error, Exception) and not isinstance(error, BrokerFailed):
            error.add_note(f"The broker's log ended with:\n{self.log_tail()}")
        self.stop()

    def __repr__(self) -> str:
        if self._process is None:
            return "<Broker, not started>"
        return f"<Broker {self.bootstrap_servers}{'' if self.is_running else ', ended'}>"

    # For tests

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the broker's process. Raises RuntimeError before the start."""
        if self._process is None:
            raise RuntimeError("the broker was not started")
        return self._process.pid

    @property
    def port(self) -> int:
        """The port of the first listener; 0 before the start."""
        return int(self.bootstrap_servers.rpartition(":")[2] or 0)

    @property
    def data_directory(self) -> Path:
        """Kafka's ``log.dirs``. Raises RuntimeError before the start, if it is a temporary one."""
        return self._data or self._temporary / "data"

    @property
    def log_file(self) -> Path:
        """The file with the broker's log. Raises RuntimeError before the start if it is in the temporary
        folder."""
        return self._log or self._temporary / "broker.log"

    def log(self) -> str:
        """All that the broker has logged so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self, size_bytes: int = LOG_TAIL_BYTES) -> str:
        """The last lines of the broker's log."""
        text = self.log()[-size_bytes:].rstrip()
        return text or "(nothing was logged)"

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        config: Mapping[str, Any] | None = None,
        timeout_seconds: float = 10.0,
    ) -> str:
        """Makes a topic and returns its name when it can be used; without a name it gets a new one.

        Raises TopicRefused with the broker's words (a topic of the name is there, a bad config, …), and
        BrokerFailed if the broker has gone.
        """
        made = name or f"topic-{uuid.uuid4().hex[:12]}"
        configs = {key: _text(value) for key, value in (config or {}).items()}
        address = self.bootstrap_servers.partition(",")[0]
        try:
            create_topic(address, made, partitions, replication_factor, configs, timeout_seconds)
        except OSError as error:
            if self._runs_on():
                raise
            raise self._failure("has gone") from error
        return made

    # Starting the process

    @property
    def _temporary(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the broker was not started")
        return self._folder

    def _defaults(self, folder: Path) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{self._host}:{self._port},CONTROLLER://127.0.0.1:0",
            "log.dirs": str(self._data or folder / "data"),
            "offsets.topic.num.partitions": "1",
            "barnabas.admin.listener": "",
        }

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        output = process.stdout
        if output is None:
            raise RuntimeError("the child's standard output is no pipe")
        deadline = time.monotonic() + self._start_timeout_seconds
        poll = select.poll()
        poll.register(output, select.POLLIN)
        told = b""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._failure(f"was not ready after {self._start_timeout_seconds:g} s")
            if not poll.poll(left * 1000):
                continue
            part = os.read(output.fileno(), 65536)
            if not part:
                process.wait(max(left, 1.0))
                raise self._failure("did not start")
            told += part
            found = READY.search(told)
            if found:
                break
        for entry in found["brokers"].decode().split(", "):
            name, _, address = entry.partition("://")
            self.listeners[name] = address
        self.bootstrap_servers = next(iter(self.listeners.values()))

    def _runs_on(self) -> bool:
        """Whether the process still runs after its connection broke: connections break a moment before a
        process ends."""
        try:
            if self._process is not None:
                self._process.wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _failure(self, what: str) -> BrokerFailed:
        code = None if self._process is None else self._process.poll()
        ended = "" if code is None else f" (exit code {code})"
        return BrokerFailed(f"the broker {what}{ended}. Its log ended with:\n{self.log_tail()}")


def _text(value: Any) -> str:
    """The value as it is written in Kafka's properties."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(each) for each in value)
    return str(value)


def _environment() -> dict[str, str]:
    """Without the variables that would configure a broker: what it is, the arguments say."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "NOTIFY_"))}
    libraries = [folder for folder in sys.path if folder and os.path.isdir(folder)]
    return kept | {LIBRARIES: os.pathsep.join(libraries)}


def _terminate(process: subprocess.Popen[bytes], timeout_seconds: float) -> None:
    """Ends the process with SIGTERM, and with SIGKILL if it does not end in time."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end(process: subprocess.Popen[bytes], folder: Path | None, owner: int) -> None:
    """Cleans up when a `Broker` is stopped or garbage-collected, or the interpreter ends."""
    if os.getpid() != owner:
        return  # a fork of the process that started it
    _terminate(process, LAST_STOP_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
