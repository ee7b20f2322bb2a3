"""A rolling restart under load: how long a producer waits while one node after the other is replaced.

A part of `tests.performance.cluster`. Each of three nodes in turn gets SIGTERM, is waited for until its
process has gone, is started again, and is waited for until all replicas of all partitions are in sync.
Meanwhile idempotent producers (`paced_producer`, librdkafka) write to some partitions of each leader at a
steady pace.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Final

from tests.performance.cluster_ground import Ground
from tests.performance.cluster_side import PLACES, Side
from tests.performance.findings import Finding, in_turn
from tests.performance.paced_producer import Paced, Seen, paced_producer

__all__ = ["rolling"]

REST_SECONDS: Final = 3
"""Of load before the first restart and after the last one."""


def rolling(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    for number in range(options.rounds):
        for side in in_turn(ground.sides, number):
            yield from _rolled(side, options)


def _rolled(side: Side, options: argparse.Namespace) -> Iterator[Finding]:
    """One rolling restart of all nodes, on a topic of its own."""
    what = f"rolling restart, {options.partitions:,} partitions"
    topic = side.make_topic([PLACES[index % len(PLACES)] for index in range(options.partitions)])
    steps: list[tuple[float, str]] = []
    plan = Paced(side.cluster.bootstrap, topic, _spread(options.partitions, options.watched))
    with paced_producer(plan) as seen:
        time.sleep(REST_SECONDS)
        began = time.monotonic()
        for node in side.nodes:
            steps.append((time.monotonic(), f"SIGTERM to node {node.node_id}"))
            node.stop()
            steps.append((time.monotonic(), f"node {node.node_id} has gone"))
            node.start()
            steps.append((time.monotonic(), f"node {node.node_id} listens"))
            side.await_replicated([topic])
            steps.append((time.monotonic(), f"all are in sync after node {node.node_id}"))
        took = time.monotonic() - began
        time.sleep(REST_SECONDS)
    _tell(side, seen, steps)
    side.delete_topic(topic)
    gone = [then[0] - now[0] for now, then in zip(steps[::4], steps[1::4], strict=True)]
    yield Finding(side.name, what, "s longest pause of a partition", seen.pauses[0].seconds)
    yield Finding(side.name, what, "s longest pause of all partitions", seen.overall_seconds)
    yield Finding(side.name, what, "records acknowledged per s", seen.acknowledged / seen.seconds)
    yield Finding(side.name, what, "errors", seen.refused)
    yield Finding(side.name, what, "s from SIGTERM until gone, the longest", max(gone))
    yield Finding(side.name, what, "s until all nodes are restarted and in sync", took)


def _spread(partitions: int, watched: int) -> list[int]:
    """So many partitions from all over the topic, as many of each place as of the others."""
    gap = max(len(PLACES), partitions // watched // len(PLACES) * len(PLACES))
    spread = (first + index % len(PLACES) for index, first in enumerate(range(0, partitions, gap)))
    return [each for each in spread if each < partitions][:watched]


def _tell(side: Side, seen: Seen, steps: list[tuple[float, str]]) -> None:
    """When the longest pauses began, on standard error: the table keeps only the longest."""
    for when, step in steps:
        print(f"{side.name}: {when - steps[0][0]:7.2f} s: {step}", file=sys.stderr)
    for pause in seen.pauses:
        after = pause.began - steps[0][0]
        told = f"partition {pause.partition} pauses for {pause.seconds:.3f} s from {after:.2f} s on"
        print(f"{side.name}: {told}", file=sys.stderr)
    for name, count in seen.errors.items():
        print(f"{side.name}: {count} records: {name}", file=sys.stderr)
