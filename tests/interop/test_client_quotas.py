"""Clients that are held at their quotas: librdkafka, kafka-python of two ages, Java, and one that ignores it.

What a client is told follows from the bytes: of B bytes at a quota of Q a second, the throttle is B / Q less
the two to three seconds of windows over which the rate is. So nothing here looks at a clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.conftest import AnyBroker, broker_under_test
from tests.support.clients.librdkafka import create_topic, settings, until
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.genuine.tool_server import Tool, ToolServer

Fresh = Callable[[], str]

WINDOWS: Final = 3
RATE: Final = 50_000
"""Bytes a second."""
BURST_BYTES: Final = (WINDOWS - 1) * RATE
"""So many are let through at once."""
BYTES: Final = BURST_BYTES + RATE
"""Of the records alone: a second more than the burst."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """With few windows, for the burst before the first throttle is as long."""
    settings = {"quota.window.num": str(WINDOWS)}
    with broker_under_test(tmp_path_factory.mktemp("broker") / "data", settings) as running:
        yield running


class Quotas:
    """Sets quotas of client ids, and takes them away in the end."""

    def __init__(self, address: str) -> None:
        self.client = WireClient(address)
        self._set: list[tuple[str, str, str]] = []

    def limit(self, name: str, key: str, value: float | None, kind: str = "client-id") -> None:
        """Returns when the broker knows of it."""
        entity = [AlterClientQuotasRequest.EntityData(kind, name)]
        change = AlterClientQuotasRequest.OpData(key, value or 0.0, value is None)
        request = AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData(entity, [change])])
        answer = self.client.ask_for(AlterClientQuotasResponse, request, 1)
        assert [(each.error_code, each.error_message) for each in answer.entries] == [(0, None)]
        self._set.append((name, key, kind))
        until(lambda: self.shown(name, kind).get(key) == value, f"the broker learns of {name}'s quota")

    def shown(self, name: str, kind: str) -> dict[str, float]:
        component = DescribeClientQuotasRequest.ComponentData(kind, 0, name)
        request = DescribeClientQuotasRequest([component], True)
        found = self.client.ask_for(DescribeClientQuotasResponse, request, 1).entries or []
        return {value.key: value.value for entry in found for value in entry.values}

    def close(self) -> None:
        for name, key, kind in self._set:
            if key in self.shown(name, kind):
                self.limit(name, key, None, kind)
        self.client.close()


@pytest.fixture
def quotas(broker: AnyBroker) -> Iterator[Quotas]:
    made = Quotas(broker.bootstrap_servers)
    yield made
    made.close()


def test_librdkafka_is_told_what_it_is_throttled_for(broker: AnyBroker, quotas: Quotas, fresh: Fresh) -> None:
    topic, client_id = create_topic(broker.bootstrap_servers, fresh()), fresh()
    quotas.limit(client_id, "producer_byte_rate", RATE)
    quotas.limit(client_id, "consumer_byte_rate", RATE)
    told: list[float] = []
    words = settings(broker.bootstrap_servers, client_id=client_id)
    words["throttle_cb"] = lambda event: told.append(event.throttle_time)
    producer = Producer(words)
    for _ in range(BYTES // 10_000):
        producer.produce(topic, b"v" * 10_000)
        producer.flush(60)
    producer.poll(0.5)
    sent = [seconds for seconds in told if seconds]
    assert sent
    assert max(sent) < 60
    del told[:]
    more = {"group.id": fresh(), "max.partition.fetch.bytes": 20_000, "fetch.wait.max.ms": 50}
    consumer = Consumer(words | more)
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    while read < BYTES // 10_000:
        read += len(consumer.consume(100, 0.2))
    consumer.close()
    assert any(told), "reading is throttled as writing was"


@pytest.mark.parametrize("version", [None, (0, 11, 0)])
def test_kafka_python_is_told(broker: AnyBroker, quotas: Quotas, fresh: Fresh, version: Any) -> None:
    """Also with the versions of an old broker, by which a client does not keep quiet by itself."""
    topic, client_id = create_topic(broker.bootstrap_servers, fresh()), fresh()
    quotas.limit(client_id, "producer_byte_rate", RATE)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        client_id=client_id,
        enable_idempotence=False,
        **({} if version is None else {"api_version": version}),
    )
    for _ in range(BYTES // 10_000):
        producer.send(topic, b"v" * 10_000).get(60)
    told = [
        value
        for group in producer.metrics().values()
        for name, value in group.items()
        if name == "throttle-time-max"
    ]
    producer.close()
    assert 0 < max(told) <= 5_000


@pytest.mark.java
def test_java_is_told(
    broker: AnyBroker, quotas: Quotas, tool: Tool, tool_server: ToolServer, fresh: Fresh
) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    quotas.limit("perf-producer-client", "producer_byte_rate", RATE)
    quotas.limit("perf-consumer-client", "consumer_byte_rate", RATE)
    sent = tool_server.run(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", str(BYTES // 1000),
        "--record-size", "1000", "--throughput", "-1", "--print-metrics",
        "--bootstrap-server", broker.bootstrap_servers, "--command-property", "batch.size=10000",
    )  # fmt: skip
    assert sent.code == 0, sent.err
    assert highest(sent.out, "producer-metrics:produce-throttle-time-max") > 0
    words = ("--topic", topic, "--num-records", str(BYTES // 1000), "--timeout", "60000", "--print-metrics")
    read = tool("kafka-consumer-perf-test", *words, "--fetch-size", "20000")
    assert read.code == 0, read.err
    assert highest(read.out, "consumer-fetch-manager-metrics:fetch-throttle-time-max") > 0


def highest(printed: str, metric: str) -> float:
    found = re.findall(rf"^{re.escape(metric)}:\S+ +: +([\d.]+)", printed, re.MULTILINE)
    assert found, printed
    return max(map(float, found))


def produce_request(topic: str, size_bytes: int) -> ProduceRequest:
    batch = build_batch([SimpleRecord(None, b"v" * size_bytes, 1_700_000_000_000)])
    part = ProduceRequest.PartitionProduceData(0, batch)
    return ProduceRequest(None, 1, 5000, [ProduceRequest.TopicProduceData(topic, partition_data=[part])])


def test_a_client_that_ignores_its_throttle_is_muted(broker: AnyBroker, quotas: Quotas, fresh: Fresh) -> None:
    """It sends on at once: what it sends lies with the broker until each throttle is over. As in Kafka one is
    told as much again while the windows behind the burst are not over."""
    topic, client_id = create_topic(broker.bootstrap_servers, fresh()), fresh()
    quotas.limit(client_id, "producer_byte_rate", RATE)
    with WireClient(broker.bootstrap_servers, client_id=client_id) as client:
        told = []
        for size_bytes in (BURST_BYTES // 2, BURST_BYTES // 2 + RATE, 10):
            answer = client.ask_for(ProduceResponse, produce_request(topic, size_bytes), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            told.append(answer.throttle_time_ms)
    assert told[0] == 0
    assert 0 < told[1] <= 1_100
    assert told[2] <= 1_100


def test_the_time_of_requests_is_throttled_for_a_second_at_most(
    broker: AnyBroker, quotas: Quotas, fresh: Fresh
) -> None:
    client_id = fresh()
    quotas.limit(client_id, "request_percentage", 0.0001)
    with WireClient(broker.bootstrap_servers, client_id=client_id) as client:
        answers = [client.ask_for(MetadataResponse, MetadataRequest([]), 12) for _ in range(2)]
    assert all(0 < each.throttle_time_ms <= 1_000 for each in answers)


def test_a_quota_of_mutations_refuses_new_topics(broker: AnyBroker, quotas: Quotas, fresh: Fresh) -> None:
    client_id, first, second = fresh(), fresh(), fresh()
    quotas.limit(client_id, "controller_mutation_rate", 1.0)

    def create(name: str, partitions: int, version: int) -> tuple[int, str | None, int]:
        topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
        with WireClient(broker.bootstrap_servers, client_id=client_id) as client:
            answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 5000), version)
        return answer.topics[0].error_code, answer.topics[0].error_message, answer.throttle_time_ms

    assert create(first, 13, 7) == (0, None, 0)
    code, message, throttle_ms = create(second, 2, 7)
    assert (code, message) == (89, None)
    assert 0 < throttle_ms <= 2_000
    code, message, throttle_ms = create(second, 2, 5)
    assert (code, message) == (0, None), "an old client is not refused, and is throttled"
    assert 0 < throttle_ms <= 4_000


def test_an_address_that_connects_too_fast_is_cut_off(broker: AnyBroker, quotas: Quotas) -> None:
    quotas.limit("127.0.0.1", "connection_creation_rate", 2, "ip")

    def is_served() -> bool:
        with WireClient(broker.bootstrap_servers) as client:
            try:
                return isinstance(client.ask(ApiVersionsRequest("wire", "1"), 4), ApiVersionsResponse)
            except ConnectionEnded:
                return False

    with ThreadPoolExecutor(10) as threads:
        served = list(threads.map(lambda _: is_served(), range(10)))
    assert 0 < sum(served) < 10
    until(is_served, "a connection is accepted again")
    assert quotas.shown("127.0.0.1", "ip") == {"connection_creation_rate": 2}


@pytest.mark.java
def test_the_tool_sets_shows_and_deletes(tool: Tool, fresh: Fresh) -> None:
    client_id = fresh()
    entity = ("--entity-type", "clients", "--entity-name", client_id)
    words = ("--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    done = tool("kafka-configs", "--alter", *entity, *words)
    assert (done.code, done.out) == (0, f"Completed updating config for client {client_id}.\n")
    head = f"Quota configs for client-id '{client_id}' are "

    def shown() -> list[str]:
        return sorted(tool("kafka-configs", "--describe", *entity).out.removeprefix(head).strip().split(", "))

    there = ["producer_byte_rate=1024.0", "request_percentage=12.5"]
    until(lambda: shown() == there, "the broker learns of it")
    gone = ("--delete-config", "producer_byte_rate,request_percentage")
    assert tool("kafka-configs", "--alter", *entity, *gone).code == 0
    until(lambda: shown() == [""], "the broker learns that it is gone")


def test_what_others_do_is_not_slowed_down(broker: AnyBroker, quotas: Quotas, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    quotas.limit(fresh(), "producer_byte_rate", 1)
    told: list[float] = []
    words = settings(broker.bootstrap_servers)
    words["throttle_cb"] = lambda event: told.append(event.throttle_time)
    producer = Producer(words)
    for _ in range(200):
        producer.produce(topic, b"v" * 1000)
    assert producer.flush(60) == 0
    assert not any(told)


def test_a_quota_holds_at_once_after_a_restart(tmp_path: Path, fresh: Fresh) -> None:
    topic, client_id = fresh(), fresh()
    for is_restart in (False, True):
        with broker_under_test(tmp_path / "data", {"quota.window.num": str(WINDOWS)}) as running:
            address = running.bootstrap_servers
            if not is_restart:
                create_topic(address, topic)
                Quotas(address).limit(client_id, "producer_byte_rate", RATE)
                continue
            with WireClient(address, client_id=client_id) as client:
                answer = client.ask_for(ProduceResponse, produce_request(topic, BYTES), 9)
            assert 0 < answer.throttle_time_ms <= 1_100
