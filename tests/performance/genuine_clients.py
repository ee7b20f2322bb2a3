"""librdkafka, the Java client and franz-go on Barnabas and on Apache Kafka: small records sent, large read.

::

    python -m tests.performance.genuine_clients                     everything, by turns, medians as a table
    python -m tests.performance.genuine_clients produce --clients java --rounds 5
    python -m tests.performance.genuine_clients --write             and the table goes to GENUINE_CLIENTS.md
    python -m tests.performance.genuine_clients --quick             a few minutes; writes nothing

Both brokers run all the time; a turn is a few seconds of the one and then of the other, and the first changes
from round to round. Apache Kafka has the heap and the flags of its own start script, and both brokers and all
clients are warmed with the load of each row first. The clients have their own settings (`genuine_programs`).
A client whose language is not installed is left out, with one line that says so. The parts:

* ``produce``: eight producers of 100-byte records on one topic of eight partitions, as fast as they can;
* ``consume``: consumers that read a topic of 10 KB records from the start to the end, one for each of its
  eight partitions, and one for all.

Throughput is what is acknowledged, or read, in a second: clients and broker share the processors, so it says
what is left for the client too. Processor time is the kernel's account of the broker, and of the client.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.performance.contenders import (
    KAFKA_FLAGS,
    KAFKA_HEAP,
    Contender,
    Topic,
    start_barnabas,
    start_kafka,
)
from tests.performance.findings import SIDES, Finding, in_turn, table
from tests.performance.genuine_programs import CLIENTS, Client, GenuineProgram, Run
from tests.performance.load import Load, put
from tests.performance.measuring import settle, touch_pages
from tests.performance.results import machine
from tests.support.genuine.kafka_jars import KAFKA_VERSION

FILE: Final = Path(__file__).with_name("GENUINE_CLIENTS.md")
END: Final = "<!-- Above: written by tests/performance/genuine_clients.py. Below: written by hand. -->\n"
"""What stands behind this line stays when the table is written."""
PARTITIONS: Final = 8
PRODUCERS: Final = 8
SMALL_RECORD_BYTES: Final = 100
LARGE_RECORD_BYTES: Final = 10_000
FILLED_BATCH_BYTES: Final = 64 << 10
CONSUMERS: Final = (8, 1)
TOUCHED_BYTES: Final = 1 << 30
WARM_STEP_SECONDS: Final = 3.0
QUICK: Final = {"rounds": 3, "seconds": 2.0, "warm": 6.0, "megabytes": 400}

Pair = tuple[Contender, GenuineProgram]
Part = Callable[[Client, Sequence[Pair], argparse.Namespace], Iterator[Finding]]


def produce(client: Client, pairs: Sequence[Pair], options: argparse.Namespace) -> Iterator[Finding]:
    what = f"{client.title}, {PRODUCERS} producers, {SMALL_RECORD_BYTES} bytes"
    for pair in pairs:
        _warm(options.warm, partial(_produced, pair, WARM_STEP_SECONDS, options))
    for number in range(options.rounds):
        for pair in in_turn(pairs, number):
            settle([each for each, _ in pairs], options.settle)
            yield from _findings(pair, what, _produced(pair, options.seconds, options))


def _produced(pair: Pair, seconds: float, options: argparse.Namespace) -> Run:
    contender, program = pair
    touch_pages(TOUCHED_BYTES)
    topic = contender.make_topic(options.partitions)
    try:
        return program.produce(topic.name, PRODUCERS, SMALL_RECORD_BYTES, seconds)
    finally:
        contender.delete_topic(topic)


def consume(client: Client, pairs: Sequence[Pair], options: argparse.Namespace) -> Iterator[Finding]:
    filled = [(pair, *_filled(pair[0], options)) for pair in pairs]
    for consumers in CONSUMERS:
        what = f"{client.title}, {consumers} consumer{'s' * (consumers > 1)}, {LARGE_RECORD_BYTES // 1000} KB"
        for (_, program), topic, records in filled:
            _warm(options.warm / len(CONSUMERS), partial(_consumed, program, topic, records, consumers))
        for number in range(options.rounds):
            for pair, topic, records in in_turn(filled, number):
                settle([each for each, _ in pairs], options.settle)
                run = _consumed(pair[1], topic, records, consumers)
                yield from _findings(pair, what, run)
    for pair, topic, _ in filled:
        pair[0].delete_topic(topic)


def _consumed(program: GenuineProgram, topic: Topic, records: int, consumers: int) -> Run:
    return program.consume(topic.name, consumers, topic.partitions, records)


def _filled(contender: Contender, options: argparse.Namespace) -> tuple[Topic, int]:
    """A topic with so many megabytes of large records, and how many there are."""
    topic = contender.make_topic(PARTITIONS)
    load = Load("produce", contender.port, 600, topic.each_partition, request_bytes=FILLED_BATCH_BYTES)
    load.record_bytes = LARGE_RECORD_BYTES
    load.max_bytes = options.megabytes * 1_000_000
    put(load)
    return topic, contender.count_records(topic)


PARTS: Final[dict[str, Part]] = {"produce": produce, "consume": consume}


def _warm(seconds: float, run: Callable[[], object]) -> None:
    """Once, and again until so much time has passed."""
    deadline = time.monotonic() + seconds
    run()
    while time.monotonic() < deadline:
        run()


def _findings(pair: Pair, what: str, run: Run) -> Iterator[Finding]:
    name, millions = pair[0].name, run.records / 1e6
    yield Finding(name, what, "thousand records a second", run.records / 1e3 / run.seconds)
    yield Finding(name, what, "broker s per million", run.broker_seconds / millions)
    yield Finding(name, what, "client s per million", run.client_seconds / millions)


def measured(
    sides: Sequence[Contender], options: argparse.Namespace, folder: Path
) -> Iterator[list[Finding]]:
    """The findings of each client and part."""
    for client in CLIENTS:
        if options.clients and not any(word in client.title.lower() for word in options.clients.split(",")):
            continue
        with ExitStack() as stack:
            pairs = []
            try:
                for side in sides:
                    pairs.append((side, GenuineProgram(client, folder, side)))
                    stack.callback(pairs[-1][1].stop)
            except pytest.skip.Exception as reason:
                print(f"{client.title} is left out: {reason}", flush=True)
                continue
            for part in options.parts or PARTS:
                yield list(PARTS[part](client, pairs, options))


def document(tables: str, options: argparse.Namespace, loads: tuple[float, float]) -> str:
    about = (
        f"One broker each, both up all the time; medians of {options.rounds} runs by turns, with the least "
        f"and the most, after {options.warm:g} s of the same load on each. A run that produces takes "
        f"{options.seconds:g} s of producers that have begun before, on a topic of its own with "
        f"{options.partitions} partitions; one that consumes reads {options.megabytes:,} MB. Brokers and "
        f"clients share the processors, and the load average was {loads[0]:.1f} at the beginning and "
        f"{loads[1]:.1f} at the end. Processor time is by the kernel's account. A ratio above 1 of records a "
        "second, and any other ratio below 1, mean that Barnabas is ahead. Clients have their own settings; "
        "franz-go compresses by default, and does not here."
    )
    lines = (
        f"# Genuine clients beside Apache Kafka {KAFKA_VERSION}",
        "",
        f"`python -m tests.performance.genuine_clients`, {datetime.now(UTC):%Y-%m-%d}. {machine()}.",
        f"Apache Kafka: `-Xmx{KAFKA_HEAP} {' '.join(KAFKA_FLAGS)}`.",
        "",
        textwrap.fill(about, 110),
        "",
        tables,
        END,
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    began = os.getloadavg()[0]
    findings: list[Finding] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clients-", dir=options.folder)))
        sides = []
        for name, start in zip(SIDES, (start_barnabas, start_kafka), strict=True):
            if options.only in ("", name):
                sides.append(start(folder))
                stack.callback(sides[-1].stop)
        for found in measured(sides, options, folder):
            print(f"load {os.getloadavg()[0]:.1f}\n{table(found)}", flush=True)
            findings += found
    if options.write and not options.quick:
        others = FILE.read_text().partition(END)[2] if FILE.exists() else ""
        FILE.write_text(document(table(findings), options, (began, os.getloadavg()[0])) + others)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all of them without a name")
    parser.add_argument("--quick", action="store_true", help="a few minutes; writes nothing")
    parser.add_argument("--clients", default="", help="words of clients, with commas between: java,franz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one run that produces")
    parser.add_argument("--warm", type=float, default=20.0, help="seconds of load before a row is measured")
    parser.add_argument("--megabytes", type=int, default=1000, help="that consumers read in a run")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the topic that is produced to")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds at most to wait for quiet")
    parser.add_argument("--only", default="", choices=["", *SIDES])
    parser.add_argument("--folder", help="where the brokers keep their data; else a temporary directory")
    parser.add_argument("--write", action="store_true", help="write GENUINE_CLIENTS.md")
    if "--quick" in (sys.argv[1:] if arguments is None else arguments):
        parser.set_defaults(**QUICK)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
