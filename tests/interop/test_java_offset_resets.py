"""kafka-consumer-groups: every way to reset, delete and export offsets, and what it refuses; kafka-groups and
kafka-streams-application-reset beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conftest import AnyBroker
from tests.interop.test_java_group_tools import rows
from tests.support.clients.librdkafka import commit, create_topic, settings, until
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]
EPOCH_MS: Final = 1_700_000_000_000
STEP_MS: Final = 60_000


def dated(address: str, topic: str) -> None:
    """Ten records in partition 0 and five in partition 1, a minute apart."""
    producer = Producer(settings(address))
    for partition, count in ((0, 10), (1, 5)):
        for number in range(count):
            producer.produce(topic, str(number), partition=partition, timestamp=EPOCH_MS + number * STEP_MS)
    assert producer.flush(30) == 0


@pytest.fixture
def group(broker: AnyBroker, fresh: Fresh) -> tuple[str, str]:
    """A group at rest at offset 4 and 2 of a topic, and the topic."""
    topic, name = create_topic(broker.bootstrap_servers, fresh(), 2, retention_ms="-1"), fresh()
    dated(broker.bootstrap_servers, topic)
    commit(broker.bootstrap_servers, name, TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 2))
    return name, topic


def reset(tool: Tool, group: str, *words: str, go: str = "--execute") -> ToolResult:
    return tool("kafka-consumer-groups", "--reset-offsets", "--group", group, *words, go)


def new_offsets(result: ToolResult) -> dict[tuple[str, int], int]:
    """The table; a warning about what lies behind the end goes before it."""
    assert result.code == 0, result.out + result.err
    head = next(index for index, line in enumerate(result.lines) if line.startswith("GROUP"))
    return {
        (row["TOPIC"], int(row["PARTITION"])): int(row["NEW-OFFSET"]) for row in rows(result.lines[head:])
    }


def offsets_of(tool: Tool, group: str) -> dict[tuple[str, int], str]:
    described = tool("kafka-consumer-groups", "--describe", "--group", group, "--offsets")
    return {(row["TOPIC"], int(row["PARTITION"])): row["CURRENT-OFFSET"] for row in rows(described.lines)}


def at(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")


SCENARIOS: Final[dict[str, tuple[tuple[str, ...], tuple[int, int]]]] = {
    "to the earliest": (("--to-earliest",), (0, 0)),
    "to the latest": (("--to-latest",), (10, 5)),
    "to the current": (("--to-current",), (4, 2)),
    "to an offset": (("--to-offset", "3"), (3, 3)),
    "to an offset beyond the end": (("--to-offset", "7"), (7, 5)),
    "on by some": (("--shift-by", "2"), (6, 4)),
    "back by some": (("--shift-by", "-3"), (1, 0)),
    "on beyond the end": (("--shift-by", "100"), (10, 5)),
    "to a moment": (("--to-datetime", at(EPOCH_MS + 3 * STEP_MS)), (3, 3)),
    "to a moment between two": (("--to-datetime", at(EPOCH_MS + 3 * STEP_MS + 1000)), (4, 4)),
    "to a moment after the end of one": (("--to-datetime", at(EPOCH_MS + 7 * STEP_MS)), (7, 5)),
    "by a duration": (("--by-duration", "P1D"), (10, 5)),
    "by a duration from the beginning": (("--by-duration", "P10000D"), (0, 0)),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_reset(tool: Tool, group: tuple[str, str], scenario: str) -> None:
    name, topic = group
    words, (first, second) = SCENARIOS[scenario]
    expected = {(topic, 0): first, (topic, 1): second}
    assert new_offsets(reset(tool, name, "--topic", topic, *words, go="--dry-run")) == expected
    assert offsets_of(tool, name) == {(topic, 0): "4", (topic, 1): "2"}, "a dry run changes nothing"
    assert new_offsets(reset(tool, name, "--all-topics", *words)) == expected
    assert offsets_of(tool, name) == {place: str(offset) for place, offset in expected.items()}


def test_a_reset_of_one_partition(tool: Tool, group: tuple[str, str]) -> None:
    name, topic = group
    assert new_offsets(reset(tool, name, "--topic", f"{topic}:1", "--to-earliest")) == {(topic, 1): 0}
    assert offsets_of(tool, name) == {(topic, 0): "4", (topic, 1): "0"}


def test_a_reset_from_a_file_that_was_exported(tool: Tool, group: tuple[str, str], tmp_path: Path) -> None:
    name, topic = group
    plan = reset(tool, name, "--all-topics", "--to-current", "--export", go="--dry-run")
    lines = sorted(line for line in plan.lines if line.startswith('"'))
    assert lines == [f'"{topic}",0,4', f'"{topic}",1,2']
    assert set(offsets_of(tool, name).values()) == {"4", "2"}
    reset(tool, name, "--all-topics", "--to-latest")
    file = tmp_path / "plan.csv"
    file.write_text("\n".join(lines) + "\n")
    assert new_offsets(reset(tool, name, "--from-file", str(file))) == {(topic, 0): 4, (topic, 1): 2}
    assert offsets_of(tool, name) == {(topic, 0): "4", (topic, 1): "2"}


def test_a_reset_makes_a_group(tool: Tool, group: tuple[str, str], fresh: Fresh) -> None:
    _, topic = group
    name = fresh()
    assert new_offsets(reset(tool, name, "--topic", topic, "--to-latest")) == {(topic, 0): 10, (topic, 1): 5}
    described = tool("kafka-consumer-groups", "--describe", "--group", name, "--state")
    assert described.lines[-1].split()[-2:] == ["Empty", "0"]


def test_a_reset_of_all_groups(tool: Tool, group: tuple[str, str], fresh: Fresh) -> None:
    name, topic = group
    words = ("--reset-offsets", "--all-groups", "--topic", topic, "--to-earliest", "--dry-run")
    result = tool("kafka-consumer-groups", *words)
    assert result.code == 0
    assert {row["NEW-OFFSET"] for row in rows(result.lines) if row.get("GROUP") == name} == {"0"}


@contextmanager
def at_work(address: str, group: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer(settings(address, group_id=group, auto_offset_reset="earliest"))
    consumer.subscribe([topic])

    def has_partitions() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    until(has_partitions, "the consumer works")
    yield consumer
    consumer.close()


def test_a_group_at_work_refuses(broker: AnyBroker, tool: Tool, group: tuple[str, str], fresh: Fresh) -> None:
    name, topic = group
    other = create_topic(broker.bootstrap_servers, fresh())
    commit(broker.bootstrap_servers, name, TopicPartition(other, 0, 0))
    with at_work(broker.bootstrap_servers, name, topic):
        refused = reset(tool, name, "--topic", topic, "--to-earliest")
        reason = f"if the group '{name}' is inactive, but the current state is Stable."
        assert f"Assignments can only be reset {reason}" in refused.out + refused.err
        refused = tool("kafka-consumer-groups", "--delete", "--group", name)
        assert f"* Group '{name}' could not be deleted due to:" in refused.out
        assert "GroupNotEmptyException: The group is not empty." in refused.out
        deleted = tool("kafka-consumer-groups", "--delete-offsets", "--group", name, "--topic", topic)
        assert "Error: Encountered some partition-level error, see the follow-up details." in deleted.lines
        why = (
            "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
        )
        assert deleted.out.count(f"GroupSubscribedToTopicException: {why}") == 2
        deleted = tool("kafka-consumer-groups", "--delete-offsets", "--group", name, "--topic", other)
        assert f"Request succeeded for deleting offsets from group {name}." in deleted.out
        assert (other, 0) not in offsets_of(tool, name)


def test_offsets_are_deleted(tool: Tool, group: tuple[str, str]) -> None:
    name, topic = group
    deleted = tool("kafka-consumer-groups", "--delete-offsets", "--group", name, "--topic", f"{topic}:0")
    assert f"Request succeeded for deleting offsets from group {name}." in deleted.out
    assert [row["STATUS"] for row in rows(deleted.lines[1:])] == ["Successful"]
    assert offsets_of(tool, name) == {(topic, 1): "2"}
    missing = tool("kafka-consumer-groups", "--delete-offsets", "--group", name, "--topic", "none-such")
    (status,) = [line for line in missing.lines if line.startswith("none-such")]
    assert status.endswith(
        "UnknownTopicOrPartitionException: This server does not host this topic-partition."
    )


def test_groups_are_deleted(tool: Tool, group: tuple[str, str], fresh: Fresh) -> None:
    name, _ = group
    nobody = fresh()
    result = tool("kafka-consumer-groups", "--delete", "--group", name, "--group", nobody)
    assert f"* Group '{nobody}' could not be deleted due to:" in result.out
    assert "GroupIdNotFoundException" in result.out
    assert f"These consumer groups were deleted successfully: '{name}'" in result.out
    assert name not in tool("kafka-consumer-groups", "--list").lines
    again = tool("kafka-consumer-groups", "--delete", "--group", name)
    assert "GroupIdNotFoundException" in again.out


def test_groups_are_listed_by_kind(tool: Tool, group: tuple[str, str]) -> None:
    name, _ = group
    lists = {
        "simple": ("kafka-groups", "--list", "--group-type", "classic"),
        "protocol": ("kafka-groups", "--list", "--protocol", ""),
        "consumers": ("kafka-groups", "--list", "--consumer"),
        "state": ("kafka-consumer-groups", "--list", "--state", "empty"),
        "type": ("kafka-consumer-groups", "--list", "--type", "classic"),
    }
    for what, words in lists.items():
        assert name in tool(*words).out, what
    for words in (
        ("kafka-groups", "--list", "--share"),
        ("kafka-consumer-groups", "--list", "--type", "consumer"),
        ("kafka-consumer-groups", "--list", "--state", "Stable"),
    ):
        assert name not in tool(*words).out.split(), words
    bad = tool("kafka-consumer-groups", "--list", "--state", "weary")
    assert "Invalid state list 'weary'." in bad.out + bad.err


def test_a_streams_application_is_reset(
    broker: AnyBroker, tool: Tool, group: tuple[str, str], fresh: Fresh
) -> None:
    name, topic = group
    inner = create_topic(broker.bootstrap_servers, f"{name}-counts-repartition")
    result = tool("kafka-streams-application-reset", "--application-id", name, "--input-topics", topic,
                  "--to-offset", "1")  # fmt: skip
    assert result.code == 0, result.out + result.err
    assert (
        f"Deleting inferred internal topics [{inner}]" in result.out.replace("\n", " ") or inner in result.out
    )
    assert offsets_of(tool, name) == {(topic, 0): "1", (topic, 1): "1"}
    until(lambda: inner not in tool("kafka-topics", "--list").lines, "the internal topic is gone")
