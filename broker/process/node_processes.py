"""Several nodes of one host, each a process of its own, and the process that keeps them running.

The parent starts `barnabas start FILE` for each node and has no other part in the cluster. A node that ends
by itself is started again, after a pause that doubles each time; a node that never was ready ends them all,
for its configuration must be wrong. SIGTERM, SIGINT and SIGHUP stop all nodes cleanly, a second signal kills
them; if the parent dies the nodes stop by themselves. SIGQUIT dumps the stacks of all and goes on. What the
nodes log is written to standard error with the node's number before each line, or as the first field of a
line of JSON.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.process.other_process import when_process_ends
from broker.process.service_manager import SignsOfLife, notify
from broker.process.stop_signals import ENDED_AT_ONCE, stop_signals

__all__ = ["run_nodes"]

_log = logging.getLogger("barnabas.nodes")

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
STABLE_SECONDS: Final = 60.0
"""A node that ran for so long is started again after the first pause."""
LONGEST_LINE_BYTES: Final = 1 << 20

PROGRAM: Final = Path(__file__).resolve().parents[2]
"""The folder of the packages of this program."""

STOPPED: Final = 0
NOT_STARTED: Final = 1

JSON_START: Final = b'{"time": '
"""How each line of a node begins with barnabas.log.format=json."""

_READY: Final = re.compile(rb"Barnabas is ready: node \d+ serves (?P<listeners>[^;\n]*)")


def run_nodes(files: Sequence[Path], *, until_process_ends: int | None = None) -> int:
    """Runs the nodes that these files describe until the process is told to stop. Returns the exit code."""
    return asyncio.run(_Nodes(files).run(until_process_ends))


class _Node:
    """One node: its process, and where it listens."""

    def __init__(self, number: int, file: Path) -> None:
        self.number = number
        self.file = file
        self.process: asyncio.subprocess.Process | None = None
        self.listeners = ""
        """The listeners as the line names them that it prints when it is ready; empty until then."""

    def send_signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)


class _Nodes:
    def __init__(self, files: Sequence[Path]) -> None:
        self._nodes = [_Node(number, file) for number, file in enumerate(files, 1)]
        self._stopping = asyncio.Event()
        self._exit_code = STOPPED
        self._announced = False

    async def run(self, until_process_ends: int | None) -> int:
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._signalled, number)
        loop.add_signal_handler(signal.SIGQUIT, self._dump_stacks)
        # This one calls that of the loop in its turn, and writes the stacks also while the loop hangs.
        faulthandler.register(signal.SIGQUIT, chain=True)
        if until_process_ends is not None:
            when_process_ends(loop, until_process_ends, self._owner_ended)
        async with asyncio.TaskGroup() as tasks:
            for node in self._nodes:
                tasks.create_task(self._keep(node))
        return self._exit_code

    # One node

    async def _keep(self, node: _Node) -> None:
        """Starts the node, and again whenever it has ended by itself."""
        pause_seconds = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            code = await self._run_process(node)
            if self._stopping.is_set():
                return
            if not node.listeners:
                _log.error("Node %d did not start (exit code %d); all nodes stop", node.number, code)
                self._exit_code = NOT_STARTED
                self._stop()
                return
            if time.monotonic() - started >= STABLE_SECONDS:
                pause_seconds = FIRST_PAUSE_SECONDS
            _log.warning(
                "Node %d has ended (exit code %d); it is started again in %g s",
                node.number,
                code,
                pause_seconds,
            )
            try:
                await asyncio.wait_for(self._stopping.wait(), pause_seconds)
            except TimeoutError:
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _run_process(self, node: _Node) -> int:
        """Runs the node's process until it ends. Returns the exit code."""
        node.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "broker", "start", str(node.file)),
            *("--until-process-ends", str(os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
            limit=LONGEST_LINE_BYTES,
            start_new_session=True,  # Ctrl-C reaches the parent alone
        )
        if self._stopping.is_set():
            node.send_signal(signal.SIGTERM)
        output, errors = node.process.stdout, node.process.stderr
        if output is not None and errors is not None:
            await asyncio.gather(self._read_output(node, output), _pass_on(node.number, errors))
        return await node.process.wait()

    async def _read_output(self, node: _Node, output: asyncio.StreamReader) -> None:
        async for line in output:
            found = _READY.match(line)
            if found is not None:
                node.listeners = found["listeners"].decode()
                self._announce()

    def _announce(self) -> None:
        """Prints a line when all nodes have been ready."""
        if self._announced or not all(node.listeners for node in self._nodes):
            return
        self._announced = True
        addresses = ",".join(node.listeners.partition("://")[2].partition(",")[0] for node in self._nodes)
        line = f"Barnabas is ready: {len(self._nodes)} nodes serve {addresses}"
        print(line, flush=True)
        if sys.stdout.isatty():
            print("Ctrl-C stops all of them.", flush=True)
        notify("READY=1", f"STATUS={line}")
        SignsOfLife(asyncio.get_running_loop()).start()

    def _dump_stacks(self) -> None:
        """Has the nodes dump their stacks too. One that is just starting would be ended by the signal."""
        for node in self._nodes:
            if node.listeners:
                node.send_signal(signal.SIGQUIT)

    # The end

    def _signalled(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            _log.warning("%s again: all nodes end at once, without a clean stop", number.name)
            for node in self._nodes:
                node.send_signal(signal.SIGKILL)
            os._exit(ENDED_AT_ONCE)
        _log.info("%s: stopping all nodes; once more ends at once", number.name)
        notify("STOPPING=1")
        self._stop()

    def _owner_ended(self, pid: int) -> None:
        if not self._stopping.is_set():
            _log.info("Process %d, to which these nodes belong, has ended: stopping", pid)
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        for node in self._nodes:
            node.send_signal(signal.SIGTERM)


async def _pass_on(number: int, errors: asyncio.StreamReader) -> None:
    """Writes what the node logs to standard error."""
    stream = sys.stderr.buffer
    prefix, json_prefix = b"node %d | " % number, b'{"node": %d, ' % number
    while True:
        try:
            line = await errors.readline()
        except ValueError:  # longer than any line of a log
            continue
        if not line:
            return
        stream.write(json_prefix + line[1:] if line.startswith(JSON_START) else prefix + line)
        stream.flush()


def _environment() -> dict[str, str]:
    """The environment of a node. Variables that configure a broker are left out, because the nodes' files say
    all, and so are those of the parent's service manager. PYTHONPATH leads to this program's own packages,
    which are not on Python's usual path when it was installed as a wheel."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("KAFKA_", "NOTIFY_"))}
    path = [str(PROGRAM), *filter(None, [kept.get("PYTHONPATH", "")])]
    return kept | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(path)}
