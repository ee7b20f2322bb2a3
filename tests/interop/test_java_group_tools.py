"""kafka-consumer-groups and kafka-groups: members, offsets and lag of a group at work and at rest."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic, fill, until
from tests.support.genuine.kafka_tools import read_lines, running_tool
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]


def rows(lines: list[str]) -> list[dict[str, str]]:
    """A table with a header whose columns hold no blanks, but for ``COORDINATOR (ID)``."""
    head, *body = [line.replace(" (ID)", "").replace("  (", "(").split() for line in lines if line]
    return [dict(zip(head, line, strict=True)) for line in body]


def describe(tool: Tool, group: str, *what: str) -> list[dict[str, str]]:
    return rows(tool("kafka-consumer-groups", "--describe", "--group", group, *what).lines)


def test_a_group_at_work_and_at_rest(broker: AnyBroker, tool: Tool, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh(), 2), fresh()
    for partition, count in ((0, 3), (1, 4)):
        fill(broker.bootstrap_servers, topic, range(count), partition=partition)
    words = f"--topic {topic} --group {group} --from-beginning --command-property client.id=leser"
    arguments = words.split()
    at = ("--bootstrap-server", broker.bootstrap_servers)
    with running_tool("kafka-console-consumer", *arguments, *at) as consumer:
        assert sorted(read_lines(consumer, 7)) == ["0", "0", "1", "1", "2", "2", "3"]
        until(lambda: describe(tool, group, "--state")[0]["STATE"] == "Stable", "the group is stable")
        member = look_at_members(tool, group, topic)
        until(
            lambda: [row["LAG"] for row in describe(tool, group)] == ["0", "0"], "the offsets are committed"
        )
        working = describe(tool, group)
        assert {(row["GROUP"], row["TOPIC"], row["CONSUMER-ID"], row["HOST"], row["CLIENT-ID"])
                for row in working} == {(group, topic, member, "/127.0.0.1", "leser")}  # fmt: skip
        offsets = [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"]) for row in working]
        assert offsets == [("0", "3", "3"), ("1", "4", "4")]
        fill(broker.bootstrap_servers, topic, ["x"], partition=0)
        assert read_lines(consumer, 1) == ["x"]
        end(consumer)
    at_rest(broker, tool, group, topic)


def end(consumer: subprocess.Popen[str]) -> None:
    consumer.terminate()
    consumer.wait(90)


def look_at_members(tool: Tool, group: str, topic: str) -> str:
    (state,) = describe(tool, group, "--state")
    assert state.pop("COORDINATOR").endswith("(1)")
    assert state == {"GROUP": group, "ASSIGNMENT-STRATEGY": "range", "STATE": "Stable", "#MEMBERS": "1"}
    (member,) = describe(tool, group, "--members")
    id_ = member.pop("CONSUMER-ID")
    assert id_.startswith("leser-")
    assert member == {"GROUP": group, "HOST": "/127.0.0.1", "CLIENT-ID": "leser", "#PARTITIONS": "2"}
    verbose = tool("kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose").out
    assert f"{topic}:0,1" in verbose
    return id_


def at_rest(broker: AnyBroker, tool: Tool, group: str, topic: str) -> None:
    fill(broker.bootstrap_servers, topic, ["y", "z"], partition=1)
    until(lambda: describe(tool, group, "--state")[0]["STATE"] == "Empty", "the group is empty")
    resting = tool("kafka-consumer-groups", "--describe", "--group", group, "--offsets")
    assert resting.err.strip() == f"Consumer group '{group}' has no active members."
    seen = [
        (row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"], row["CONSUMER-ID"])
        for row in rows(resting.lines)
    ]
    assert seen == [("0", "4", "0", "-"), ("1", "4", "2", "-")]
    assert tool("kafka-consumer-groups", "--describe", "--all-groups").out.count(group) == 2


def test_lists(broker: AnyBroker, tool: Tool, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    fill(broker.bootstrap_servers, topic, ["x"], partition=0)
    consumer = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1")
    assert tool("kafka-console-consumer", *consumer).lines == ["x"]
    assert group in tool("kafka-consumer-groups", "--list").lines

    def is_empty() -> bool:
        """A consumer does not wait for the answer to its goodbye."""
        states = rows(tool("kafka-consumer-groups", "--list", "--state").lines)
        return {"GROUP": group, "STATE": "Empty"} in states

    until(is_empty, "the group is empty")
    of_a_state = tool("kafka-consumer-groups", "--list", "--state", "Stable,CompletingRebalance").out
    assert group not in of_a_state
    kinds = rows(tool("kafka-consumer-groups", "--list", "--type").lines)
    assert {"GROUP": group, "TYPE": "Classic"} in kinds
    everything = rows(tool("kafka-groups", "--list").lines)
    assert {"GROUP": group, "TYPE": "Classic", "PROTOCOL": "consumer"} in everything


def test_a_group_that_does_not_exist(tool: Tool, fresh: Fresh) -> None:
    group = fresh()
    missing = tool("kafka-consumer-groups", "--describe", "--group", group)
    assert f"GroupIdNotFoundException: Group {group} not found." in missing.out
