"""What two clusters cost that run side by side: at rest, under produce, when one node fails, in a catch-up.

Parts of `tests.performance.cluster`, which tells what each of them measures.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

from tests.performance.cluster_ground import Ground
from tests.performance.cluster_side import PLACES, Side
from tests.performance.findings import Finding, in_turn
from tests.performance.load import Load, Outcome, put
from tests.performance.measuring import SMALL_REQUEST_BYTES, touch_pages
from tests.performance.processor_time import Spent

__all__ = [
    "CONNECTIONS",
    "KIB",
    "MAX_BYTES",
    "SIZES",
    "catchup",
    "failover",
    "figures",
    "idle",
    "make_room",
    "partitions",
    "produce",
    "produce_load",
]

KIB: Final = 1 << 10
SIZES: Final = (KIB, 16 * KIB, 64 * KIB)
CONNECTIONS: Final = (1, 8)
MAX_BYTES: Final = 512 << 20
"""A run produces no more: three nodes write it three times to one disk."""
RECORD_BYTES: Final = 1000
FILL_BYTES: Final = 512 * KIB


def produce(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    for side in ground.sides:
        for size in SIZES:
            _produced(side, size, CONNECTIONS[-1], options.warm)
    for connections in CONNECTIONS:
        for size in SIZES:
            what = f"{size // KIB} KB, {connections} connection{'s' * (connections > 1)}"
            for number in range(options.rounds):
                for side in in_turn(ground.sides, number):
                    for unit, value in _produced(side, size, connections, options.seconds):
                        yield Finding(side.name, what, unit, value)


def _produced(side: Side, size: int, connections: int, seconds: float) -> list[tuple[str, float]]:
    """One run on a topic of its own."""
    places = [PLACES[index % len(PLACES)] for index in range(connections)]
    make_room(size, replicas=len(places[0]))
    topic = side.make_topic(places)
    try:
        before = side.spent()
        outcome = put(produce_load(topic, [side.port_of(ids[0]) for ids in places], size, seconds))
        spent = side.spent() - before
    finally:
        side.delete_topic(topic)
    return figures(outcome, spent)


def make_room(request_bytes: int, *, replicas: int) -> None:
    """Before a run: has the disk write what the one before has left, and the pages made that this one will
    write. Without it the same load took three times the processor time in some runs."""
    os.sync()
    touch_pages(replicas * (MAX_BYTES if request_bytes > SMALL_REQUEST_BYTES else MAX_BYTES // 4))


def produce_load(topic: str, ports: Sequence[int], request_bytes: int, seconds: float) -> Load:
    """A connection for each partition, to its leader's port; acks=all."""
    return Load(
        kind="produce",
        port=0,
        ports=ports,
        seconds=seconds,
        partitions=[(topic, "", index) for index in range(len(ports))],
        connections=len(ports),
        request_bytes=request_bytes,
        record_bytes=RECORD_BYTES,
        max_bytes=MAX_BYTES,
    )


def figures(outcome: Outcome, spent: Spent) -> list[tuple[str, float]]:
    """Units and values of a run that has produced. spent: by the brokers."""
    return [
        ("MB/s", outcome.bytes / 1e6 / outcome.seconds),
        ("processor s per GB", spent.seconds / (outcome.bytes / 1e9)),
        ("p50 ms", outcome.latency_us["p50"] / 1e3),
        ("p99 ms", outcome.latency_us["p99"] / 1e3),
    ]


def failover(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    for number in range(options.rounds):
        for side in in_turn(ground.sides, number):
            for is_killed in (True, False):
                leader = next(ids for ids in PLACES if ids[0] != side.controller_id())
                topic = side.make_topic([leader])
                took = side.seconds_without_leader(topic, leader[0], is_killed=is_killed)
                yield Finding(side.name, "after " + ("kill -9" if is_killed else "SIGTERM"), "s", took)
                side.delete_topic(topic)


def catchup(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    size_bytes = int(options.gigabytes * 1e9)
    what = f"catch-up of {options.gigabytes:g} GB"
    for number in range(options.rounds):
        for side in in_turn(ground.sides, number):
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


def idle(ground: Ground, options: argparse.Namespace, what: str = "idle") -> Iterator[Finding]:
    sides = ground.sides
    time.sleep(options.settle)
    for number in range(options.rounds):
        for side in in_turn(sides, number):
            before = side.spent()
            time.sleep(options.idle_seconds)
            share = (side.spent() - before).seconds / options.idle_seconds / len(side.nodes)
            yield Finding(side.name, what, "% of a core per node", 100 * share)
            yield Finding(side.name, what, "MiB resident per node", side.resident_bytes() / (1 << 20))


def partitions(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    what = f"{options.partitions:,} partitions"
    topics = []
    for side in ground.sides:
        began = time.perf_counter()
        topics.append(side.make_topic([PLACES[index % 3] for index in range(options.partitions)]))
        yield Finding(side.name, what, "s until all take acks=all", time.perf_counter() - began)
    yield from idle(ground, options, what)
    for side, topic in zip(ground.sides, topics, strict=True):
        side.delete_topic(topic)
