"""Configs that are changed while the broker runs act at once, and are there again after a restart."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.conftest import AnyBroker
from tests.support.brokers.ports import free_ports
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.questions.config_steps import BROKER, LOGGER, TOPIC, Change, change, drop, look, put

GZIP = 1


class Admin:
    """One connection that changes configs and sees what they do."""

    def __init__(self, address: str) -> None:
        self.client = WireClient(address)

    def alter(self, kind: int, name: str, *changes: Change) -> None:
        answer = self.client.ask_for(IncrementalAlterConfigsResponse, change((kind, name, changes)), 1)
        assert [(each.error_code, each.error_message) for each in answer.responses] == [(0, None)]

    def shown(self, kind: int, name: str, key: str) -> tuple[str | None, int] | None:
        (result,) = self.client.ask_for(DescribeConfigsResponse, look(kind, name, key), 4).results
        return next(((row.value, row.config_source) for row in result.configs), None)

    def create(self, topic: str) -> bytes:
        self.client.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(topic, 1, 1)]), 7)
        eventually(lambda: self.produce(topic) == 0)
        request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)])
        return self.client.ask_for(MetadataResponse, request, 12).topics[0].topic_id

    def produce(self, topic: str, size: int = 10, age_ms: int = 0) -> int:
        timestamp = time.time_ns() // 1_000_000 - age_ms
        batch = build_batch([SimpleRecord(None, b"x" * size, timestamp)])
        request = ProduceRequest(acks=-1, timeout_ms=5000)
        partition = ProduceRequest.PartitionProduceData(0, batch)
        request.topic_data.append(ProduceRequest.TopicProduceData(topic, partition_data=[partition]))
        response = self.client.ask_for(ProduceResponse, request, 9)
        return response.responses[0].partition_responses[0].error_code

    def last_batch(self, topic_id: bytes) -> bytes:
        """Of what is in the partition's one segment."""
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1)
        request.topics.append(FetchRequest.FetchTopic("", topic_id, [partition]))
        records = self.client.ask_for(FetchResponse, request, 16).responses[0].partitions[0].records
        assert isinstance(records, memoryview | bytes | bytearray)
        data = bytes(records)
        position = 0
        while True:
            end = position + 12 + int.from_bytes(data[position + 8 : position + 12])
            if end >= len(data):
                return data[position:]
            position = end


def attributes(batch: bytes) -> int:
    return int.from_bytes(batch[21:23])


