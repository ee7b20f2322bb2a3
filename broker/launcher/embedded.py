"""A broker for a test, a script or a notebook: ``with Broker() as broker: broker.bootstrap_servers``.

It is the same program as ``barnabas start``, in a child interpreter of its own: no name of ours meets a name
of yours (your project may have a ``config.py``), and nothing of it runs in your process.

    your process                                       the child
      Broker.start  ── python -I child.py start … ──▶    ready in some 0.4 s
                    ◀── one line on its standard output: where it listens
      Broker.stop   ── SIGTERM ──▶                        a clean end
      your end, however it comes ── a pidfd ──▶           the same, and it clears its folder away

``Broker(nodes=3)`` is a cluster: three such children, each a node, in one folder. ``kill(2)`` and
``start(2)`` let a test see what its program does when a node is gone::

    with Broker(nodes=3) as cluster:
        topic = cluster.create_topic(replication_factor=3)
        cluster.kill(1)          as a crash does it: other nodes take over after some seconds
        cluster.start(1)         on the same data, at the same address

The child has a session of its own: Ctrl-C in your terminal reaches you alone, and your ``with`` (or the end
of your interpreter) stops the broker. No signal handler, no thread: a notebook's cell, a worker thread and
pytest-xdist's workers may each start their own. A process that you fork does not stop the broker when it
ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from .node_process import BrokerFailed, NodeProcess, clear_away, command, end_all, environment
from .topics import TopicRefused, create_topic

__all__ = ["Broker", "BrokerFailed", "TopicRefused"]

LOG_TAIL_BYTES: Final = 4_000
STOP_SECONDS: Final = 15.0
LAST_STOP_SECONDS: Final = 3.0
"""The time that a broker may take to stop when the interpreter of the test or notebook is ending."""
MOST_COPIES: Final = 3
BROKERS_DEFAULT: Final = -1


class Broker:
    """One Kafka-compatible broker on 127.0.0.1, or a cluster of them, gone with its data at the end.

    config: Kafka's broker properties by name, over the defaults of an embedded broker (one partition of
    ``__consumer_offsets``, no admin port). host, port: where clients connect; port 0 takes a free one. data:
    a folder that stays, with its data, for the next broker; without it the data lies in a temporary one.
    keep: the temporary folder, with data and log, stays too. log: a file for the broker's log; else it is in
    the temporary folder. python: another interpreter for the child. nodes: so many nodes of one cluster, each
    a process; topics have up to three copies, and a node that is gone is replaced after some five seconds.
    Raises nothing before `start`.
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
        nodes: int | None = None,
    ) -> None:
        self.bootstrap_servers = ""
        """The value for clients' ``bootstrap.servers``; empty until the broker is started."""
        self.listeners: dict[str, str] = {}
        """The address (host and port) of each listener of the first node, by the listener's name."""
        self._config = {name: _text(value) for name, value in (config or {}).items()}
        self._host = f"[{host}]" if ":" in host else host
        self._port = port
        self._data = None if data is None else Path(data).absolute()
        self._keep = keep
        self._log = None if log is None else Path(log).absolute()
        self._start_timeout_seconds = start_timeout_seconds
        self._python = python or sys.executable
        self._count = nodes
        self._folder: Path | None = None
        self._nodes: list[NodeProcess] = []
        self._undo: weakref.finalize[..., Broker] | None = None

    # Start and stop

    def start(self, node: int | None = None) -> Self:
        """Returns when clients can connect. Raises BrokerFailed with the last lines of the log.

        node: of a cluster, one that was killed: it is started on its data and at its address.
        """
        if node is not None:
            again = self._node(node)
            if again.is_running:
                raise RuntimeError(f"node {node} runs")
            again.begin()
            again.await_ready(self._start_timeout_seconds)
            return self
        if self._folder is not None:
            raise RuntimeError("this broker was started before; make another one")
        self._folder = Path(tempfile.mkdtemp(prefix="barnabas-"))
        try:
            for number, arguments in enumerate(self._lives(self._folder), 1):
                log_file = self._log_file_of(number)
                self._nodes.append(NodeProcess(self._python, self._passing_folder, log_file, arguments))
                if self._count is not None:
                    self._nodes[-1].hold_ports(Path(arguments[-1]))
            for each in self._nodes:
                each.begin()
        except BaseException:  # a notebook's interrupt too: its process goes on
            clear_away(self._nodes, self._passing_folder, os.getpid(), LAST_STOP_SECONDS)
            raise
        folder = self._passing_folder
        self._undo = weakref.finalize(self, clear_away, self._nodes, folder, os.getpid(), LAST_STOP_SECONDS)
        try:
            for each in self._nodes:
                each.await_ready(self._start_timeout_seconds)
        except BaseException:
            self.kill()
            raise
        self.listeners |= self._nodes[0].listeners
        self.bootstrap_servers = ",".join(_first(each.listeners) for each in self._nodes)
        return self

    def stop(self) -> None:
        """Stops the broker cleanly and deletes the temporary folder. It does nothing if the broker has ended
        already."""
        if self._undo is not None and self._undo.alive:
            end_all(self._nodes, STOP_SECONDS)
            self._undo()

    def kill(self, node: int | None = None) -> None:
        """Kills the broker as a crash would: it writes nothing any more. node: only this one of a cluster,
        which `start` may start again."""
        if node is not None:
            self._node(node).kill()
            return
        for each in self._nodes:
            each.kill()
        self.stop()

    def _node(self, number: int) -> NodeProcess:
        if self._count is None or not 1 <= number <= len(self._nodes):
            have = f"nodes 1 to {len(self._nodes)}" if self._count and self._nodes else "no numbered nodes"
            raise ValueError(f"there is no node {number}: this broker has {have}")
        return self._nodes[number - 1]

    def __enter__(self) -> Self:
        return self.start() if self._folder is None else self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stops the broker. If the ``with`` block raised, the end of the broker's log is added to the
        exception as a note."""
        if isinstance(error, Exception) and not isinstance(error, BrokerFailed):
            error.add_note(f"The broker's log ended with:\n{self.log_tail()}")
        self.stop()

    def __repr__(self) -> str:
        if self._folder is None:
            return "<Broker, not started>"
        return f"<Broker {self.bootstrap_servers}{'' if self.is_running else ', ended'}>"

    # For tests

    @property
    def is_running(self) -> bool:
        """Whether it runs; of a cluster, whether any node does."""
        return any(each.is_running for each in self._nodes)

    @property
    def pid(self) -> int:
        """The process id of the broker's process, of a cluster that of node 1. Raises RuntimeError before the
        start."""
        if not self._nodes:
            raise RuntimeError("the broker was not started")
        return self._nodes[0].pid

    @property
    def port(self) -> int:
        """The port of the first listener; 0 before the start."""
        return int(self.bootstrap_servers.partition(",")[0].rpartition(":")[2] or 0)

    @property
    def data_directory(self) -> Path:
        """Kafka's ``log.dirs``; of a cluster the folder with one for each node. Raises RuntimeError before
        the start, if it is a temporary one."""
        return self._data or self._temporary / "data"

    @property
    def log_file(self) -> Path:
        """The file with the broker's log, of a cluster that of node 1. Raises RuntimeError before the start
        if it is in the temporary folder."""
        return self._log_file_of(1)

    def _log_file_of(self, number: int) -> Path:
        path = self._log or self._temporary / "broker.log"
        return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")

    def log(self) -> str:
        """All that the broker has logged so far; of a cluster, one node after the other."""
        return self._of_each([each.log() for each in self._nodes])

    def log_tail(self, size_bytes: int = LOG_TAIL_BYTES) -> str:
        """The last lines of the broker's log; of a cluster, those of each node."""
        return self._of_each([each.log_tail(size_bytes) for each in self._nodes])

    def _of_each(self, texts: Sequence[str]) -> str:
        if len(texts) == 1:
            return texts[0]
        return "\n".join(f"node {number}:\n{text}" for number, text in enumerate(texts, 1))

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int = BROKERS_DEFAULT,
        config: Mapping[str, Any] | None = None,
        timeout_seconds: float = 10.0,
    ) -> str:
        """Makes a topic and returns its name when it can be used; without a name it gets a new one.

        Raises TopicRefused with the broker's words (a topic of the name is there, a bad config, …), and
        BrokerFailed if the broker has gone.
        """
        made = name or f"topic-{uuid.uuid4().hex[:12]}"
        configs = {key: _text(value) for key, value in (config or {}).items()}
        node = next((each for each in self._nodes if each.is_running), self._nodes[0])
        try:
            address = _first(node.listeners)
            create_topic(address, made, partitions, replication_factor, configs, timeout_seconds)
        except OSError as error:
            if node.runs_on():
                raise
            raise node.failure("has gone") from error
        return made

    # Starting the processes

    @property
    def _temporary(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the broker was not started")
        return self._folder

    @property
    def _passing_folder(self) -> Path | None:
        """The temporary folder if it goes with the broker."""
        return None if self._keep else self._temporary

    def _defaults(self, folder: Path) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{self._host}:{self._port},CONTROLLER://127.0.0.1:0",
            "log.dirs": str(self._data or folder / "data"),
            "offsets.topic.num.partitions": "1",
            "barnabas.admin.listener": "",
        }

    def _defaults_of_a_cluster(self, count: int) -> dict[str, str]:
        return {
            "default.replication.factor": str(min(count, MOST_COPIES)),
            "broker.heartbeat.interval.ms": "1000",
            "broker.session.timeout.ms": "5000",
        }

    def _lives(self, folder: Path) -> list[list[str]]:
        """The arguments of each node's process. Raises OSError, and BrokerFailed if they are refused."""
        settings = self._defaults(folder)
        if self._count is not None:
            settings |= self._defaults_of_a_cluster(self._count)
        overrides = [
            word
            for name, value in (settings | self._config).items()
            for word in ("--override", f"{name}={value}")
        ]
        if self._count is None:
            return [["start", *overrides]]
        program = command(self._python, self._passing_folder)
        done = subprocess.run(
            [*program, "start", "--nodes", str(self._count), "--prepare", *overrides],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(),
            start_new_session=True,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerFailed(f"the nodes cannot be prepared: {done.stderr.strip()}")
        return [["start", file] for file in done.stdout.splitlines()]


def _first(listeners: Mapping[str, str]) -> str:
    """The address of the first listener."""
    return next(iter(listeners.values()), "")


def _text(value: Any) -> str:
    """The value as it is written in Kafka's properties."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(each) for each in value)
    return str(value)
