"""A cluster of three nodes beside three nodes of Apache Kafka: what acks=all costs, failover, catch-up, rest.

::

    python -m tests.performance.cluster                        everything, by turns, medians as a table
    python -m tests.performance.cluster produce --rounds 5     one part, or several
    python -m tests.performance.cluster produce --only ours    without Apache Kafka
    python -m tests.performance.cluster rolling --write        and the tables go to CLUSTER.md

Every node is broker and controller, as `tests.support.brokers.cluster` starts it. Both clusters run all the
time; a turn is a few seconds of the one and then of the other, and the first changes from round to round.
Apache Kafka has the heap and the flags of its own start script. The parts, in `cluster_steady` unless another
module is named:

* ``idle``: processor time and resident memory of a node without load;
* ``partitions``: the same with ``--partitions`` partitions of replication factor 3;
* ``produce``: acks=all, replication factor 3, five requests in flight on each connection, one partition for
  each; their leaders are spread over the nodes, and the client goes to each leader. Throughput, p50 and p99,
  and the processor time of all three nodes for a GB that the client has produced, by the kernel's account;
* ``failover``: the time from kill -9 or SIGTERM of a leader that does not lead the quorum until another
  broker has acknowledged a batch with acks=all, with the same session time-out;
* ``catchup``: a third replica of a partition with ``--gigabytes`` is added; time until it is in sync;
* ``rolling`` (`cluster_rolling`): all nodes are restarted one by one, with ``--partitions`` partitions of
  replication factor 3, while librdkafka's idempotent producers write to ``--watched`` of them;
* ``many`` (`cluster_many`): ``--many`` partitions on three brokers and a controller, each kind alone: rest, a
  start, a controlled shutdown, a kill;
* ``nodes`` (`cluster_nodes`): eight connections to `barnabas start --nodes 2` and to one broker of Apache
  Kafka.

What each of them takes of time is told in CLUSTER.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.performance.cluster_document import Section, write
from tests.performance.cluster_ground import Ground
from tests.performance.cluster_many import many
from tests.performance.cluster_nodes import nodes
from tests.performance.cluster_rolling import rolling
from tests.performance.cluster_steady import catchup, failover, idle, partitions, produce
from tests.performance.findings import Finding, table
from tests.support.brokers.cluster import KAFKAS, OURS
from tests.support.genuine.tool_server import ToolServer

Part = Callable[[Ground, argparse.Namespace], Iterator[Finding]]

PARTS: Final[dict[str, Part]] = {
    "idle": idle,
    "partitions": partitions,
    "produce": produce,
    "failover": failover,
    "catchup": catchup,
    "rolling": rolling,
    "many": many,
    "nodes": nodes,
}
"""Those behind `rolling` end the clusters that run all the time."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    kinds = {"ours": [OURS], "kafka": [KAFKAS], None: [OURS, KAFKAS]}[options.only]
    sections = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # no node may stay behind
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-", dir=options.folder)))
        tools = stack.enter_context(ToolServer(folder))
        ground = Ground(kinds, folder, tools)
        stack.callback(ground.close)
        for name in options.parts:
            began = os.getloadavg()[0]
            found = table(list(_each_told(PARTS[name](ground, options))))
            sections.append(Section(name, found, (began, os.getloadavg()[0])))
            print(f"{name}; load {sections[-1].load[1]:.1f}\n{found}", flush=True)
    if options.write:
        command = shlex.join(["python", "-m", "tests.performance.cluster", *(arguments or sys.argv[1:])])
        write(sections, list(PARTS), command, options.rounds)
    return 0


def _each_told(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Each on standard error as it is found: what follows may take minutes, and may fail."""
    for each in findings:
        print(f"{each.side}: {each.what}: {each.value:.3f} {each.unit}", file=sys.stderr, flush=True)
        yield each


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--only", choices=("ours", "kafka"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of one run that produces")
    parser.add_argument("--warm", type=float, default=10, help="seconds of load per size at first")
    parser.add_argument("--gigabytes", type=float, default=1, help="that a follower has to fetch")
    parser.add_argument("--partitions", type=int, default=1000, help="of the parts partitions and rolling")
    parser.add_argument("--watched", type=int, default=30, help="partitions that are written to in rolling")
    parser.add_argument("--many", type=int, default=10_000, help="partitions of the part many")
    parser.add_argument("--idle-seconds", type=float, default=5)
    parser.add_argument("--settle", type=float, default=3, help="seconds of rest before idle runs")
    parser.add_argument("--folder", help="where the nodes keep their data; else a temporary directory")
    parser.add_argument("--write", action="store_true", help="write CLUSTER.md")
    options = parser.parse_args(arguments)
    options.parts = options.parts or list(PARTS)
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
