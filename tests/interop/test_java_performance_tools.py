"""The tools that send and read much: the perf tests, verifiable-producer and -consumer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic, fill
from tests.support.genuine.kafka_tools import run_tool
from tests.support.genuine.tool_server import Tool, ToolServer

pytestmark = pytest.mark.java

Fresh = Callable[[], str]


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_perf_tests(broker: AnyBroker, tool: Tool, tool_server: ToolServer, fresh: Fresh, acks: str) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), 3)
    idempotent = "true" if acks == "-1" else "false"
    sent = tool_server.run(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "200",
        "--throughput", "-1", "--bootstrap-server", broker.bootstrap_servers,
        "--command-property", f"acks={acks}", "--command-property", f"enable.idempotence={idempotent}",
    )  # fmt: skip
    assert sent.code == 0, sent.err
    assert sent.lines[-1].startswith("20000 records sent, ")
    assert "99.9th" in sent.lines[-1]
    words = ("--topic", topic, "--num-records", "20000", "--timeout", "90000")
    head, row = tool("kafka-consumer-perf-test", *words).lines
    read = dict(zip(head.split(", "), row.split(", "), strict=True))
    assert read["data.consumed.in.nMsg"] == "20000"
    assert read["data.consumed.in.MB"] == "3.8147"


def test_a_consumer_s_file_with_colons(broker: AnyBroker, tool: Tool, fresh: Fresh, tmp_path: Path) -> None:
    """The book's `consumer.properties` (2.4.4.2) parts names and values by colons. Its client id, not the
    book's, shows that it was read."""
    topic = create_topic(broker.bootstrap_servers, fresh(), 3)
    values = [f"{number}".zfill(1000) for number in range(3000)]
    fill(broker.bootstrap_servers, topic, values, partition=0, linger_ms=5)
    file = tmp_path / "consumer.properties"
    file.write_text("fetch.min.bytes: 1000000\nfetch.max.wait.ms: 500\nclient.id: of-the-file\n")
    words = ("--topic", topic, "--num-records", "3000", "--timeout", "90000", "--print-metrics")
    told = tool("kafka-consumer-perf-test", *words, "--command-config", str(file))
    head, row = told.lines[:2]
    read = dict(zip(head.split(", "), row.split(", "), strict=True))
    assert (read["data.consumed.in.nMsg"], read["data.consumed.in.MB"]) == ("3000", "2.8610")
    assert "client-id=of-the-file" in told.out


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_verifiable_pair(broker: AnyBroker, tool: Tool, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    at = ("--topic", topic, "--bootstrap-server", broker.bootstrap_servers)
    told = events(run_tool("kafka-verifiable-producer", *at, "--max-messages", "500", "--acks", "-1").out)
    successes = [each for each in told if each["name"] == "producer_send_success"]
    assert [(each["offset"], each["value"]) for each in successes] == [(n, str(n)) for n in range(500)]
    summary = next(each for each in told if each["name"] == "tool_data")
    assert (summary["sent"], summary["acked"]) == (500, 500)
    assert [each["name"] for each in told if "error" in each["name"]] == []

    consumer = ("--group-id", group, "--max-messages", "500", "--reset-policy", "earliest")
    seen = events(tool("kafka-verifiable-consumer", "--topic", topic, *consumer).out)
    assert sum(each["count"] for each in seen if each["name"] == "records_consumed") == 500
    committed = [each for each in seen if each["name"] == "offsets_committed"]
    assert all(each["success"] for each in committed)
    assert committed[-1]["offsets"] == [{"topic": topic, "partition": 0, "offset": 500}]
    assert seen[-1]["name"] == "shutdown_complete"
