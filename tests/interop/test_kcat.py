"""kcat (librdkafka 2.0): metadata, messages in every codec, offsets by number and by time, a group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.conftest import AnyBroker
from tests.support.genuine.kcat import KcatResult, kcat

Kcat = Callable[..., KcatResult]
Fresh = Callable[[], str]


@pytest.fixture
def cat(broker: AnyBroker) -> Kcat:
    return partial(kcat, broker.bootstrap_servers)


def produce(cat: Kcat, topic: str, lines: list[str], *arguments: str) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    sent = cat("-P", "-t", topic, *arguments, stdin=text)
    assert sent.code == 0, sent.err


def test_the_cluster_and_its_topics(cat: Kcat, broker: AnyBroker, fresh: Fresh) -> None:
    topic = fresh()
    produce(cat, topic, ["eins"])
    listed = json.loads(cat("-L", "-J").out)
    assert [each["name"] for each in listed["brokers"]] == [broker.bootstrap_servers]
    assert listed["controllerid"] == listed["brokers"][0]["id"] == listed["originating_broker"]["id"]
    (found,) = (each for each in listed["topics"] if each["topic"] == topic)
    alone = {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}
    assert found["partitions"] == [alone]


def test_a_topic_that_does_not_exist(cat: Kcat, fresh: Fresh) -> None:
    consumed = cat("-C", "-t", fresh(), "-e", "-X", "allow.auto.create.topics=false")
    assert consumed.code == 1
    assert "Unknown topic or partition" in consumed.err


def test_a_topic_of_a_forbidden_name(cat: Kcat) -> None:
    """librdkafka says what the broker has answered, or, if it knew that before the message was given to it,
    in words of its own that there is no such topic."""
    sent = cat("-P", "-t", "nicht/erlaubt", stdin=b"x\n")
    assert sent.code == 1
    assert "Broker: Invalid topic" in sent.err or "Local: Unknown topic" in sent.err


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_codecs(cat: Kcat, fresh: Fresh, codec: str) -> None:
    topic = fresh()
    lines = [f"schlüssel{number % 3}:Wert {number} " + "x" * 50 for number in range(200)]
    produce(cat, topic, lines, "-K:", "-H", "trace=a1", "-H", "leer=", "-z", codec)
    read = cat("-C", "-t", topic, "-e", "-q", "-J").messages
    assert [f"{each['key']}:{each['payload']}" for each in read] == lines
    assert [each["offset"] for each in read] == list(range(200))
    assert all(each["headers"] == ["trace", "a1", "leer", ""] for each in read)
    assert all(each["tstype"] == "create" and abs(each["ts"] - time.time() * 1000) < 600_000 for each in read)


def test_empty_and_null_values(cat: Kcat, fresh: Fresh) -> None:
    topic = fresh()
    produce(cat, topic, ["a:1", "a:", "b:"], "-K:", "-Z")
    read = cat("-C", "-t", topic, "-e", "-q", "-J").messages
    assert [(each["key"], each["payload"]) for each in read] == [("a", "1"), ("a", None), ("b", None)]


def test_offsets_by_number_and_from_the_end(cat: Kcat, fresh: Fresh) -> None:
    topic = fresh()
    produce(cat, topic, [str(number) for number in range(10)])

    def from_(*arguments: str) -> list[str]:
        return cat("-C", "-t", topic, "-p", "0", "-q", "-e", *arguments).out.split()

    assert from_("-o", "7") == ["7", "8", "9"]
    assert from_("-o", "-2") == ["8", "9"]
    assert from_("-o", "beginning", "-c", "3") == ["0", "1", "2"]
    assert from_("-o", "end") == []
    # Behind the end librdkafka is told OFFSET_OUT_OF_RANGE, and goes where auto.offset.reset sends it.
    assert from_("-o", "99", "-X", "topic.auto.offset.reset=earliest") == [str(n) for n in range(10)]


def test_offsets_by_time(cat: Kcat, fresh: Fresh) -> None:
    topic = fresh()
    produce(cat, topic, ["alt"])
    (old,) = cat("-C", "-t", topic, "-e", "-q", "-J").messages
    while int(time.time() * 1000) <= old["ts"]:
        time.sleep(0.001)
    produce(cat, topic, ["neu", "neuer"])
    _, new, newer = (each["ts"] for each in cat("-C", "-t", topic, "-e", "-q", "-J").messages)

    def query(at: int) -> str:
        return cat("-Q", "-t", f"{topic}:0:{at}").out.strip()

    assert query(-2) == f"{topic} [0] offset 0"
    assert query(-1) == f"{topic} [0] offset 3"
    assert query(old["ts"]) == f"{topic} [0] offset 0"
    assert query(old["ts"] + 1) == query(new) == f"{topic} [0] offset 1"
    assert query(newer + 1) == f"{topic} [0] offset -1"
    since = cat("-C", "-t", topic, "-o", f"s@{new}", "-e", "-q").out.split()
    until = cat("-C", "-t", topic, "-o", f"s@{old['ts']}", "-o", f"e@{new}", "-e", "-q").out.split()
    assert (since, until) == (["neu", "neuer"], ["alt"])


def test_a_group_goes_on_where_it_was(cat: Kcat, fresh: Fresh) -> None:
    topic, group = fresh(), fresh()
    produce(cat, topic, ["1", "2", "3"])

    def join() -> list[str]:
        earliest = ("-X", "auto.offset.reset=earliest")
        return cat("-G", group, *earliest, "-e", "-q", topic).out.split()

    assert join() == ["1", "2", "3"]
    produce(cat, topic, ["4", "5"])
    assert join() == ["4", "5"]
    assert join() == []


def test_the_idempotent_producer(cat: Kcat, fresh: Fresh) -> None:
    topic = fresh()
    produce(cat, topic, [str(number) for number in range(500)], "-X", "enable.idempotence=true")
    assert cat("-C", "-t", topic, "-e", "-q").out.split() == [str(number) for number in range(500)]
