"""Many seeds, in several niced processes, with what they met: the long run.

    python -m tests.simulation.many_seeds --first 1 --seeds 100000 --events 2000 --processes 2 --report x.txt
    python -m tests.simulation.many_seeds --cluster --first 1 --seeds 2000 --minutes 10 --report y.txt

Seeds are handed out by the hundred; each hundred comes back as one `Hundred`, which must have met everything
in `MUST_BE_MET`. The report is written anew now and then, so a run that is broken off was of use. Seeds of
whole clusters are handed out by tens, since each takes seconds.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from broker.simulation.cluster.cluster_running import ClusterResult, run_cluster
from broker.simulation.coverage import Coverage
from broker.simulation.quorum.running import SimulationResult, run
from broker.simulation.verdict import Failure

ROOT: Final = Path(__file__).resolve().parents[2]
SEEDS_AT_ONCE: Final = 100
REPORT_EVERY: Final = 4
"""Hundreds."""

MUST_BE_MET: Final = (
    "election",
    "batches truncated",
    "snapshot load",
    "voter added",
    "voter removed",
    "torn tail",
    "restart",
    "crash within a Ready",
    "partition",
    "commit",
)
"""By every hundred seeds: a hundred that never truncates a log would say nothing about truncation."""

CLUSTERS_AT_ONCE: Final = 10


class SeedResult(Protocol):
    """What became of a seed, whether of a quorum or of a whole cluster."""

    @property
    def seed(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def simulated_ms(self) -> int: ...
    @property
    def coverage(self) -> Mapping[str, int]: ...
    @property
    def failure(self) -> Failure | None: ...


RunSeed = Callable[[int], SeedResult]


def quorum_seed(seed: int, *, events: int, real_driver: bool = False) -> SimulationResult:
    return run(seed, events, real_driver=real_driver)


def cluster_seed(seed: int, *, duration_ms: int) -> ClusterResult:
    """Without its history and without what the run was made of, both of which the seed gives again."""
    return msgspec.structs.replace(run_cluster(seed, duration_ms), history=())


@dataclass
class Hundred:
    """What became of some seeds, from `first` on."""

    first: int
    seeds: int
    events: int = 0
    simulated_ms: int = 0
    cpu_seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    failures: list[Any] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        return [name for name in MUST_BE_MET if not self.coverage.counts.get(name)]


def printed_under_two_hash_seeds(program: str) -> tuple[str, str]:
    """What the program prints in two interpreters that keep their sets in different orders."""
    one, other = (
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4242")
    )
    return one, other


def run_some(first: int, seeds: int, run_seed: RunSeed) -> Hundred:
    """In this process. Stops at no failure: all of them are told."""
    some = Hundred(first, seeds)
    began = time.process_time()
    for seed in range(first, first + seeds):
        result = run_seed(seed)
        some.events += result.events
        some.simulated_ms += result.simulated_ms
        some.coverage.add(result.coverage)
        if result.failure is not None:
            some.failures.append(result)
    some.cpu_seconds = time.process_time() - began
    return some


def _be_nice() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.nice(10)


def run_many(
    first: int,
    seeds: int,
    processes: int,
    run_seed: RunSeed,
    *,
    nice: bool = True,
    at_once: int = SEEDS_AT_ONCE,
) -> Iterator[Hundred]:
    """So many at once in each process, in order. run_seed: can be pickled."""
    begins = range(first, first + seeds, at_once)
    sizes = [min(at_once, first + seeds - begin) for begin in begins]
    with ProcessPoolExecutor(processes, initializer=_be_nice if nice else None) as pool:
        yield from pool.map(partial(run_some, run_seed=run_seed), begins, sizes)


def report(hundreds: Sequence[Hundred], passed_seconds: float, processes: int) -> str:
    coverage = Coverage()
    for each in hundreds:
        coverage.add(each.coverage.counts)
    seeds = sum(each.seeds for each in hundreds)
    events = sum(each.events for each in hundreds)
    cpu_seconds = sum(each.cpu_seconds for each in hundreds)
    failures = [failure for each in hundreds for failure in each.failures]
    missed = [(each.first, each.missing) for each in hundreds if each.seeds == SEEDS_AT_ONCE and each.missing]
    hours = sum(each.simulated_ms for each in hundreds) / 3_600_000
    last = hundreds[0].first + seeds - 1
    lines = [
        f"seeds {hundreds[0].first} to {last}: {events:,} events, {hours:,.1f} simulated hours",
        f"{passed_seconds:,.0f} s by the wall clock in {processes} processes, {cpu_seconds:,.0f} s of CPU",
        f"{events / max(cpu_seconds, 0.001):,.0f} events per CPU second",
        f"{len(failures)} failures",
        *[f"  seed {each.seed}: {each.failure}" for each in failures[:50]],
        *([] if not missed else [f"hundreds that missed something: {missed}"]),
        "",
        *coverage.lines(),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--real-driver", action="store_true", help="with the driver and disk of production")
    parser.add_argument("--cluster", action="store_true", help="whole clusters with their clients")
    parser.add_argument("--minutes", type=float, default=10, help="simulated, of trouble in each cluster")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the workers end with it
    began = time.monotonic()
    hundreds: list[Hundred] = []
    run_seed: RunSeed = partial(quorum_seed, events=options.events, real_driver=options.real_driver)
    at_once = SEEDS_AT_ONCE
    if options.cluster:
        run_seed = partial(cluster_seed, duration_ms=int(options.minutes * 60_000))
        at_once = CLUSTERS_AT_ONCE
    results = run_many(options.first, options.seeds, options.processes, run_seed, at_once=at_once)
    while some := list(islice(results, REPORT_EVERY)):
        hundreds += some
        text = report(hundreds, time.monotonic() - began, options.processes)
        if options.report is not None:
            options.report.write_text(text)
    print(text)
    return 1 if any(each.failures for each in hundreds) else 0


if __name__ == "__main__":
    sys.exit(main())
