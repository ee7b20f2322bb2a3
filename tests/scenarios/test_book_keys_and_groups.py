"""Keys, partitions and consumer groups: exercises 2.1.2.3 to 2.2.2.2 of the book.

Same book as in ``test_book_first_steps``; the console tools are the genuine ones,
and where today's tool has a new name for an option (``--reader-property``), it is used.
"""

from __future__ import annotations

import threading
import time
from typing import IO

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.book import FLIGHT, KEYED, WITH_KEY, by_key, consume, create, produce
from tests.support.genuine.kafka_tools import running_tool
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

FROM_THE_BEGINNING = "--from-beginning"


def test_e13_keys(tool: Tool) -> None:
    topic = "flugdaten_mit_keys"
    create(tool, topic, 1)
    sent = [
        "rakete1:Countdown beendet",
        "rakete2:Countdown gestartet",
        "rakete1:Liftoff",
        "rakete2:Countdown beendet",
    ]
    produce(tool, topic, sent, *KEYED)

    values = consume(tool, topic, FROM_THE_BEGINNING, at_least=len(sent))
    assert values.lines == [line.partition(":")[2] for line in sent]
    assert "Processed a total of 4 messages" in values.err
    with_keys = consume(tool, topic, FROM_THE_BEGINNING, *WITH_KEY, at_least=len(sent))
    assert with_keys.lines == [line.replace(":", "\t") for line in sent]


def test_e14_two_partitions_lose_the_global_order(tool: Tool) -> None:
    topic = "flugdaten-partitionen"
    create(tool, topic, 2)
    produce(tool, topic, FLIGHT)
    with_partition = ("--formatter-property", "print.partition=true")
    read = consume(tool, topic, FROM_THE_BEGINNING, *with_partition, at_least=len(FLIGHT))
    assert sorted(line.partition("\t")[2] for line in read.lines) == sorted(FLIGHT)
    assert "Processed a total of 6 messages" in read.err
    for partition in ("Partition:0", "Partition:1"):
        here = [line.partition("\t")[2] for line in read.lines if line.startswith(partition)]
        assert here == [line for line in FLIGHT if line in here], (
            "within a partition the order is the producer's"
        )


ROCKETS = [
    "rakete0:Countdown beendet",
    "rakete1:Countdown beendet",
    "rakete1:Liftoff",
    "rakete1:Atmosphäre verlassen",
    "rakete0:Liftoff",
    "rakete0:Atmosphäre verlassen",
    "rakete0:Vorbereitung Wiedereintritt",
    "rakete1:Vorbereitung Wiedereintritt",
    "rakete0:Wiedereintritt erfolgreich",
    "rakete1:Wiedereintritt erfolgreich",
    "rakete1:Landung erfolgreich",
    "rakete0:Landung erfolgreich",
]


def test_e15_a_key_keeps_its_order(tool: Tool) -> None:
    topic = "flugdaten-partitionen-keys"
    create(tool, topic, 2)
    produce(tool, topic, ROCKETS, *KEYED)
    read = consume(tool, topic, FROM_THE_BEGINNING, *WITH_KEY, at_least=len(ROCKETS))
    assert by_key(read.lines) == {"rakete0": list(FLIGHT), "rakete1": list(FLIGHT)}


def test_e16_a_group_goes_on_where_it_was(tool: Tool) -> None:
    group = (*WITH_KEY, "--group", "metriken")
    all_twelve = ("--max-messages", str(len(ROCKETS)))
    first = consume(tool, "flugdaten-partitionen-keys", FROM_THE_BEGINNING, *group, *all_twelve, seconds=60)
    assert by_key(first.lines) == {"rakete0": list(FLIGHT), "rakete1": list(FLIGHT)}
    assert "Processed a total of 12 messages" in first.err

    again = consume(tool, "flugdaten-partitionen-keys", FROM_THE_BEGINNING, *group)
    assert again.lines == []
    assert "Processed a total of 0 messages" in again.err


def test_e17_a_group_shares_the_work(broker: AnyBroker, tool: Tool) -> None:
    topic = "flugdaten-partitionen-keys"
    server = ("--bootstrap-server", broker.bootstrap_servers)
    arguments = ("--topic", topic, *WITH_KEY, "--group", "metriken", *server)
    # Eight keys: whatever the hash does, both partitions get some.
    sent = [f"rakete{number}:{line}" for line in FLIGHT[:3] for number in range(2, 10)]
    with (
        running_tool("kafka-console-consumer", *arguments) as one,
        running_tool("kafka-console-consumer", *arguments) as two,
        running_tool("kafka-console-consumer", *arguments) as idle,
    ):
        _await_members(tool, 3)
        read: dict[int, list[str]] = {0: [], 1: [], 2: []}
        for index, consumer in enumerate((one, two, idle)):
            threading.Thread(target=_collect, args=(consumer.stdout, read[index]), daemon=True).start()
        produce(tool, topic, sent, *KEYED)
        deadline = time.monotonic() + 120
        while sum(map(len, read.values())) < len(sent) and time.monotonic() < deadline:
            time.sleep(0.1)

    everything = [line for lines in read.values() for line in lines]
    assert sorted(everything) == sorted(line.replace(":", "\t") for line in sent), (
        "each message once, at one consumer"
    )
    keys = [set(by_key(lines)) for lines in read.values()]
    assert sum(map(len, keys)) == len(keys[0] | keys[1] | keys[2]) == 8, "each key at one consumer"
    assert sorted(bool(lines) for lines in read.values()) == [False, True, True], (
        "two partitions feed two consumers"
    )
    for lines in read.values():
        assert all(values == list(FLIGHT[:3]) for values in by_key(lines).values())


def _collect(stream: IO[str], lines: list[str]) -> None:
    for line in stream:
        lines += [line.rstrip("\n")]


def _await_members(tool: Tool, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        described = tool("kafka-consumer-groups", "--describe", "--group", "metriken", "--members").lines
        members = [line.split() for line in described if line.startswith("metriken")]
        if len(members) == count and sorted(int(member[4]) for member in members) == [0, 1, 1]:
            return
    pytest.fail(f"the group did not settle with {count} members")
