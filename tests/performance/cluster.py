"""A cluster of three nodes beside three nodes of Apache Kafka: what acks=all costs, failover, catch-up, rest.

::

    python -m tests.performance.cluster                        everything, by turns, medians as a table
    python -m tests.performance.cluster produce --rounds 5     one part, or several
    python -m tests.performance.cluster produce --only ours    without Apache Kafka
    python -m tests.performance.cluster --write                and the tables go to CLUSTER.md

Every node is broker and controller, as `tests.support.brokers.cluster` starts it. Both clusters run all the
time; a turn is a few seconds of the one and then of the other, and the first changes from round to round.
Apache Kafka has the heap and the flags of its own start script. The parts:

* ``idle``: processor time and resident memory of a node without load;
* ``partitions``: the same with ``--partitions`` partitions of replication factor 3;
* ``produce``: acks=all, replication factor 3, five requests in flight on each connection, one partition for
  each; their leaders are spread over the nodes, and the client goes to each leader. Throughput, p50 and p99,
  and the processor time of all three nodes for a GB that the client has produced, by the kernel's account;
* ``failover``: the time from kill -9 or SIGTERM of a leader that does not lead the quorum until another
  broker has acknowledged a batch with acks=all, with the same session time-out;
* ``catchup``: a third replica of a partition with ``--gigabytes`` is added; time until it is in sync.
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
from pathlib import Path
from typing import Final

from tests.performance.cluster_side import SESSION_MS, Side
from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP
from tests.performance.findings import Finding, in_turn, table
from tests.performance.load import Load, client_name, put
from tests.performance.results import machine
from tests.support.brokers.cluster import KAFKAS, OURS
from tests.support.genuine.kafka_jars import KAFKA_VERSION
from tests.support.genuine.tool_server import ToolServer

FILE: Final = Path(__file__).with_name("CLUSTER.md")
END: Final = "<!-- Above: written by tests/performance/cluster.py. Below: written by hand. -->\n"
"""What stands behind this line stays when the tables are written."""
KIB: Final = 1 << 10
SIZES: Final = (KIB, 16 * KIB, 64 * KIB)
CONNECTIONS: Final = (1, 8)
MAX_BYTES: Final = 512 << 20
"""A run produces no more: three nodes write it three times to one disk."""
RECORD_BYTES: Final = 1000
FILL_BYTES: Final = 512 * KIB
PLACES: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


Sides = list[Side]
Part = Callable[[Sides, argparse.Namespace], Iterator[Finding]]


def produce(sides: Sides, options: argparse.Namespace) -> Iterator[Finding]:
    for side in sides:
        for size in SIZES:
            _produced(side, size, CONNECTIONS[-1], options.warm)
    for connections in CONNECTIONS:
        for size in SIZES:
            what = f"{size // KIB} KB, {connections} connection{'s' * (connections > 1)}"
            for number in range(options.rounds):
                for side in in_turn(sides, number):
                    for unit, value in _produced(side, size, connections, options.seconds):
                        yield Finding(side.name, what, unit, value)


def _produced(side: Side, size: int, connections: int, seconds: float) -> list[tuple[str, float]]:
    """One run on a topic of its own."""
    places = [PLACES[index % len(PLACES)] for index in range(connections)]
    topic = side.make_topic(places)
    try:
        before = side.spent()
        outcome = put(
            Load(
                kind="produce",
                port=0,
                ports=[side.port_of(ids[0]) for ids in places],
                seconds=seconds,
                partitions=[(topic, "", index) for index in range(connections)],
                connections=connections,
                request_bytes=size,
                record_bytes=RECORD_BYTES,
                max_bytes=MAX_BYTES,
            )
        )
        spent = side.spent() - before
    finally:
        side.delete_topic(topic)
    return [
        ("MB/s", outcome.bytes / 1e6 / outcome.seconds),
        ("processor s per GB", spent.seconds / (outcome.bytes / 1e9)),
        ("p50 ms", outcome.latency_us["p50"] / 1e3),
        ("p99 ms", outcome.latency_us["p99"] / 1e3),
    ]


def failover(sides: Sides, options: argparse.Namespace) -> Iterator[Finding]:
    for number in range(options.rounds):
        for side in in_turn(sides, number):
            for is_killed in (True, False):
                leader = next(ids for ids in PLACES if ids[0] != side.controller_id())
                topic = side.make_topic([leader])
                took = side.seconds_without_leader(topic, leader[0], is_killed=is_killed)
                yield Finding(side.name, "after " + ("kill -9" if is_killed else "SIGTERM"), "s", took)
                side.delete_topic(topic)


def catchup(sides: Sides, options: argparse.Namespace) -> Iterator[Finding]:
    size_bytes = int(options.gigabytes * 1e9)
    what = f"catch-up of {options.gigabytes:g} GB"
    for number in range(options.rounds):
        for side in in_turn(sides, number):
            first, second, third = PLACES[number % len(PLACES)]
            topic = side.make_topic([(first, second)])
            load = Load("produce", side.port_of(first), 600, [(topic, "", 0)], request_bytes=FILL_BYTES)
            load.max_bytes = size_bytes
            load.record_bytes = RECORD_BYTES
            put(load)
            before = side.spent()
            took = side.catch_up(topic, (first, second, third))
            spent = side.spent() - before
            yield Finding(side.name, what, "MB/s", size_bytes / 1e6 / took)
            yield Finding(side.name, what, "processor s per GB", spent.seconds / options.gigabytes)
            side.delete_topic(topic)


def idle(sides: Sides, options: argparse.Namespace, what: str = "idle") -> Iterator[Finding]:
    time.sleep(options.settle)
    for number in range(options.rounds):
        for side in in_turn(sides, number):
            before = side.spent()
            time.sleep(options.idle_seconds)
            share = (side.spent() - before).seconds / options.idle_seconds / len(side.nodes)
            yield Finding(side.name, what, "% of a core per node", 100 * share)
            yield Finding(side.name, what, "MiB resident per node", side.resident_bytes() / (1 << 20))


def partitions(sides: Sides, options: argparse.Namespace) -> Iterator[Finding]:
    what = f"{options.partitions:,} partitions"
    topics = []
    for side in sides:
        began = time.perf_counter()
        topics.append(side.make_topic([PLACES[index % 3] for index in range(options.partitions)]))
        yield Finding(side.name, what, "s until all take acks=all", time.perf_counter() - began)
    yield from idle(sides, options, what)
    for side, topic in zip(sides, topics, strict=True):
        side.delete_topic(topic)


PARTS: Final[dict[str, Part]] = {
    "idle": idle,
    "partitions": partitions,
    "produce": produce,
    "failover": failover,
    "catchup": catchup,
}


def document(tables: str, options: argparse.Namespace, loads: tuple[float, float]) -> str:
    about = (
        "Both clusters of three and the client share these cores with whatever else the machine does: the "
        f"load average was {loads[0]:.1f} at the beginning and {loads[1]:.1f} at the end. So a throughput or "
        "a latency is what three busy nodes, three resting ones and a client make of so few cores, and no "
        "machine's best; the ratios and the processor time say more. Processor time is of all three nodes by "
        f"the kernel's account. Medians of {options.rounds} runs by turns, with the least and the most. A "
        f"run that produces has {options.seconds:g} s and at most {MAX_BYTES >> 20} MiB, and is driven by "
        f"{client_name()}; each cluster had {options.warm:g} s of load per size before. The session time-out "
        f"of a broker is {SESSION_MS} ms in both. A ratio of MB/s above 1 and any other ratio below 1 mean "
        "that Barnabas is ahead."
    )
    lines = (
        f"# Three nodes beside three nodes of Apache Kafka {KAFKA_VERSION}",
        "",
        f"`python -m tests.performance.cluster`, {datetime.now(UTC):%Y-%m-%d}. {machine()}.",
        f"Apache Kafka: `-Xmx{KAFKA_HEAP} {' '.join(KAFKA_FLAGS)}`.",
        "",
        textwrap.fill(about, 110),
        "",
        tables,
        END,
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--only", choices=("ours", "kafka"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of one run that produces")
    parser.add_argument("--warm", type=float, default=10, help="seconds of load per size at first")
    parser.add_argument("--gigabytes", type=float, default=1, help="that a follower has to fetch")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=float, default=5)
    parser.add_argument("--settle", type=float, default=3, help="seconds of rest before idle runs")
    parser.add_argument("--folder", help="where the nodes keep their data; else a temporary directory")
    parser.add_argument("--write", action="store_true", help="write CLUSTER.md")
    options = parser.parse_args(arguments)
    wanted = options.parts or list(PARTS)
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    kinds = {"ours": [OURS], "kafka": [KAFKAS], None: [OURS, KAFKAS]}[options.only]
    began = os.getloadavg()[0]
    findings: list[Finding] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-", dir=options.folder)))
        tools = stack.enter_context(ToolServer(folder))
        sides = []
        for kind in kinds:
            sides.append(Side(kind, folder / kind, tools))
            stack.callback(sides[-1].close)
        for name in wanted:
            found = list(PARTS[name](sides, options))
            print(f"{name}; load {os.getloadavg()[0]:.1f}\n{table(found)}", flush=True)
            findings += found
    if options.write:
        others = FILE.read_text().partition(END)[2] if FILE.exists() else ""
        FILE.write_text(document(table(findings), options, (began, os.getloadavg()[0])) + others)
    return 0


if __name__ == "__main__":
    sys.exit(main())
