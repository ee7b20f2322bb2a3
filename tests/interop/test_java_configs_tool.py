"""kafka-configs and kafka-client-metrics on every kind of entity, and the same through confluent-kafka and
kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import KafkaAdminClient

from tests.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.genuine.tool_server import Tool

pytestmark = pytest.mark.java

Fresh = Callable[[], str]
PATIENCE_SECONDS: Final = 60


def until(call: Callable[[], str], word: str, *, there: bool = True) -> str:
    """A change is seen a moment after it was made."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (word in (shown := call())) != there and time.monotonic() < deadline:
        time.sleep(0.02)
    if (word in shown) == there:
        return shown
    raise AssertionError(f"{word!r} {'never came' if there else 'stayed'}:\n{shown}")


@pytest.fixture
def configs(tool: Tool) -> Callable[..., str]:
    """kafka-configs, which must succeed; what it printed."""

    def call(*words: str) -> str:
        done = tool("kafka-configs", *words)
        assert done.code == 0, done
        return done.out

    return call


def entity(kind: str, name: str = "") -> list[str]:
    return ["--entity-type", kind, *(["--entity-name", name] if name else ["--entity-default"])]


def test_a_topic_from_a_file(tool: Tool, configs: Callable[..., str], fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh()
    assert tool("kafka-topics", "--create", "--topic", topic).code == 0
    file = tmp_path / "more.properties"
    file.write_text("retention.ms=60000\ncleanup.policy=compact,delete\n")
    assert configs("--alter", *entity("topics", topic), "--add-config-file", str(file)) == (
        f"Completed updating config for topic {topic}.\n"
    )
    configs("--alter", *entity("topics", topic), "--delete-config", "retention.ms")
    shown = until(lambda: configs("--describe", *entity("topics", topic)), "retention.ms", there=False)
    assert shown.splitlines()[1] == (
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}"
    )
    everything = configs("--describe", *entity("topics", topic), "--all").splitlines()
    assert len(everything) == 1 + 33


def test_a_broker_and_all_brokers(configs: Callable[..., str]) -> None:
    configs("--alter", *entity("brokers"), "--add-config", "log.retention.ms=7000000")
    configs("--alter", *entity("brokers", "1"), "--add-config", "log.retention.ms=8000000")
    shown = until(lambda: configs("--describe", *entity("brokers", "1")), "8000000")
    assert shown.splitlines()[1].startswith(
        "  log.retention.ms=8000000 sensitive=false "
        "synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=8000000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7000000"
    )
    configs("--alter", *entity("brokers", "1"), "--delete-config", "log.retention.ms")
    configs("--alter", *entity("brokers"), "--delete-config", "log.retention.ms")
    until(lambda: configs("--describe", *entity("brokers")), "log.retention.ms", there=False)


@barnabas_only
def test_loggers_bear_the_names_of_the_log(configs: Callable[..., str]) -> None:
    names = [line.split("=")[0].strip() for line in configs("--describe", *LOGGERS).splitlines()[1:]]
    assert {"root", "barnabas", "barnabas.node"} <= set(names)
    configs("--alter", *LOGGERS, "--add-config", "barnabas.node=DEBUG")
    assert "  barnabas.node=DEBUG sensitive=false synonyms={}" in configs("--describe", *LOGGERS)
    configs("--alter", *LOGGERS, "--delete-config", "barnabas.node")
    assert "  barnabas.node=INFO sensitive=false synonyms={}" in configs("--describe", *LOGGERS)


LOGGERS = entity("broker-loggers", "1")


def test_a_group_and_a_subscription(tool: Tool, configs: Callable[..., str], fresh: Fresh) -> None:
    group, subscription = fresh(), fresh()
    configs("--alter", *entity("groups", group), "--add-config", "share.isolation.level=read_committed")
    shown = until(lambda: configs("--describe", *entity("groups", group)), "read_committed")
    assert "DYNAMIC_GROUP_CONFIG:share.isolation.level=read_committed" in shown
    words = ("--name", subscription, "--metrics", "org.apache.kafka.producer.", "--interval", "5000")
    made = tool("kafka-client-metrics", "--alter", *words)
    assert made.code == 0, made
    shown = until(
        lambda: tool("kafka-client-metrics", "--describe", "--name", subscription).out, "interval.ms=5000"
    )
    assert "metrics=org.apache.kafka.producer." in shown
    assert subscription in tool("kafka-client-metrics", "--list").lines
    assert tool("kafka-client-metrics", "--delete", "--name", subscription).code == 0
    until(lambda: tool("kafka-client-metrics", "--list").out, subscription, there=False)


@pytest.fixture
def confluent(broker: AnyBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def test_librdkafka_appends_and_replaces(tool: Tool, confluent: AdminClient, fresh: Fresh) -> None:
    topic = fresh()
    assert tool("kafka-topics", "--create", "--topic", topic).code == 0
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    assert confluent.incremental_alter_configs([resource])[resource].result(30) is None

    def policy() -> str:
        named = ConfigResource("topic", topic)
        found = confluent.describe_configs([named])[named].result(30)
        return f"{found['cleanup.policy'].value} {found['retention.ms'].value}"

    until(policy, "delete,compact 604800000")
    whole = ConfigResource("topic", topic, set_config={"retention.ms": "77777"})
    assert confluent.alter_configs([whole])[whole].result(30) is None
    until(policy, "delete 77777")


@pytest.fixture
def kafka_python(broker: AnyBroker) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield admin
    admin.close()


def test_kafka_python_alters(tool: Tool, kafka_python: KafkaAdminClient, fresh: Fresh) -> None:
    topic = fresh()
    assert tool("kafka-topics", "--create", "--topic", topic).code == 0
    kafka_python.alter_configs([KafkaPythonResource("TOPIC", topic, {"retention.ms": "88888"})])
    asked = KafkaPythonResource("TOPIC", topic)
    until(lambda: str(kafka_python.describe_configs([asked])), "88888")
