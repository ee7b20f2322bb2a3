"""The coordinators of groups and transactions beside Apache Kafka's, one node each.

::

    python -m tests.performance.coordinators                        everything, by turns, as a table
    python -m tests.performance.coordinators transactions --rounds 5 --seconds 4
    python -m tests.performance.coordinators load --records 1000000 --ids 100000

Both brokers run all the time; a turn is a few seconds of the one and then of the other, and the first changes
from round to round. Apache Kafka has the heap and the flags of its own start script and is warmed first. The
client is one thread for both (`conversations`): where it is the slower one, look at the processor time, which
is the broker's by the kernel's account. The parts:

* ``transactions``: producers that write a batch and commit it, over and over (`transaction.version` 2), and
  the same batches by idempotent producers, each waiting for its answer;
* ``heartbeats``: one group of the newer protocol with ``--members`` members, all of which send heartbeats as
  fast as they are answered;
* ``assign``: members that join a group at once until each has reconciled what it was given;
* ``load``: a start after ``--records`` committed offsets (100 for a group) and ``--ids`` transactional ids,
  until the port is open, until groups of each partition are there, and until transactional ids are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP, Contender, start_barnabas, start_kafka
from tests.performance.findings import SIDES, Finding, in_turn, table
from tests.performance.measuring import settle
from tests.performance.results import machine
from tests.support.clients.conversations import Conversation, converse
from tests.support.clients.coordinator_talks import (
    GROUP,
    TRANSACTION,
    Member,
    Producer,
    await_groups,
    await_ids,
    commit,
    find,
    init_ids,
)
from tests.support.genuine.kafka_jars import KAFKA_VERSION

RECORDS: Final = (1, 10, 100)
PRODUCERS: Final = (1, 10)
HEARTBEAT_CONNECTIONS: Final = 50
OFFSETS_OF_A_GROUP: Final = 100
CONNECTIONS: Final = 8
ASKED_FOR: Final = 200
MOST_PARTITIONS: Final = 5000
"""A topic of more is refused, as more than a controller writes at once."""
POLL_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 2.5
"""A group is stable when nothing has changed for so long: assignments are made once a second (KIP-1263)."""
LONG: Final = 600.0


Part = Callable[[list[Contender], argparse.Namespace], Iterator[Finding]]


def talk(side: Contender, *conversations: Conversation) -> None:
    """To their end, each on a connection of its own."""
    converse(side.port, [[each] for each in conversations], LONG)


def transactions(sides: list[Contender], options: argparse.Namespace) -> Iterator[Finding]:
    for side in sides:
        talk(side, find("any", TRANSACTION))
        for records in RECORDS:
            _produced(side, PRODUCERS[-1], records, "warm", options.warm)
    for count in PRODUCERS:
        for records in RECORDS:
            for name in ("committed", "idempotent"):
                for number in range(options.rounds):
                    for side in in_turn(sides, number):
                        settle(sides, 5)
                        what = f"{name}, {records} records, {count} producer{'s' * (count > 1)}"
                        for unit, value in _produced(side, count, records, name, options.seconds):
                            yield Finding(side.name, what, unit, value)


def _produced(
    side: Contender, count: int, records: int, name: str, seconds: float
) -> list[tuple[str, float]]:
    topic = side.make_topic(count)
    producers = [
        Producer(topic.name, index, records, None if name == "idempotent" else f"bench-{records}-{index}")
        for index in range(count)
    ]
    before = side.spent()
    took = converse(side.port, [[each.talk()] for each in producers], seconds)
    spent = side.spent() - before
    side.delete_topic(topic)
    done = sum(each.done for each in producers)
    latencies = sorted(latency for each in producers for latency in each.latencies_ms)
    return [
        ("a second", done / took.seconds),
        ("broker µs each", spent.seconds * 1e6 / done),
        ("p50 ms", latencies[len(latencies) // 2]),
        ("p99 ms", latencies[len(latencies) * 99 // 100]),
        ("client µs each", took.client_seconds * 1e6 / done),
        ("asked again each", sum(each.retries for each in producers) / done),
    ]


def heartbeats(sides: list[Contender], options: argparse.Namespace) -> Iterator[Finding]:
    groups = {}
    for side in sides:
        talk(side, find("any", GROUP))
        partitions = min(options.members, MOST_PARTITIONS)
        members = _members(side, options.members, partitions, "beats")
        _settled(side, members, partitions)
        _beating(side, members, options.warm)
        groups[side.name] = members
    for number in range(options.rounds):
        for side in in_turn(sides, number):
            settle(sides, 5)
            for unit, value in _beating(side, groups[side.name], options.seconds):
                yield Finding(side.name, f"heartbeats of {options.members:,} members", unit, value)


def _members(side: Contender, count: int, partitions: int, group: str) -> list[Member]:
    topic = side.make_topic(partitions)
    return [Member(group, topic.name) for _ in range(count)]


def _shared(conversations: Sequence[Conversation], connections: int) -> list[list[Conversation]]:
    return [list(conversations[first::connections]) for first in range(connections)]


def _beating(side: Contender, members: list[Member], seconds: float) -> list[tuple[str, float]]:
    already = sum(each.heartbeats for each in members)
    before = side.spent()
    took = converse(side.port, _shared([each.stay() for each in members], HEARTBEAT_CONNECTIONS), seconds)
    spent = side.spent() - before
    done = sum(each.heartbeats for each in members) - already
    return [
        ("a second", done / took.seconds),
        ("broker µs each", spent.seconds * 1e6 / done),
        ("client µs each", took.client_seconds * 1e6 / done),
    ]


def _settled(side: Contender, members: list[Member], partitions: int) -> float:
    """They join; seconds until the last of them has what it shall have."""

    def is_over() -> bool:
        last = max(each.changed_at for each in members)
        if not last or time.perf_counter() - last < QUIET_SECONDS:
            return False
        epochs = {each.epoch for each in members}
        return len(epochs) == 1 and sum(each.owned for each in members) == partitions

    began = time.perf_counter()
    joins = [each.join(POLL_SECONDS) for each in members]
    converse(side.port, _shared(joins, min(len(members), HEARTBEAT_CONNECTIONS)), LONG, is_over)
    if not is_over():
        raise RuntimeError(f"{side.name}: the group has not settled within {LONG:.0f} seconds")
    return max(each.changed_at for each in members) - began


def assign(sides: list[Contender], options: argparse.Namespace) -> Iterator[Finding]:
    for side in sides:
        talk(side, find("any", GROUP))
    for number in range(options.rounds + 1):
        for side in in_turn(sides, number):
            members = _members(side, 500, 1000, f"assigned-{number}")
            settle(sides, 5)
            before = side.spent()
            seconds = _settled(side, members, 1000)
            spent = side.spent() - before
            if number:  # the first round warms
                what = "1,000 partitions to 500 members"
                yield Finding(side.name, what, "s until stable", seconds)
                yield Finding(side.name, what, "broker s in all", spent.seconds)


def load(sides: list[Contender], options: argparse.Namespace) -> Iterator[Finding]:
    groups = [f"loaded-{number}" for number in range(options.records // OFFSETS_OF_A_GROUP)]
    ids = [f"id-{number}" for number in range(options.ids)]
    for side in sides:
        talk(side, find("any", GROUP), find("any", TRANSACTION))
        topic = side.make_topic(OFFSETS_OF_A_GROUP)
        commits = [
            commit(groups[first::CONNECTIONS], topic.name, OFFSETS_OF_A_GROUP) for first in range(CONNECTIONS)
        ]
        talk(side, *commits)
        talk(side, *(init_ids(ids[first::CONNECTIONS]) for first in range(CONNECTIONS)))
        some_groups, some_ids = (each[:: len(each) // ASKED_FOR or 1] for each in (groups, ids))
        for _ in range(options.rounds):
            yield from _loaded(side, topic.name, some_groups, some_ids)


def _loaded(side: Contender, topic: str, groups: Sequence[str], ids: Sequence[str]) -> Iterator[Finding]:
    """groups, ids: some of each partition."""
    side.stop()
    began = time.perf_counter()
    side.process.start()
    ready = time.perf_counter() - began
    talk(side, await_groups(groups, topic, OFFSETS_OF_A_GROUP))
    of_groups = time.perf_counter() - began
    talk(side, await_ids(ids))
    of_ids = time.perf_counter() - began
    for unit, value in (
        ("s until the port is open", ready),
        ("s until all groups are there", of_groups),
        ("s until all ids are there", of_ids),
        ("broker s in all", side.spent().seconds),
        ("resident MiB", side.resident_bytes() / (1 << 20)),
    ):
        yield Finding(side.name, "start", unit, value)


PARTS: Final[dict[str, Part]] = {
    "transactions": transactions,
    "heartbeats": heartbeats,
    "assign": assign,
    "load": load,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name, ExitStack() as stack:
        sides = []
        for side_name, start in zip(SIDES, (start_barnabas, start_kafka), strict=True):
            if options.only in ("", side_name):
                sides.append(start(Path(name)))
                stack.callback(sides[-1].stop)
        print(
            f"{machine()}. Apache Kafka {KAFKA_VERSION}: `-Xmx{KAFKA_HEAP} {' '.join(KAFKA_FLAGS)}`.",
            flush=True,
        )
        for part in options.parts or PARTS:
            print(f"\n{table(list(PARTS[part](sides, options)))}", flush=True)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all of them without a name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--warm", type=float, default=15.0, help="seconds of load before a part is measured")
    parser.add_argument("--members", type=int, default=5000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--ids", type=int, default=100_000)
    parser.add_argument("--only", default="", choices=["", *SIDES])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
