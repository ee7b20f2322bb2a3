"""What the exercises of "Apache Kafka: Von den Grundlagen bis zum Produktiveinsatz" have in common.

The tools are today's: where one has a new name for an option (``--reader-property``), it is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool

FLIGHT: Final = (
    "Countdown beendet", "Liftoff", "Atmosphäre verlassen", "Vorbereitung Wiedereintritt",
    "Wiedereintritt erfolgreich", "Landung erfolgreich",
)  # fmt: skip
KEYED: Final = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
PATIENT: Final = ("--request-timeout-ms", "30000")
"""By itself the console producer gives a record up after three answers that did not come within 1.5 s."""
WITH_KEY: Final = ("--formatter-property", "print.key=true")


def create(tool: Tool, topic: str, partitions: int, *arguments: str) -> None:
    size = ("--partitions", str(partitions), "--replication-factor", "1")
    created = tool("kafka-topics", "--create", "--topic", topic, *size, *arguments)
    assert created.lines[-1] == f"Created topic {topic}."  # a warning about underscores may go before


def produce(tool: Tool, topic: str, lines: Iterable[str], *arguments: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    sent = tool("kafka-console-producer", "--topic", topic, *PATIENT, *arguments, stdin=text)
    assert sent.code == 0, sent.err


def consume(tool: Tool, topic: str, *arguments: str, seconds: int = 4, at_least: int = 0) -> ToolResult:
    """The console consumer under ``timeout``, as the book calls it: it ends when nothing comes any more.

    at_least: so many lines are there to be read. A consumer without a group may begin again with more
    patience where fewer came, as on a busy machine even the first may take its time.
    """
    for patience in (seconds, 60):
        until = ("--timeout-ms", str(patience * 1000))
        read = tool("kafka-console-consumer", "--topic", topic, *until, *arguments)
        if len(read.lines) >= at_least:
            break
    return read


def ends(tool: Tool, topic: str) -> list[str]:
    """Where each partition ends for consumers, as ``topic:partition:offset``: nobody is shown what is not
    below that."""
    asked = tool("kafka-get-offsets", "--topic", topic)
    assert asked.code == 0, asked.err
    return asked.lines


def by_key(lines: Iterable[str]) -> dict[str, list[str]]:
    """The values of each key, in their order."""
    found: dict[str, list[str]] = {}
    for line in lines:
        key, _, value = line.partition("\t")
        found.setdefault(key, []).append(value)
    return found


def fields(line: str) -> dict[str, str]:
    """A line of ``kafka-topics --describe``: ``Name: value`` between tabs."""
    parts = [part.strip() for part in line.split("\t")]
    return {name: value.strip() for name, _, value in (part.partition(":") for part in parts) if name}
