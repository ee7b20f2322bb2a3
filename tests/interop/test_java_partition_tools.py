"""kafka-topics --alter, kafka-delete-records, kafka-leader-election, kafka-reassign-partitions: one node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.topics import Topics
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]
JsonFile = Callable[[Any], str]


@pytest.fixture
def topics(broker: AnyBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def json_file(tmp_path: Path) -> JsonFile:
    """Writes a value for a tool that wants it in a file; the file's name."""

    def write(value: Any) -> str:
        path = tmp_path / "asked.json"
        path.write_text(json.dumps(value))
        return str(path)

    return write


def said(result: ToolResult) -> tuple[int, list[str]]:
    """The exit code, and the lines that are not empty."""
    return result.code, [line for line in result.lines if line.strip()]


def refusal(result: ToolResult) -> tuple[int, str]:
    return result.code, result.lines[0]


def test_topics_grow(tool: Tool, topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), 2)
    alter = ("kafka-topics", "--alter", "--topic", topic, "--partitions")
    assert said(tool(*alter, "3")) == (0, [])
    topics.await_partitions(topic, 3)
    error = "Error while executing topic command : "
    assert refusal(tool(*alter, "3")) == (1, error + "Topic already has 3 partition(s).")
    assert refusal(tool(*alter, "2")) == (
        1,
        error + f"The topic {topic} currently has 3 partition(s); 2 would not be an increase.",
    )
    assert said(tool(*alter, "5", "--replica-assignment", "1,1,1,1,1")) == (0, [])
    topics.await_partitions(topic, 5)
    assert refusal(tool(*alter, "6", "--replica-assignment", "1,1,1,1,1,7")) == (
        1,
        error + "The manual partition assignment includes broker 7, but no such broker is registered.",
    )
    assert refusal(tool(*alter, "6", "--replica-assignment", "1")) == (
        1,
        error + "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
    )


def test_records_are_deleted(tool: Tool, topics: Topics, fresh: Fresh, json_file: JsonFile) -> None:
    topic, compacted = topics.create(fresh(), 2), topics.create(fresh(), config={"cleanup.policy": "compact"})
    topics.fill(topic, 10, 2)

    def delete(*places: tuple[str, int, int]) -> tuple[int, list[str]]:
        partitions = [dict(zip(("topic", "partition", "offset"), place, strict=True)) for place in places]
        file = json_file({"partitions": partitions, "version": 1})
        code, lines = said(tool("kafka-delete-records", "--offset-json-file", file))
        assert lines[:2] == ["Executing records delete operation", "Records delete operation completed:"]
        return code, sorted(lines[2:])

    assert delete((topic, 0, 3), (topic, 1, -1)) == (
        0,
        [f"partition: {topic}-0\tlow_watermark: 3", f"partition: {topic}-1\tlow_watermark: 10"],
    )
    errors = "error: org.apache.kafka.common.errors."
    range_ = "The requested offset is not within the range of offsets maintained by the server."
    policy = "Request parameters do not satisfy the configured policy."
    refused = [
        f"partition: {topic}-0\t{errors}OffsetOutOfRangeException: {range_}",
        f"partition: {compacted}-0\t{errors}PolicyViolationException: {policy}",
    ]
    assert delete((topic, 0, 30), (compacted, 0, 0)) == (0, sorted(refused))
    earliest = tool("kafka-get-offsets", "--topic", topic, "--time", "earliest")
    assert sorted(earliest.lines) == [f"{topic}:0:3", f"{topic}:1:10"]
    read = tool(
        "kafka-console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest",
        "--max-messages", "7", "--timeout-ms", "90000",
    )  # fmt: skip
    assert read.lines == [f"0-{number}" for number in range(3, 10)]


def test_elections(tool: Tool, topics: Topics, fresh: Fresh, json_file: JsonFile) -> None:
    topic = topics.create(fresh())
    elect = ("kafka-leader-election", "--election-type")
    for kind in ("preferred", "unclean"):
        elected = tool(*elect, kind, "--topic", topic, "--partition", "0")
        assert said(elected) == (0, [f"Valid replica already elected for partitions {topic}-0"])
        assert said(tool(*elect, kind, "--all-topic-partitions")) == (0, [])
    failed_at = "Error completing leader election (PREFERRED) for partition:"
    unknown = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
    failed = tool(*elect, "preferred", "--topic", "none-such", "--partition", "0")
    assert refusal(failed) == (1, f"{failed_at} none-such-0: {unknown} No such topic as none-such")
    places = [{"topic": topic, "partition": index} for index in (0, 77)]
    mixed = tool(*elect, "preferred", "--path-to-json-file", json_file({"partitions": places}))
    assert (mixed.code, mixed.lines[:2]) == (
        1,
        [
            f"Valid replica already elected for partitions {topic}-0",
            f"{failed_at} {topic}-77: {unknown} No such partition as {topic}-77",
        ],
    )


def test_reassignments(tool: Tool, topics: Topics, fresh: Fresh, json_file: JsonFile) -> None:
    topic = topics.create(fresh())
    reassign = "kafka-reassign-partitions"
    assert said(tool(reassign, "--list")) == (0, ["No partition reassignments found."])
    wanted = json_file({"topics": [{"topic": topic}], "version": 1})
    proposed = tool(reassign, "--generate", "--topics-to-move-json-file", wanted, "--broker-list", "1")
    (line,) = (each for each in proposed.lines if '"any"' in each)
    assert json.loads(line)["partitions"] == [
        {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    ]
    plan = ("--reassignment-json-file", json_file(json.loads(line)))
    code, lines = said(tool(reassign, "--execute", *plan))
    assert (code, lines[-1]) == (0, f"Successfully started partition reassignment for {topic}-0")
    code, lines = said(tool(reassign, "--verify", *plan))
    assert (code, lines[:2]) == (
        0,
        ["Status of partition reassignment:", f"Reassignment of partition {topic}-0 is completed."],
    )
    code, lines = said(tool(reassign, "--cancel", *plan))
    assert (code, lines[0]) == (0, "None of the specified partition reassignments are active.")
