"""A cluster of Apache Kafka with everything that it finalizes by default, and what of it comes over to us.

As it is, its directory is refused in one line that says what to do. When its operator has switched off what
we lack, records of consumer groups stay in `__consumer_offsets`, through our compaction too: Apache Kafka
finds those groups again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.left_files import check_left_files
from tests.support.clients.librdkafka import commit, create_topic, fill, settings, take, until
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

LEVELS: Final = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "500",
    "group.consumer.max.session.timeout.ms": "900000",
    "group.consumer.session.timeout.ms": "900000",
}
CONSUMER_GROUP_TYPES: Final = {"3", "5", "6", "7", "8"}
"""Of groups of the new protocol; 4 is only read."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[GenuineKafka]:
    broker = GenuineKafka(tmp_path / "data", SETTINGS)
    broker.log_file = tmp_path / "kafka.log"
    yield broker
    broker.kill()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BarnabasProcess]:
    broker = BarnabasProcess(tmp_path / "data", {"node.id": "1", **SETTINGS})
    broker.log_file = tmp_path / "ours.log"
    yield broker
    if broker.ready_line:
        broker.kill()


def records_of_groups(tools: ToolServer, data: Path) -> list[str]:
    """The keys in the offsets topic of which something is left, as kafka-dump-log shows them."""
    files = sorted((data / "__consumer_offsets-0").glob("*.log"))
    told = tools.run(
        "kafka-dump-log", "--offsets-decoder", "--skip-record-metadata", "--files", ",".join(map(str, files))
    )
    last: dict[str, str] = {}
    for line in told.lines:
        key, found, value = line.removeprefix("|").strip().partition(" payload: ")
        if found:
            last[key] = value
    return sorted(key for key, value in last.items() if value != "<DELETE>")


def of_consumer_groups(keys: list[str]) -> list[str]:
    return [key for key in keys if any(f'"type":"{number}"' in key for number in CONSUMER_GROUP_TYPES)]


def test_consumer_groups_are_kept_where_their_feature_is_off(
    kafka: GenuineKafka, ours: BarnabasProcess, tool_server: ToolServer
) -> None:
    kafka.start()
    address = kafka.bootstrap_servers
    create_topic(address, "orders", 2)
    fill(address, "orders", range(100), partition=0)
    reader = Consumer(
        settings(address, group_id="new", group_protocol="consumer", auto_offset_reset="earliest")
    )
    reader.subscribe(["orders"])
    take(reader, 100)
    reader.commit(asynchronous=False)
    kafka.kill()  # with its member in the group
    kafka.start()
    kafka.stop()
    with pytest.raises(RuntimeError, match="before it was ready"):
        ours.start()
    assert "kafka-features.sh --bootstrap-server" in ours.log_file.read_text()
    assert " disable --feature " in ours.log_file.read_text()

    kafka.start()
    switch(tool_server, kafka, "disable", list(LEVELS))
    kafka.stop()
    kept = records_of_groups(tool_server, kafka.data)
    assert of_consumer_groups(kept), kept

    ours.start()
    address = ours.bootstrap_servers
    commit(address, "classic", TopicPartition("orders", 0, 7))
    compact_offsets(tool_server, ours)
    ours.stop()
    assert of_consumer_groups(records_of_groups(tool_server, kafka.data)) == of_consumer_groups(kept)
    check_left_files(tool_server, kafka.data)

    kafka.start()
    switch(tool_server, kafka, "upgrade", [f"{name}={level}" for name, level in LEVELS.items()])
    told: list[ToolResult] = []

    def offsets() -> dict[tuple[str, str], str]:
        """A coordinator that has not begun yet lists no groups."""
        told.append(tool_server.run(
            "kafka-consumer-groups", "--bootstrap-server", kafka.bootstrap_servers, "--describe",
            "--all-groups", "--offsets",
        ))  # fmt: skip
        return {(row[0], row[2]): row[3] for line in told[-1].lines if len(row := line.split()) > 4}

    until(lambda: {("new", "0"), ("classic", "0")} <= offsets().keys(), "the groups are there")
    found = offsets()
    assert (found["new", "0"], found["classic", "0"]) == ("100", "7"), told[-1]
    reader.close()


def switch(tools: ToolServer, kafka: GenuineKafka, verb: str, levels: list[str]) -> None:
    words = [word for level in levels for word in ("--feature", level)]
    done = tools.run("kafka-features", "--bootstrap-server", kafka.bootstrap_servers, verb, *words)
    assert done.code == 0, done


def compact_offsets(tools: ToolServer, ours: BarnabasProcess) -> None:
    """Our cleaner takes the offsets topic; older commits of a group go."""
    config = "min.cleanable.dirty.ratio=0.001,segment.ms=200"
    done = tools.run(
        "kafka-configs", "--bootstrap-server", ours.bootstrap_servers, "--alter", "--entity-type", "topics",
        "--entity-name", "__consumer_offsets", "--add-config", config,
    )  # fmt: skip
    assert done.code == 0, done

    def compacted() -> bool:
        commit(ours.bootstrap_servers, "classic", TopicPartition("orders", 0, 7))
        return "__consumer_offsets-0 is compacted" in ours.log_file.read_text()

    until(compacted, "the offsets topic is compacted")
