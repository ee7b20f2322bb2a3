"""The process around a node: its loop, its signals, the line that says it is ready, its exit code.

SIGTERM, SIGINT, SIGHUP and the end of the process that it belongs to (`--until-process-ends`) ask for a
graceful stop: no new requests, waits are answered, state is written, a marker tells the next start that all
is well. A second signal ends at once. SIGQUIT dumps all stacks and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from typing import Final

import uvloop

from broker.metrics.watchdog import dump_stacks_on_sigquit
from broker.node import Node, StartFailed
from broker.ports.machine import raise_descriptor_limit
from broker.process.fatal_errors import end_on_failure
from broker.process.garbage_collector import settle_collector
from broker.process.other_process import when_process_ends
from broker.process.real_surroundings import real_surroundings
from broker.process.service_manager import SignsOfLife, notify
from broker.process.stop_signals import ENDED_AT_ONCE, end_at_once, end_while_starting, stop_signals
from config.broker_config import BrokerConfig

_log = logging.getLogger("barnabas.node")

STOPPED: Final = 0
NOT_STARTED: Final = 1


def run_node(config: BrokerConfig, cluster_id: str, *, until_process_ends: int | None = None) -> int:
    """Runs a node until it is told to stop, or until that other process has ended. Returns the exit code."""
    dump_stacks_on_sigquit()
    end_while_starting()
    raise_descriptor_limit()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    end_on_failure(loop)
    process = _Process(loop, config)
    try:
        surroundings = real_surroundings(loop)
        node = Node(surroundings, config, cluster_id, on_ready=process.ready, on_stopped=process.stopped)
        loop.call_soon(process.watch_signals, node)
        node.start()
    except (StartFailed, OSError) as failure:
        print(f"barnabas: {_sentence(failure)}", file=sys.stderr)
        return NOT_STARTED
    except KeyboardInterrupt:
        print("barnabas: interrupted before the node was ready", file=sys.stderr)
        return ENDED_AT_ONCE
    if until_process_ends is not None:
        when_process_ends(loop, until_process_ends, process.master_ended)
    loop.run_forever()
    end_at_once()
    node.close()
    loop.close()
    return NOT_STARTED if node.has_failed else STOPPED


def _sentence(failure: Exception) -> str:
    """The text of a failure, without the error number where the text is enough."""
    if isinstance(failure, OSError) and failure.strerror and failure.filename is None:
        return failure.strerror
    return str(failure)


class _Process:
    """The callbacks of the node, and the signals for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: BrokerConfig) -> None:
        self._loop = loop
        self._config = config
        self._node: Node | None = None

    def watch_signals(self, node: Node) -> None:
        self._node = node
        for number in stop_signals():
            self._loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if self._node is None or self._node.is_stopping:
            _log.warning("%s again: the process ends at once, without a clean stop", number.name)
            os._exit(ENDED_AT_ONCE)
        _log.info("%s: stopping; once more ends at once", number.name)
        notify("STOPPING=1")
        self._node.stop()

    def master_ended(self, pid: int) -> None:
        if self._node is not None and not self._node.is_stopping:
            _log.info("Process %d, to which this broker belongs, has ended: stopping", pid)
            self._node.stop()

    def ready(self, line: str) -> None:
        """Announces the node on standard output, and to the service manager.

        At a terminal the first commands to type follow; a pipe gets the one line only.
        """
        settle_collector(self._loop)
        print(line, flush=True)
        if sys.stdout.isatty() and self._node is not None:
            creates_topics = self._config.flag("auto.create.topics.enable")
            for step in first_steps(self._node.client_address, creates_topics=creates_topics):
                print(step, flush=True)
        notify("READY=1", f"STATUS={line}")
        SignsOfLife(self._loop).start()

    def stopped(self) -> None:
        self._loop.stop()


def first_steps(address: str, *, creates_topics: bool) -> list[str]:
    """The commands that a new user may type after the start; none for a controller alone."""
    if not address:
        return []
    has_kcat = shutil.which("kcat") is not None
    if not creates_topics:
        kafkas = f"kafka-topics.sh --bootstrap-server {address} --create --topic flights"
        commands = [f"kcat -b {address} -L" if has_kcat else kafkas]
    elif has_kcat:
        commands = [
            f"echo Liftoff | kcat -b {address} -t flights -P",
            f"kcat -b {address} -t flights -C -o beginning -e",
        ]
    else:
        commands = [
            f"echo Liftoff | kafka-console-producer.sh --bootstrap-server {address} --topic flights",
            f"kafka-console-consumer.sh --bootstrap-server {address} --topic flights --from-beginning",
        ]
    return ["In another terminal:", *(f"    {command}" for command in commands), "Ctrl-C stops the broker."]
