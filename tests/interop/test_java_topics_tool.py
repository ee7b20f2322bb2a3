"""kafka-topics and kafka-configs: what they print of topics, and of what cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conftest import AnyBroker
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]


def fields(line: str) -> dict[str, str]:
    """A line of --describe: ``Name: value`` between tabs."""
    parts = [part.strip() for part in line.split("\t")]
    return {name: value.strip() for name, _, value in (part.partition(":") for part in parts) if name}


def test_a_topic_s_life(tool: Tool, fresh: Fresh) -> None:
    topic = fresh()
    made = tool(
        "kafka-topics", "--create", "--topic", topic, "--partitions", "3",
        "--config", "retention.ms=60000", "--config", "cleanup.policy=compact,delete",
    )  # fmt: skip
    assert (made.code, made.out) == (0, f"Created topic {topic}.\n")
    assert topic in tool("kafka-topics", "--list").lines
    head, *partitions = (fields(line) for line in tool("kafka-topics", "--describe", "--topic", topic).lines)
    assert re.fullmatch(r"[\w-]{22}", head.pop("TopicId"))
    assert set(head.pop("Configs").split(",")) >= {"retention.ms=60000", "cleanup.policy=compact", "delete"}
    assert head == {"Topic": topic, "PartitionCount": "3", "ReplicationFactor": "1"}
    for index, partition in enumerate(partitions):
        assert (partition["Partition"], partition["Leader"]) == (str(index), "1")
        assert (partition["Replicas"], partition["Isr"], partition["Elr"]) == ("1", "1", "")
    assert tool("kafka-topics", "--delete", "--topic", topic).code == 0
    assert topic not in tool("kafka-topics", "--list").lines


def test_names_that_are_odd_but_allowed(tool: Tool, fresh: Fresh) -> None:
    for name in ("x" * 249, f"A.b-{fresh()}", f"_{fresh()}", f"...{fresh()}"):
        made = tool("kafka-topics", "--create", "--topic", name)
        assert made.code == 0, made.out
        assert f"Created topic {name}." in made.out
        assert fields(tool("kafka-topics", "--describe", "--topic", name).lines[0])["Topic"] == name
        assert tool("kafka-topics", "--delete", "--topic", re.escape(name)).code == 0


NAME = "Topic name is invalid: "
REFUSALS = [
    (
        ("--topic", "größe"),
        NAME + "'größe' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    ),
    (("--topic", ".."), NAME + "'..' is not allowed"),
    (
        ("--topic", "x" * 250),
        NAME + f"the length of '{'x' * 250}' is longer than the max allowed length 249",
    ),
    (("--topic", "zero", "--partitions", "0"), "The partitions must be greater than 0"),
    (
        ("--topic", "two", "--replication-factor", "2"),
        (
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        ),
    ),
    (
        ("--topic", "given", "--replica-assignment", "1,7"),
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    ),
    (
        ("--topic", "bad", "--config", "segment.bytes=1"),
        "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
    ),
    (
        ("--topic", "bad", "--config", "cleanup.policy=burn"),
        "Invalid value burn for configuration cleanup.policy: String must be one of: compact, delete",
    ),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSALS)
def test_topics_that_are_refused(tool: Tool, arguments: tuple[str, ...], reason: str) -> None:
    refused = tool("kafka-topics", "--create", *arguments)
    assert refused.code == 1
    assert refused.lines[-1] == f"Error while executing topic command : {reason}"


def test_what_is_there_already_and_what_is_not(tool: Tool, fresh: Fresh) -> None:
    topic = fresh()
    assert tool("kafka-topics", "--create", "--topic", topic).code == 0
    again = tool("kafka-topics", "--create", "--topic", topic)
    assert f"Topic '{topic}' already exists." in again.out + again.err
    assert again.code == 1
    tolerant = tool("kafka-topics", "--create", "--if-not-exists", "--topic", topic)
    assert (tolerant.code, tolerant.out) == (0, "")
    assert tool("kafka-topics", "--delete", "--topic", f"{topic}-not").code == 1
    assert tool("kafka-topics", "--delete", "--if-exists", "--topic", f"{topic}-not").code == 0


def test_a_given_assignment(tool: Tool, fresh: Fresh) -> None:
    topic = fresh()
    assert tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1,1").code == 0
    assert len(tool("kafka-topics", "--describe", "--topic", topic).lines) == 3


def test_nothing_is_wrong_with_the_partitions(tool: Tool, fresh: Fresh) -> None:
    assert tool("kafka-topics", "--create", "--topic", fresh(), "--partitions", "2").code == 0
    for what in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert tool("kafka-topics", "--describe", what).out == ""
    assert len(tool("kafka-topics", "--describe", "--at-min-isr-partitions").lines) >= 2


def described(tool: Tool, *arguments: str) -> ToolResult:
    return tool("kafka-configs", "--describe", *arguments)


def test_configs_of_a_topic(tool: Tool, fresh: Fresh) -> None:
    topic = fresh()
    assert tool("kafka-topics", "--create", "--topic", topic, "--config", "retention.ms=4711").code == 0
    changed = described(tool, "--entity-type", "topics", "--entity-name", topic)
    assert changed.lines[0] == f"Dynamic configs for topic {topic} are:"
    assert [line.strip() for line in changed.lines[1:]] == [
        "retention.ms=4711 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=4711}"
    ]
    everything = described(tool, "--entity-type", "topics", "--entity-name", topic, "--all").lines[1:]
    assert len(everything) == 33
    assert (
        "  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}"
        in everything
    )


def test_configs_of_a_broker(tool: Tool, broker: AnyBroker) -> None:
    lines = described(tool, "--entity-type", "brokers", "--entity-name", "1", "--all").lines
    assert lines[0] == "All configs for broker 1 are:"
    found = dict(line.strip().split(" ")[0].partition("=")[::2] for line in lines[1:])
    assert found["node.id"] == "1"
    assert found["log.dirs"] == str(broker.data)
    assert found["ssl.key.password"] == "null"
    assert found["offsets.topic.num.partitions"] == "50"
    assert len(found) > 250
    assert described(tool, "--entity-type", "brokers", "--entity-name", "1").lines == [
        "Dynamic configs for broker 1 are:"
    ]


def test_configs_of_what_is_not_there(tool: Tool, fresh: Fresh) -> None:
    topic = fresh()
    missing = described(tool, "--entity-type", "topics", "--entity-name", topic)
    assert missing.out == f"The topic '{topic}' doesn't exist and doesn't have dynamic config.\n"
