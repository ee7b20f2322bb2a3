"""Barnabas and Apache Kafka on the same machine, in turns, driven by the same client: ``make bench``.

For every case both brokers get a fresh topic and the same load for a few seconds, one after
the other, several rounds; before its first round of a case Apache Kafka runs warm on it (60 s
by default), since its compiler needs that. Beside both stands the pump, a C program that only
receives, writes and answers: the floor. Medians, and the least of the processor times that a
request cost, go to ``RESULTS.md``. Wall time on a shared machine is noisy; processor time is steadier.

    python -m tests.performance.side_by_side [--rounds 3] [--seconds 3] [--warm 60] [--only "fetch"]

``--quick`` (``make bench ARGS=--quick``) takes ten minutes instead of an hour: fewer rows, shorter runs, and
Kafka is warmed once with producing, once with fetching, then a few seconds on each row. It writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.performance import results
from tests.performance.cases import Case, cases, short_cases
from tests.performance.compiled import compiled
from tests.performance.contenders import Contender, start_barnabas, start_kafka
from tests.performance.latency import end_to_end
from tests.performance.load import client_name
from tests.performance.measuring import Measured, Measurement, Stage, settle, staged
from tests.performance.memory import memory_and_start
from tests.performance.pump import Pump

WARM_STEP_SECONDS: Final = 5
QUICK: Final = {"rounds": 3, "seconds": 1.0, "warm": 5.0, "settle": 1.0}
QUICK_END_TO_END: Final = (1, 5.0)
"""Rounds, and seconds of each."""
QUICK_WARM: Final = {"produce-16k-x8": 40.0, "fetch-64k-x8": 20.0}
"""Seconds of load before the first row of a quick run, by the short names of the cases."""


class Row(NamedTuple):
    """One row of the table: the runs of each; none of the pump where it cannot be compiled."""

    case: Case
    ours: list[Measurement]
    theirs: list[Measurement]
    floor: list[Measurement]


def warm(stage: Stage, seconds: float) -> None:
    """The case's own load until it has run for ``seconds``, a fresh topic each time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        stage.run(min(left, WARM_STEP_SECONDS))


def measure(case: Case, ours: Contender, kafka: Contender, options: argparse.Namespace, folder: Path) -> Row:
    with ExitStack() as stack:
        contenders: list[Measured] = [ours, kafka]
        if compiled("pump") and case.kind != "consume":  # it knows no sessions of many partitions
            pump = Pump(folder, case)
            stack.callback(pump.stop)
            contenders.append(pump)
        stages = [stack.enter_context(staged(each, case)) for each in contenders]
        warm(stages[0], 1)
        warm(stages[1], options.warm)
        row = Row(case, [], [], [])
        for _ in range(options.rounds):
            for stage, taken in zip(stages, row[1:], strict=False):
                settle(contenders, options.settle)
                taken.append(stage.run(options.seconds))
    return row


def compare(
    ours: Contender, full: Contender, kafka: Contender, options: argparse.Namespace, folder: Path
) -> list[Row]:
    rows = []
    for name, seconds in QUICK_WARM.items() if options.quick else ():
        with staged(kafka, short_cases()[name]) as stage:
            warm(stage, seconds)
    for case in short_cases().values() if options.quick else cases():
        if options.only not in case.title:
            continue
        rows.append(measure(case, full if case.full else ours, kafka, options, folder))
        print(results.row(rows[-1]), flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        kafka = start_kafka(folder)
        stack.callback(kafka.stop)
        ours = start_barnabas(folder)
        stack.callback(ours.stop)
        full = start_barnabas(folder, barnabas__record__validation="full")
        stack.callback(full.stop)
        print(f"driven by {client_name()}\n{results.HEAD}", flush=True)
        rows = compare(ours, full, kafka, options, folder)
        rest = "" if options.only else end_to_end(ours, kafka, *QUICK_END_TO_END if options.quick else ())
        if not options.only and not options.quick:
            rest += memory_and_start(folder, ours, kafka)
    print(rest)
    if not options.no_write and not options.only and not options.quick:
        results.write(rows, rest, options)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="ten minutes; writes nothing")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument(
        "--warm", type=float, default=60.0, help="seconds of load before Apache Kafka is measured on a case"
    )
    parser.add_argument(
        "--settle", type=float, default=30.0, help="seconds at most to wait for quiet before each run"
    )
    parser.add_argument("--only", default="", help="cases whose title has these words")
    parser.add_argument("--no-write", action="store_true", help="print the tables, leave RESULTS.md as it is")
    if "--quick" in (sys.argv[1:] if arguments is None else arguments):
        parser.set_defaults(**QUICK)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
