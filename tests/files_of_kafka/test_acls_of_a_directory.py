"""Access control entries stay with a directory: Barnabas obeys what Apache Kafka has left, and vice versa."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.conftest import AnyBroker
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, settings, until
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

ANYTHING: Final[Any] = None


def binding(name: str, pattern: ResourcePatternType, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, pattern, "User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW
    )


def listed(broker: AnyBroker) -> set[AclBinding]:
    everything = AclBindingFilter(
        ResourceType.ANY, ANYTHING, ResourcePatternType.ANY, ANYTHING, ANYTHING, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    admin = AdminClient(settings(broker.bootstrap_servers))
    found: list[AclBinding] = admin.describe_acls(everything).result(60)
    return set(found)


def add(broker: AnyBroker, wanted: AclBinding) -> None:
    admin = AdminClient(settings(broker.bootstrap_servers))
    (done,) = admin.create_acls([wanted]).values()
    done.result(60)
    until(lambda: wanted in listed(broker), "the broker knows it")


def write(broker: AnyBroker, topic: str) -> int:
    """The error code of one record."""
    codes: list[int] = []
    producer = Producer(settings(broker.bootstrap_servers) | {"message.timeout.ms": 30_000})
    try:
        producer.produce(topic, b"x", callback=lambda error, _: codes.append(error.code() if error else 0))
    except KafkaException as refusal:
        return int(refusal.args[0].code())
    producer.flush(60)
    return codes[0]


def test_entries_of_a_directory(tmp_path: Path) -> None:
    genuine = GenuineKafka(
        tmp_path / "data",
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    genuine.features = NO_FEATURES
    readable = binding("read", ResourcePatternType.PREFIXED, AclOperation.READ)
    writable = binding("read-and-written", ResourcePatternType.LITERAL, AclOperation.WRITE)
    with genuine:
        for topic in ("read-only", "read-and-written", "open"):
            create_topic(genuine.bootstrap_servers, topic)
        add(genuine, readable)
    with BarnabasProcess(genuine.data, genuine.properties).start() as ours:
        assert listed(ours) == {readable}
        denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert [write(ours, name) for name in ("read-only", "read-and-written", "open")] == [
            denied,
            denied,
            0,
        ]
        add(ours, writable)
        until(lambda: write(ours, "read-and-written") == 0, "it is allowed")
    with genuine:
        assert listed(genuine) == {readable, writable}
        assert [write(genuine, name) for name in ("read-only", "read-and-written")] == [denied, 0]