def eventually(holds: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


@pytest.fixture
def admin(broker: AnyBroker) -> Iterator[Admin]:
    admin = Admin(broker.bootstrap_servers)
    yield admin
    admin.client.close()


def test_the_largest_message_of_a_topic_and_of_all(admin: Admin) -> None:
    admin.create("sizes")
    admin.alter(TOPIC, "sizes", put("max.message.bytes", "200"))
    eventually(lambda: admin.produce("sizes", 500) == ErrorCode.MESSAGE_TOO_LARGE)
    assert admin.produce("sizes", 20) == 0
    admin.alter(TOPIC, "sizes", drop("max.message.bytes"))
    eventually(lambda: admin.produce("sizes", 500) == 0)
    admin.alter(BROKER, "", put("message.max.bytes", "300"))
    eventually(lambda: admin.produce("sizes", 500) == ErrorCode.MESSAGE_TOO_LARGE)
    admin.alter(BROKER, "1", put("message.max.bytes", "1000"))
    eventually(lambda: admin.produce("sizes", 500) == 0)
    admin.alter(BROKER, "1", drop("message.max.bytes"))
    admin.alter(BROKER, "", drop("message.max.bytes"))
    eventually(lambda: admin.produce("sizes", 5000) == 0)


def test_how_batches_are_stored(admin: Admin) -> None:
    topic_id = admin.create("stored")
    admin.alter(
        BROKER, "", put("compression.type", "gzip"), put("log.message.timestamp.type", "LogAppendTime")
    )

    def rewritten() -> bool:
        assert admin.produce("stored") == 0
        return attributes(admin.last_batch(topic_id)) == GZIP | 0x08

    eventually(rewritten)
    admin.alter(BROKER, "", drop("compression.type"), drop("log.message.timestamp.type"))
    eventually(lambda: not rewritten())
    admin.alter(TOPIC, "stored", put("message.timestamp.before.max.ms", "30000"))
    eventually(lambda: admin.produce("stored", age_ms=60_000) == ErrorCode.INVALID_TIMESTAMP)
    assert admin.produce("stored") == 0


def answers(address: str) -> bool:
    """Whether a connection stays open long enough for one request."""
    try:
        with WireClient(address, timeout_seconds=30) as client:
            return client.ask_for(ApiVersionsResponse, ApiVersionsRequest("wire", "1"), 4).error_code == 0
    except (ConnectionEnded, OSError):
        return False


def test_connections_of_one_address(broker: AnyBroker, admin: Admin) -> None:
    assert answers(broker.bootstrap_servers)
    admin.alter(BROKER, "1", put("max.connections.per.ip", "1"))
    eventually(lambda: not answers(broker.bootstrap_servers))
    admin.alter(BROKER, "1", put("max.connections.per.ip.overrides", "localhost:5"))
    eventually(lambda: answers(broker.bootstrap_servers))
    admin.alter(BROKER, "1", drop("max.connections.per.ip.overrides"), drop("max.connections.per.ip"))
    eventually(lambda: answers(broker.bootstrap_servers))


def test_a_listener_comes_and_goes(broker: AnyBroker, admin: Admin) -> None:
    listeners = admin.shown(BROKER, "1", "listeners")
    assert listeners is not None
    assert listeners[0] is not None
    (port,) = free_ports(1)
    own = listeners[0].replace("PLAINTEXT://127.0.0.1:0", f"PLAINTEXT://{broker.bootstrap_servers}")
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT"
    admin.alter(
        BROKER, "1", put("listener.security.protocol.map", protocols),
        put("listeners", f"{own},SECOND://127.0.0.1:{port}"),
    )  # fmt: skip
    eventually(lambda: answers(f"127.0.0.1:{port}"))
    with socket.create_connection(("127.0.0.1", port), 60) as guest:
        admin.alter(BROKER, "1", drop("listeners"), drop("listener.security.protocol.map"))
        assert guest.recv(1) == b"", "its connections end with it"
    eventually(lambda: not answers(f"127.0.0.1:{port}"))
    assert answers(broker.bootstrap_servers)


def test_the_level_of_a_logger(admin: Admin) -> None:
    admin.alter(LOGGER, "1", put("root", "ERROR"))
    assert admin.shown(LOGGER, "1", "root") == ("ERROR", 6)
    admin.alter(LOGGER, "1", put("root", "INFO"))
    assert admin.shown(LOGGER, "1", "root") == ("INFO", 6)


def test_what_was_set_is_there_after_a_restart(new_broker: Callable[..., AnyBroker]) -> None:
    broker = new_broker()
    admin = Admin(broker.bootstrap_servers)
    admin.create("kept")
    admin.alter(TOPIC, "kept", put("max.message.bytes", "200"))
    admin.alter(BROKER, "1", put("log.retention.ms", "7000000"))
    admin.alter(BROKER, "", put("log.retention.ms", "8000000"), put("message.max.bytes", "300"))
    admin.create("inheriting")
    admin.client.close()
    broker.stop()
    broker.start()
    admin = Admin(broker.bootstrap_servers)
    eventually(lambda: admin.shown(TOPIC, "kept", "max.message.bytes") == ("200", 1))
    assert admin.shown(BROKER, "1", "log.retention.ms") == ("7000000", 2)
    assert admin.shown(BROKER, "", "log.retention.ms") == ("8000000", 3)
    assert admin.shown(TOPIC, "kept", "retention.ms") == ("7000000", 2)
    for topic in ("kept", "inheriting"):  # which may be known before they are led
        eventually(lambda: admin.produce(topic) == 0)  # noqa: B023
    assert admin.produce("kept", 250) == ErrorCode.MESSAGE_TOO_LARGE
    assert admin.produce("inheriting", 250) == ErrorCode.MESSAGE_TOO_LARGE
    admin.alter(BROKER, "", drop("message.max.bytes"))
    eventually(lambda: admin.produce("inheriting", 250) == 0)
    assert admin.produce("kept", 250) == ErrorCode.MESSAGE_TOO_LARGE
    admin.client.close()


def test_a_throttle_that_cannot_be_ends_no_broker(new_broker: Callable[..., AnyBroker]) -> None:
    broker = new_broker()
    admin = Admin(broker.bootstrap_servers)
    admin.create("throttled")
    for value in ("*,", "1:" + "1" * 4301):
        admin.alter(TOPIC, "throttled", put("leader.replication.throttled.replicas", value))
    eventually(lambda: admin.produce("throttled") == 0)
    admin.client.close()
    broker.stop()
    broker.start()
    admin = Admin(broker.bootstrap_servers)
    eventually(lambda: admin.produce("throttled") == 0)
    admin.client.close()
