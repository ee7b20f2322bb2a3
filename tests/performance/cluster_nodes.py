"""Two cores for both: `barnabas start --nodes 2` beside one broker of Apache Kafka.

A part of `tests.performance.cluster`. Eight connections produce with acks=all to eight partitions of
replication factor 1. With us four of them lie on each of two nodes, and the client goes to each leader;
Apache Kafka has all of them on one broker, whose threads use all cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.performance.cluster_ground import Ground
from tests.performance.cluster_steady import CONNECTIONS, KIB, SIZES, figures, make_room, produce_load
from tests.performance.contenders import LOGS_NOTHING, TOPIC_CONFIG, start_kafka
from tests.performance.findings import SIDES, Finding, in_turn
from tests.performance.load import put
from tests.performance.processor_time import Spent, spent
from tests.support.brokers.cluster import KAFKAS
from tests.support.brokers.several_nodes import Nodes
from tests.support.clients.spread import write_to_all

__all__ = ["nodes"]

COUNT: Final = 2
PARTITIONS: Final = CONNECTIONS[-1]


class _Served(NamedTuple):
    """Brokers that are numbered from 1, with the address of each."""

    name: str
    addresses: Sequence[str]
    pids: Sequence[int]
    stop: Callable[[], object]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    def spent(self) -> Spent:
        """By all brokers together."""
        each = [spent(pid) for pid in self.pids]
        return Spent(*(sum(figure) for figure in zip(*each, strict=True)))


def nodes(ground: Ground, options: argparse.Namespace) -> Iterator[Finding]:
    ground.close()
    with ExitStack() as stack:
        served = []
        for kind in ground.kinds:
            served.append(_started(kind, ground.new_folder()))
            stack.callback(served[-1].stop)
        for each in served:
            for size in SIZES:
                _produced(each, size, options.warm)
        for size in SIZES:
            what = f"{COUNT} nodes beside one broker: {size // KIB} KB, {PARTITIONS} connections"
            for number in range(options.rounds):
                for each in in_turn(served, number):
                    for unit, value in _produced(each, size, options.seconds):
                        yield Finding(each.name, what, unit, value)


def _started(kind: str, folder: Path) -> _Served:
    if kind == KAFKAS:
        kafka = start_kafka(folder)
        return _Served(SIDES[1], [kafka.process.bootstrap_servers], [kafka.process.pid], kafka.stop)
    ours = Nodes(folder, COUNT)
    try:
        addresses = ours.await_ready().split(",")
        pids = [pid for number in range(1, COUNT + 1) if (pid := ours.pid_of(number)) is not None]
    except BaseException:
        ours.kill()
        raise
    return _Served(SIDES[0], addresses, pids, ours.stop)


def _produced(served: _Served, size: int, seconds: float) -> list[tuple[str, float]]:
    """One run on a topic of its own, which lives no longer."""
    make_room(size, replicas=1)
    topic = f"bench-{size}"
    leaders = [index % len(served.addresses) for index in range(PARTITIONS)]
    placed = [[leader + 1] for leader in leaders]
    admin = AdminClient({"bootstrap.servers": served.bootstrap, "log_level": LOGS_NOTHING})
    wanted = NewTopic(topic, PARTITIONS, replica_assignment=placed, config=TOPIC_CONFIG)
    admin.create_topics([wanted])[topic].result(60)
    write_to_all(served.bootstrap, topic, PARTITIONS, 1)  # the leaders lead when this has been taken
    ports = [int(served.addresses[leader].rpartition(":")[2]) for leader in leaders]
    before = served.spent()
    outcome = put(produce_load(topic, ports, size, seconds))
    used = served.spent() - before
    admin.delete_topics([topic], operation_timeout=60)[topic].result(60)
    return figures(outcome, used)
