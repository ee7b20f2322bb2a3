"""The real surroundings of a node: the clock, disks, threads, processes and network of this machine.

This is the only place where the real implementations of the ports are put together for a node; a contract of
import-linter holds that nothing below `broker.node` imports one of them.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from functools import partial

from broker.admin.http import AdminServer
from broker.metrics.loop_health import CollectorPauses
from broker.metrics.watchdog import Watchdog
from broker.network.cold_reads import ColdReads
from broker.network.socket_network import SocketNetwork
from broker.policies.process import ANSWER_BYTES_MAX, ENDING_SECONDS
from broker.ports.clock import SystemClock, ThreadStalls
from broker.ports.files import RealFiles
from broker.ports.machine import available_memory_bytes, codec_threads, enough_descriptors
from broker.ports.offload import ThreadOffload, run_side_by_side
from broker.ports.random_source import SystemRandomSource
from broker.ports.surroundings import HelperThreads, Surroundings
from broker.ports.timers import LoopTimers
from broker.process.fatal_errors import halt
from broker.process.log_levels import ProcessLoggers
from broker.process.service_manager import Systemd
from broker.workers.child_process import ChildProcess
from broker.workers.pool import WorkerPool
from config.limits import APPEND_THREADS, CODEC_NICENESS, COLD_READ_THREADS
from storage.open_files import OpenFiles, bound_for


def real_surroundings(loop: AbstractEventLoop) -> Surroundings:
    """Must be called in the thread of the loop. Raises OSError if the machine gives too little."""
    descriptors = enough_descriptors()
    clock = SystemClock()
    timers = LoopTimers(loop, clock)
    stalls = ThreadStalls()
    cold_reads = ThreadOffload(loop, COLD_READ_THREADS)
    pools = (
        ThreadOffload(loop),
        ThreadOffload(loop, 1, name="quorum"),
        cold_reads,
        ThreadOffload(loop, APPEND_THREADS, name="append"),
        ThreadOffload(loop, codec_threads(), name="codec", niceness=CODEC_NICENESS),
        ThreadOffload(loop, 1, name="policies"),
    )
    workers = WorkerPool(loop)

    def close() -> None:
        for pool in pools:
            pool.close()
        workers.close()
        stalls.close()

    return Surroundings(
        clock=clock,
        timers=timers,
        random_source=SystemRandomSource(),
        stalls=stalls,
        files=RealFiles(OpenFiles(bound_for(descriptors))),
        threads=HelperThreads(*pools, side_by_side=run_side_by_side),
        workers=workers,
        start_process=partial(
            ChildProcess,
            name="policies' process",
            ending_seconds=ENDING_SECONDS,
            largest_answer_bytes=ANSWER_BYTES_MAX,
        ),
        network=SocketNetwork(loop, clock=clock, timers=timers, cold=ColdReads(cold_reads, clock)),
        service_manager=Systemd(),
        loggers=ProcessLoggers(),
        collector_pauses=CollectorPauses(clock),
        watch_loop=partial(Watchdog, loop, clock),
        serve_pages=partial(AdminServer, loop),
        halt=halt,
        descriptor_limit=descriptors,
        available_memory_bytes=available_memory_bytes(),
        close=close,
    )
