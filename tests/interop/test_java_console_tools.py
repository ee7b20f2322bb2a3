"""The console producer and consumer, and kafka-get-offsets: what goes in comes out, from where one likes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.clients.book import PATIENT
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]


def create(tool: Tool, topic: str, partitions: int = 1, *arguments: str) -> str:
    made = tool("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions), *arguments)
    assert made.code == 0, made.out
    return topic


def produce(tool: Tool, topic: str, lines: list[str], *arguments: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    sent = tool("kafka-console-producer", "--topic", topic, *PATIENT, *arguments, stdin=text)
    assert (sent.code, sent.out) == (0, "")
    assert "ERROR" not in sent.err


def consume(tool: Tool, topic: str, *arguments: str, patience_ms: int = 90_000) -> ToolResult:
    waiting = ("--timeout-ms", str(patience_ms))
    return tool("kafka-console-consumer", "--topic", topic, *waiting, *arguments)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_through_every_codec(tool: Tool, fresh: Fresh, codec: str) -> None:
    topic = create(tool, fresh())
    lines = [f"{number} Atmosphäre verlassen " + "x" * 80 for number in range(300)]
    produce(tool, topic, lines, "--compression-codec", codec)
    read = consume(tool, topic, "--from-beginning", "--max-messages", "300")
    assert read.lines == lines
    assert "Processed a total of 300 messages" in read.err


def test_keys_headers_nulls_and_what_is_printed_of_them(tool: Tool, fresh: Fresh) -> None:
    topic = create(tool, fresh())
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL", "key.separator=:")
    words = [word for each in properties for word in ("--reader-property", each)]
    produce(tool, topic, ["a:1,b:2\tkey:value", "NULL\tkey:NULL", "c:\tNULL:ohne"], *words)
    shown = ("print.key=true", "print.headers=true", "print.offset=true", "print.partition=true")
    words = [word for each in shown for word in ("--formatter-property", each)]
    read = consume(tool, topic, "--from-beginning", "--max-messages", "3", *words)
    assert read.lines == [
        "Partition:0\tOffset:0\ta:1,b:2\tkey\tvalue",
        "Partition:0\tOffset:1\tNO_HEADERS\tkey\tnull",
        "Partition:0\tOffset:2\tc:\tnull\tohne",
    ]


def test_from_an_offset_and_from_the_end(tool: Tool, fresh: Fresh) -> None:
    topic = create(tool, fresh())
    produce(tool, topic, [str(number) for number in range(10)])
    assert consume(tool, topic, "--partition", "0", "--offset", "8", "--max-messages", "2").lines == [
        "8",
        "9",
    ]
    latest = consume(tool, topic, "--partition", "0", "--offset", "latest", patience_ms=1500)
    assert latest.lines == []
    committed_only = ("--isolation-level", "read_committed", "--from-beginning", "--max-messages", "10")
    assert consume(tool, topic, *committed_only).lines == [str(number) for number in range(10)]


def test_without_acknowledgement_and_by_a_topic_s_own_making(tool: Tool, fresh: Fresh) -> None:
    topic = fresh()
    produce(tool, topic, ["eins", "zwei"], "--request-required-acks", "0")
    assert consume(tool, topic, "--from-beginning", "--max-messages", "2").lines == ["eins", "zwei"]


def test_a_message_that_is_too_large(tool: Tool, fresh: Fresh) -> None:
    topic = create(tool, fresh(), 1, "--config", "max.message.bytes=1000")
    produce(tool, topic, ["x" * 2000])
    produce(tool, topic, ["klein"])
    assert consume(tool, topic, "--from-beginning", "--max-messages", "1").lines == ["klein"]


def test_several_topics_by_a_pattern(tool: Tool, fresh: Fresh) -> None:
    stem = fresh()
    for name in ("a", "b"):
        produce(tool, create(tool, f"{stem}.{name}", 2), [f"{name}{number}" for number in range(5)])
    include = (
        "--include",
        f"{stem}\\..*",
        "--timeout-ms",
        "90000",
        "--from-beginning",
        "--max-messages",
        "10",
    )
    read = tool("kafka-console-consumer", *include)
    assert sorted(read.lines) == sorted(f"{name}{number}" for name in "ab" for number in range(5))


def test_get_offsets(tool: Tool, fresh: Fresh) -> None:
    topic = create(tool, fresh(), 2)
    produce(tool, topic, ["1", "2", "3"], "--reader-property", "parse.key=false")
    every = tool("kafka-get-offsets", "--topic", topic)
    assert [line.split(":")[:2] for line in every.lines] == [[topic, "0"], [topic, "1"]]
    ends = [int(line.split(":")[2]) for line in every.lines]
    assert sum(ends) == 3
    full = ends.index(3) if 3 in ends else 0

    def at(time: str) -> list[str]:
        asked = ("--topic-partitions", f"{topic}:{full}", "--time", time)
        return [line.split(":")[2] for line in tool("kafka-get-offsets", *asked).lines]

    end = str(ends[full])
    assert at("latest") == at("-1") == [end]
    assert at("earliest") == at("-2") == ["0"]
    assert int(at("max-timestamp")[0]) in range(ends[full])
    assert at("-3") == at("max-timestamp")
    assert at("earliest-local") == at("-4") == ["0"]
    assert at("0") == ["0"]
    for nothing in ("latest-tiered", "-5", "earliest-pending-upload", "-6", "4102444800000"):
        assert at(nothing) == [], nothing


def test_get_offsets_of_nothing(tool: Tool, fresh: Fresh) -> None:
    missing = tool("kafka-get-offsets", "--topic", fresh())
    assert missing.code == 1
    assert "Could not match any topic-partitions with the specified filters" in missing.out + missing.err
