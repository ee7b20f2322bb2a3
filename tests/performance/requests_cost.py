"""What a request costs a broker: trees of this project by turns, beside Apache Kafka and the pump if wanted.

    python -m tests.performance.requests_cost --case produce-1k --turns BASE NEW
    python -m tests.performance.requests_cost --case produce-1k,fetch-64k-x8 --turns BASE . --rounds 9 --pump
    python -m tests.performance.requests_cost --list

BASE and NEW are working trees (``git worktree add --detach ../base TAG``); each gets a broker of its own that
runs with this interpreter, on a directory of its own. For every case the brokers get the same load from one
client, some seconds each by turns, and the first of them changes from round to round. Without ``--turns``
this tree is measured alone. What is printed of each, per request:

* processor time by the kernel's account (all threads): the least and the median of the rounds, and of the
  median what was spent in user and in system mode. The least is what to compare where others use the machine;
* minor page faults: memory that had to be made anew;
* MB/s, the median and the most, and p50 and p99 of the latency (medians): for a quiet machine only;
* processor time of the client. Where it is near the broker's, the client is part of what is measured.

``-x8`` are eight connections, else one; five requests are in flight on each. ``--records``, ``--acks``,
``--idempotent`` and ``--in-session`` (fetches in a fetch session, one in flight) change all cases named.
A round makes a topic anew, so no page of a file is written twice, and produces 1 GiB at most.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.performance.cases import Case, short_cases
from tests.performance.contenders import Contender, OtherCheckout, start_kafka
from tests.performance.load import client_name
from tests.performance.measuring import Measured, Measurement, Stage, least, median, staged
from tests.performance.pump import Pump
from tests.support.brokers.broker_process import ROOT

HEAD = (
    f"{'':<26}{'µs least':>9}{'median':>8}{'user':>8}{'system':>8}{'faults':>8}"
    f"{'MB/s':>9}{'most':>8}{'p50 µs':>9}{'p99 µs':>9}{'client µs':>10}"
)


def line(name: str, runs: Sequence[Measurement]) -> str:
    middle, best = median(runs), least(runs)
    return (
        f"  {name:<24}{best.broker_us:9.2f}{middle.broker_us:8.2f}{middle.user_us:8.2f}"
        f"{middle.system_us:8.2f}{middle.page_faults:8.2f}{middle.megabytes_per_second:9.1f}"
        f"{max(each.megabytes_per_second for each in runs):8.1f}{middle.p50_us:9.0f}{middle.p99_us:9.0f}"
        f"{min(each.client_us for each in runs):10.2f}"
    )


def by_turns(
    stages: Sequence[Stage], rounds: int, seconds: float, warm: float
) -> Iterator[list[Measurement]]:
    """Runs of each stage; the one that begins changes, since the first of a round finds other caches."""
    taken: list[list[Measurement]] = [[] for _ in stages]
    for stage in stages:
        stage.run(warm)
    for number in range(rounds):
        order = list(range(len(stages)))
        for index in order[number % len(order) :] + order[: number % len(order)]:
            taken[index].append(stages[index].run(seconds))
    yield from taken


@contextmanager
def brokers(options: argparse.Namespace, folder: Path) -> Iterator[list[Contender]]:
    """One of each tree, and Apache Kafka's."""
    trees = [Path(tree).resolve() for tree in options.turns or [ROOT]]
    with ExitStack() as stack:
        started = []
        for number, tree in enumerate(trees):
            name = tree.name if [each.name for each in trees].count(tree.name) == 1 else f"{number}"
            started.append(Contender(name, OtherCheckout(folder / f"{number}", tree)))
            stack.callback(started[-1].stop)
        if options.kafka:
            started.append(start_kafka(folder))
            stack.callback(started[-1].stop)
        yield started


def measure(case: Case, running: Sequence[Contender], options: argparse.Namespace, folder: Path) -> None:
    with ExitStack() as stack:
        contenders: list[Measured] = [*running]
        if options.pump:
            pump = Pump(folder, case)
            stack.callback(pump.stop)
            contenders.append(pump)
        stages = [stack.enter_context(staged(each, case)) for each in contenders]
        taken = by_turns(stages, options.rounds, options.seconds, options.warm)
        for contender, runs in zip(contenders, list(taken), strict=True):
            print(line(contender.name, runs), flush=True)


def chosen(options: argparse.Namespace) -> dict[str, Case]:
    known = short_cases()
    names = options.case.split(",")
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no case {', '.join(unknown)}; there are {', '.join(known)}")
    changes = {
        "record_bytes": options.records,
        "acks": {"all": -1, "1": 1}[options.acks],
        "idempotent": options.idempotent,
        "in_session": options.in_session,
    }
    return {name: known[name]._replace(**changes) for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", default="produce-1k", help="one or several, with commas between")
    parser.add_argument("--turns", nargs="+", metavar="TREE", help="working trees to measure by turns")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one run")
    parser.add_argument("--warm", type=float, default=1.0, help="seconds of load before the first round")
    parser.add_argument("--records", type=int, default=1000, help="bytes of a record (default 1000)")
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--idempotent", action="store_true")
    parser.add_argument("--in-session", action="store_true")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too; give it --warm 60")
    parser.add_argument("--pump", action="store_true", help="the floor, too")
    parser.add_argument("--folder", help="where the brokers keep their data; else a temporary directory")
    parser.add_argument("--list", action="store_true", help="say which cases there are")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{name:<16}{case.title}" for name, case in short_cases().items()))
        return 0
    wanted = chosen(options)
    with tempfile.TemporaryDirectory(prefix="requests-cost-", dir=options.folder) as name:
        folder = Path(name)
        with brokers(options, folder) as running:
            print(f"driven by {client_name()}; {options.rounds} rounds of {options.seconds:g} s; "
                  f"load {os.getloadavg()[0]:.1f}\n{HEAD}", flush=True)  # fmt: skip
            for name, case in wanted.items():
                print(f"{name}: {case.title}", flush=True)
                measure(case, running, options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
