"""Everything outside a node that it uses, in one object: what `broker.node.Node` is given beside its config.

A node makes nothing of this by itself. `broker.process.real_surroundings` gives a node the real machine;
`broker.simulation.cluster.surroundings` gives it a simulated one, so that whole nodes run in one thread under
one seed. Each part is a protocol: those of `config.ports`, and three of this module for what only a node
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from broker.admin.pages import Pages
from broker.metrics.loop_health import CollectorPauses
from broker.network.interfaces import Network
from config.log_levels import Loggers
from config.ports import (
    ChildProcess,
    Clock,
    Files,
    Offload,
    RandomSource,
    ServiceManager,
    Stalls,
    Timers,
)
from protocol.serving.request_context import RequestContext
from storage.background_task_lanes import SideBySide
from storage.jobs import Workers


class HelperThreads(msgspec.Struct, frozen=True):
    """The helper threads of a node, each group for one purpose, so that none waits behind another's calls.

    files: single calls on files that nobody waits for in particular. quorum: syncs of the metadata log.
    cold_reads: reads of old data for consumers. appends: writes to a slow directory. codecs: compression of
    large batches. policies: waiting for the verdicts of the operator's policies. side_by_side: runs many
    calls at once and returns when all are done, for the end of a node.
    """

    files: Offload
    quorum: Offload
    cold_reads: Offload
    appends: Offload
    codecs: Offload
    policies: Offload
    side_by_side: SideBySide


class LoopWatch(Protocol):
    """Somebody outside the loop who notices when a turn of it takes too long. slow_turns: how many did."""

    slow_turns: int

    def start(self) -> None: ...

    def stop(self) -> None: ...


class PageServer(Protocol):
    """The admin port, over HTTP."""

    def open(self, host: str, port: int) -> None:
        """Begins to listen; the log says where, or why not."""
        ...

    def close(self) -> None: ...


class Surroundings(msgspec.Struct, frozen=True):
    """The ports of a node, see the module.

    timers: also brings later calls to the node's loop, one at a time. workers: do the jobs that take too
    long for the loop. start_process: starts a program, given as its command line. collector_pauses: counts
    those of this interpreter while it is installed. watch_loop: makes a watch; it asks which request is being
    handled. serve_pages: makes the admin port. halt: ends the process at once, after saying why.
    descriptor_limit: the number of files and sockets that may be open. available_memory_bytes: the memory of
    the machine or of its cgroup; 0 if unknown. close: after the node's loop has ended, ends threads and
    workers.
    """

    clock: Clock
    timers: Timers
    random_source: RandomSource
    stalls: Stalls
    files: Files
    threads: HelperThreads
    workers: Workers
    start_process: Callable[[Sequence[str]], ChildProcess]
    network: Network
    service_manager: ServiceManager
    loggers: Loggers
    collector_pauses: CollectorPauses
    watch_loop: Callable[[Callable[[], RequestContext | None]], LoopWatch]
    serve_pages: Callable[[Pages], PageServer]
    halt: Callable[[str], object]
    descriptor_limit: int
    available_memory_bytes: int
    close: Callable[[], None]
