"""confluent-kafka's AdminClient: topics, cluster, configs, groups and offsets as librdkafka sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import create_topic, fill, settings, take, until

Fresh = Callable[[], str]


@pytest.fixture
def admin(broker: AnyBroker) -> AdminClient:
    return AdminClient(settings(broker.bootstrap_servers))


def error_of(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(KafkaException) as refusal:
        call()
    error = refusal.value.args[0]
    return error.code(), error.str()


def test_the_cluster(admin: AdminClient, broker: AnyBroker) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(30)
    host, _, port = broker.bootstrap_servers.partition(":")
    assert [(node.id, node.host, node.port) for node in found.nodes] == [(1, host, int(port))]
    assert len(found.cluster_id) == 22
    assert found.controller.id == 1
    assert len(found.authorized_operations) > 3
    assert admin.list_topics(timeout=30).cluster_id == found.cluster_id


def test_a_topic_s_life(admin: AdminClient, fresh: Fresh) -> None:
    topic = fresh()
    admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "123456"})])[topic].result(30)
    until(lambda: topic in admin.list_topics(timeout=30).topics, "the topic is there")
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    assert [(each.id, each.leader.id, [r.id for r in each.replicas], [r.id for r in each.isr])
            for each in described.partitions] == [(index, 1, [1], [1]) for index in range(3)]  # fmt: skip
    assert not described.is_internal
    assert described.topic_id.get_least_significant_bits() != 0
    admin.delete_topics([topic])[topic].result(30)
    until(lambda: topic not in admin.list_topics(timeout=30).topics, "the topic is gone")
    code, _ = error_of(lambda: admin.delete_topics([topic])[topic].result(30))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_comes_again_empty(admin: AdminClient, broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    fill(broker.bootstrap_servers, topic, range(20), partition=0)
    admin.delete_topics([topic])[topic].result(30)
    until(lambda: topic not in admin.list_topics(timeout=30).topics, "the topic is gone")
    create_topic(broker.bootstrap_servers, topic)
    fill(broker.bootstrap_servers, topic, ["new"], partition=0)
    reader = Consumer(settings(broker.bootstrap_servers, group_id="nobody"))
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), 30) == (0, 1)
    reader.close()


def test_topics_that_are_refused(admin: AdminClient, broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())

    def refused(name: str, partitions: int = 1, replicas: int = 1, **config: str) -> tuple[int, str]:
        named = {key.replace("_", "."): value for key, value in config.items()}
        return error_of(
            lambda: admin.create_topics([NewTopic(name, partitions, replicas, config=named)])[name].result(30)
        )

    assert refused(topic) == (KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    assert refused("a b")[0] == KafkaError.TOPIC_EXCEPTION
    assert refused(fresh(), 0)[0] == KafkaError.INVALID_PARTITIONS
    too_few = "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered"
    code, text = refused(fresh(), 1, 2)
    assert code == KafkaError.INVALID_REPLICATION_FACTOR
    assert text.startswith(f"Unable to replicate the partition 2 time(s): {too_few}")
    assert refused(fresh(), retention_ms="viel") == (
        KafkaError.INVALID_CONFIG,
        "Invalid value viel for configuration retention.ms: Not a number of type LONG",
    )
    assert refused(fresh(), nonsense="1") == (
        KafkaError.INVALID_CONFIG,
        "Unknown topic config name: nonsense",
    )


def test_only_to_see(admin: AdminClient, fresh: Fresh) -> None:
    topic = fresh()
    admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True)[topic].result(30)
    assert topic not in admin.list_topics(timeout=30).topics


def test_configs_of_a_topic(admin: AdminClient, broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh(), cleanup_policy="compact", retention_ms="77")
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(30)
    assert {name for name, entry in found.items() if not entry.is_default} == {
        "cleanup.policy",
        "min.insync.replicas",  # a cluster with eligible leader replicas sets it for all brokers (KIP-966)
        "retention.ms",
    }
    assert (found["cleanup.policy"].value, found["retention.ms"].value) == ("compact", "77")
    assert found["segment.bytes"].value == "1073741824"
    assert list(found["segment.bytes"].synonyms) == ["log.segment.bytes"]
    assert len(found) == 33


def test_configs_of_a_broker(admin: AdminClient, broker: AnyBroker) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    found = admin.describe_configs([resource])[resource].result(30)
    assert found["node.id"].value == "1"
    assert found["node.id"].is_read_only
    assert found["log.dirs"].value == str(broker.data)
    assert found["num.partitions"].value == "1"
    assert found["ssl.keystore.password"].is_sensitive
    assert found["ssl.keystore.password"].value is None


def test_offsets_of_partitions(admin: AdminClient, broker: AnyBroker, fresh: Fresh) -> None:
    topic = create_topic(broker.bootstrap_servers, fresh())
    fill(broker.bootstrap_servers, topic, range(9), partition=0)

    def offset(name: str, *arguments: int, isolation: Any = IsolationLevel.READ_UNCOMMITTED) -> int:
        asked = {TopicPartition(topic, 0): getattr(OffsetSpec, name)(*arguments)}
        (future,) = admin.list_offsets(asked, isolation_level=isolation).values()
        found: int = future.result(30).offset
        return found

    assert offset("earliest") == 0
    assert offset("latest") == 9
    assert offset("latest", isolation=IsolationLevel.READ_COMMITTED) == 9
    assert offset("for_timestamp", 0) == 0
    assert 0 <= offset("max_timestamp") <= 8


def test_groups_and_what_they_committed(admin: AdminClient, broker: AnyBroker, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh()), fresh()
    fill(broker.bootstrap_servers, topic, range(4), partition=0)
    by_hand = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}  # else the timer may be first
    reader = Consumer(settings(broker.bootstrap_servers, group_id=group, **by_hand))
    reader.subscribe([topic])
    take(reader, 4)
    reader.commit(asynchronous=False)
    listed = {each.group_id: each for each in admin.list_consumer_groups().result(30).valid}
    assert listed[group].state == ConsumerGroupState.STABLE
    assert not listed[group].is_simple_consumer_group
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(30).valid
    assert group not in {each.group_id for each in empty}
    reader.close()
    asked = ConsumerGroupTopicPartitions(group)
    (future,) = admin.list_consumer_group_offsets([asked]).values()
    committed = future.result(30).topic_partitions
    assert [(each.topic, each.partition, each.offset) for each in committed] == [(topic, 0, 4)]


def test_a_group_that_does_not_exist(admin: AdminClient, fresh: Fresh) -> None:
    group = fresh()
    found = admin.describe_consumer_groups([group])[group].result(30)
    assert (found.state, found.members) == (ConsumerGroupState.DEAD, [])
