"""Many partitions on three brokers: a start, a controlled shutdown, a kill, and what they cost at rest.

A part of `tests.performance.cluster`. Each run has the machine for itself: a new cluster of three brokers and
a controller of its own (so that all three brokers may be stopped in a controlled way), with topics of 1,000
partitions of replication factor 3. What has happened is what the metadata of all brokers that are left say,
asked ten times a second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from tests.performance.cluster_ground import Ground
from tests.performance.cluster_side import NODES, PLACES, Side
from tests.performance.findings import Finding, in_turn
from tests.support.brokers.cluster import Node

__all__ = ["many"]

OF_A_TOPIC: Final = 1_000
"""A controller makes at most 10,000 records for one request, and so no topic of that many partitions."""


def many(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    for number in range(options.rounds):
        for kind in in_turn(ground.kinds, number):
            with ground.alone(kind) as side:
                yield from _measured(side, options)


def _measured(side: Side, options: argparse.Namespace) -> Iterator[Finding]:
    what = f"{options.many:,} partitions"
    began = time.perf_counter()
    topics = [
        side.make_topic([PLACES[index % len(PLACES)] for index in range(first, first + count)])
        for first, count in _parts_of(options.many)
    ]
    yield Finding(side.name, what, "s until all are made and take acks=all", time.perf_counter() - began)
    for unit, value in chain(
        _at_rest(side, options), _restarted(side, topics), _shut_down(side, topics), _killed(side, topics)
    ):
        yield Finding(side.name, what, unit, value)


def _parts_of(partitions: int) -> list[tuple[int, int]]:
    """The first partition and the number of partitions of each topic."""
    return [(first, min(OF_A_TOPIC, partitions - first)) for first in range(0, partitions, OF_A_TOPIC)]


def _at_rest(side: Side, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    time.sleep(options.settle)
    controller = [node for node in side.nodes if not node.is_broker]
    brokers_before, controller_before = side.spent(side.brokers), side.spent(controller)
    time.sleep(options.idle_seconds)
    brokers = (side.spent(side.brokers) - brokers_before).seconds / NODES
    of_controller = (side.spent(controller) - controller_before).seconds
    yield "% of a core per broker, idle", 100 * brokers / options.idle_seconds
    yield "% of a core, the controller, idle", 100 * of_controller / options.idle_seconds
    yield "MiB resident per broker", side.resident_bytes(side.brokers) / (1 << 20)
    yield "MiB resident, the controller", side.resident_bytes(controller) / (1 << 20)


def _restarted(side: Side, topics: Sequence[str]) -> Iterator[tuple[str, float]]:
    """All three brokers, while the controller stays."""
    began = time.perf_counter()
    for node in side.brokers:
        node.ask_to_stop()
    for node in side.brokers:
        node.stop()
    yield "s from SIGTERM of all brokers until all have gone", time.perf_counter() - began
    before = [side.spent([node]).seconds for node in side.nodes if not node.is_broker]
    began = time.perf_counter()
    for node in side.brokers:
        node.begin()
    view = side.await_seen(topics, lambda each: each.leader_id > 0, "all partitions have leaders")
    yield "s of a start of all brokers until all have leaders", time.perf_counter() - began
    spent = side.spent().seconds - sum(before)
    leaders = [each.leader_id for each in view]
    for first, topic in enumerate(topics):
        side.await_taken(topic, leaders[first * OF_A_TOPIC : (first + 1) * OF_A_TOPIC])
    yield "s of a start until all take acks=all", time.perf_counter() - began
    side.await_replicated(topics)
    yield "s of a start until all are in sync", time.perf_counter() - began
    yield "processor s of all nodes until all have leaders", spent


def _shut_down(side: Side, topics: Sequence[str]) -> Iterator[tuple[str, float]]:
    node = side.brokers[0]
    side.elect_preferred(topics)
    began = time.perf_counter()
    node.ask_to_stop()
    _await_led_elsewhere(side, topics, node)
    yield "s from SIGTERM of one broker until others lead", time.perf_counter() - began
    node.stop()
    yield "s from SIGTERM of one broker until it has gone", time.perf_counter() - began
    yield "s until it is in sync again, by its start", _returned(side, topics, node)


def _killed(side: Side, topics: Sequence[str]) -> Iterator[tuple[str, float]]:
    node = side.brokers[1]
    side.elect_preferred(topics)
    began = time.perf_counter()
    node.kill()
    _await_led_elsewhere(side, topics, node)
    yield "s from kill -9 of one broker until others lead", time.perf_counter() - began
    yield "s until it is in sync again after kill -9, by its start", _returned(side, topics, node)


def _await_led_elsewhere(side: Side, topics: Sequence[str], node: Node) -> None:
    what = f"all partitions of broker {node.node_id} are led by others"
    side.await_seen(topics, lambda each: each.leader_id != node.node_id, what, node)


def _returned(side: Side, topics: Sequence[str], node: Node) -> float:
    began = time.perf_counter()
    node.begin()
    side.await_replicated(topics)
    return time.perf_counter() - began
