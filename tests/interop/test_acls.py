"""Access control entries: made, listed and removed by the genuine tool and clients, and obeyed.

All clients are User:ANONYMOUS here. What has no entries is open (`allow.everyone.if.no.acl.found`), so each
test closes or opens what it is about, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.conftest import AnyBroker, broker_under_test
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, settings
from tests.support.clients.librdkafka import until as until_patiently
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import Tool, ToolServer

pytestmark = pytest.mark.java

Fresh = Callable[[], str]
until = partial(until_patiently, timeout_seconds=30)

AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:root;User:admin",
    "group.initial.rebalance.delay.ms": "0",
}
ME: Final = "User:ANONYMOUS"
ANYBODY: Final[Any] = None
ANYWHERE: Final[Any] = None


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with broker_under_test(tmp_path_factory.mktemp("broker") / "data", AUTHORIZED) as running:
        yield running


@pytest.fixture
def admin(broker: AnyBroker) -> AdminClient:
    return AdminClient(settings(broker.bootstrap_servers))


@pytest.fixture
def topic(broker: AnyBroker, fresh: Fresh) -> str:
    name = fresh()
    create_topic(broker.bootstrap_servers, name)
    return name


def added(tool: Tool, *words: str) -> ToolResult:
    done = tool("kafka-acls", "--add", *words)
    assert done.code == 0, done.err
    return done


def listed(tool: Tool, *words: str) -> list[str]:
    """What the tool lists, line by line and in order of the text."""
    return sorted(line.strip() for line in tool("kafka-acls", "--list", *words).lines if line.strip())


def pattern(kind: str, name: str, pattern_type: str = "LITERAL") -> str:
    return (
        "Current ACLs for resource "
        f"`ResourcePattern(resourceType={kind}, name={name}, patternType={pattern_type})`:"
    )


def entry(operation: str, permission: str = "ALLOW", who: str = ME, host: str = "*") -> str:
    return f"(principal={who}, host={host}, operation={operation}, permissionType={permission})"


def seen(admin: AdminClient, topic: str) -> bool:
    return topic in admin.list_topics(timeout=30).topics


def write(broker: AnyBroker, topic: str, **more: str) -> int:
    """The error code of one record."""
    codes: list[int] = []
    producer = Producer(settings(broker.bootstrap_servers) | {"message.timeout.ms": 20_000} | more)
    producer.produce(topic, b"x", callback=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(30)
    return codes[0]


def test_entries_come_are_listed_and_go(tool: Tool, topic: str) -> None:
    told = added(tool, "--allow-principal", "User:ann", "--operation", "read", "--topic", topic).lines
    assert told[0].startswith(f"Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name={topic}")
    added(tool, "--allow-principal", "User:ann", "--operation", "read", "--topic", topic)
    added(tool, "--deny-principal", "User:bob", "--deny-host", "10.1.2.3", "--topic", topic)
    whole = [
        entry("READ", who="User:ann"),
        entry("ALL", "DENY", "User:bob", "10.1.2.3"),
        pattern("TOPIC", topic),
    ]
    until(lambda: listed(tool, "--topic", topic) == whole, "the broker knows them")
    (only,) = [line for line in listed(tool, "--topic", topic, "--principal", "User:bob") if "host=" in line]
    assert only == whole[1]
    removed = ("--force", "--allow-principal", "User:ann", "--operation", "read", "--topic", topic)
    assert tool("kafka-acls", "--remove", *removed).code == 0
    until(lambda: listed(tool, "--topic", topic) == whole[1:], "one has gone")
    assert tool("kafka-acls", "--remove", "--force", "--topic", topic).code == 0
    until(lambda: listed(tool, "--topic", topic) == [], "all have gone")


def test_a_producer_and_a_consumer_of_topics_with_a_prefix(tool: Tool, fresh: Fresh) -> None:
    stem, group = fresh(), fresh()
    prefixed = ("--resource-pattern-type", "prefixed", "--topic", stem)
    added(tool, "--allow-principal", "User:ann", "--producer", "--transactional-id", stem, *prefixed)
    added(tool, "--allow-principal", "User:bob", "--consumer", "--group", group, *prefixed)
    wanted = [
        *sorted(entry(each, who="User:ann") for each in ("CREATE", "DESCRIBE", "WRITE")),
        *sorted(entry(each, who="User:bob") for each in ("DESCRIBE", "READ")),
        pattern("TOPIC", stem, "PREFIXED"),
    ]
    matching = ("--topic", f"{stem}-any", "--resource-pattern-type", "match")
    until(lambda: listed(tool, *matching) == sorted(wanted), "a topic of that prefix has them")
    assert listed(tool, "--group", group, "--resource-pattern-type", "prefixed") == [
        entry("READ", who="User:bob"), pattern("GROUP", group, "PREFIXED"),
    ]  # fmt: skip
    assert pattern("TRANSACTIONAL_ID", stem, "PREFIXED") in listed(tool)


@pytest.mark.parametrize("idempotent", ["false", "true"])
def test_who_may_not_write(tool: Tool, broker: AnyBroker, topic: str, idempotent: str) -> None:
    more = {"enable.idempotence": idempotent}
    assert write(broker, topic, **more) == 0
    added(tool, "--allow-principal", ME, "--operation", "all", "--topic", topic)
    added(tool, "--deny-principal", ME, "--operation", "write", "--topic", topic)
    until(
        lambda: write(broker, topic, **more) == KafkaError.TOPIC_AUTHORIZATION_FAILED, "nobody writes to it"
    )
    read = tool("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "1")
    assert read.lines[:1] == ["x"], read.err


def test_a_connected_producer_is_stopped_at_once(tool: Tool, broker: AnyBroker, topic: str) -> None:
    """What the broker remembers of a producer's requests ends with the entry."""
    codes: list[int] = []
    producer = Producer(settings(broker.bootstrap_servers) | {"linger.ms": 0})

    def produce() -> int:
        try:
            producer.produce(
                topic, b"x", callback=lambda error, _: codes.append(error.code() if error else 0)
            )
        except KafkaException as refusal:  # librdkafka knows it from the metadata already
            return int(refusal.args[0].code())
        producer.flush(30)
        return codes[-1]

    assert [produce() for _ in range(50)] == [0] * 50
    added(tool, "--allow-principal", ME, "--operation", "describe", "--topic", topic)
    until(lambda: produce() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "it may not write any more")
    added(tool, "--allow-principal", ME, "--operation", "write", "--topic", topic)
    until(lambda: produce() == 0, "it may write again")


def test_a_topic_that_one_may_not_see(tool: Tool, admin: AdminClient, topic: str, fresh: Fresh) -> None:
    assert seen(admin, topic)
    added(tool, "--allow-principal", "User:ann", "--operation", "read", "--topic", topic)
    until(lambda: not seen(admin, topic), "it is not among all topics")
    missing = fresh()
    added(tool, "--allow-principal", "User:ann", "--operation", "read", "--topic", missing)
    for name in (topic, missing):
        error = admin.list_topics(name, timeout=30).topics[name].error
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "whether it exists is not told"


def test_where_one_comes_from(tool: Tool, admin: AdminClient, topic: str) -> None:
    added(tool, "--allow-principal", ME, "--allow-host", "127.0.0.9", "--operation", "read", "--topic", topic)
    until(lambda: not seen(admin, topic), "another address may see it")
    added(tool, "--allow-principal", ME, "--allow-host", "127.0.0.1", "--operation", "read", "--topic", topic)
    until(lambda: seen(admin, topic), "this address may see it")


def test_a_group(tool: Tool, topic: str, fresh: Fresh) -> None:
    group = fresh()
    assert tool("kafka-console-producer", "--topic", topic, stdin="a\n").code == 0
    consume = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1")
    added(tool, "--deny-principal", ME, "--operation", "read", "--group", group)
    until(lambda: len(listed(tool, "--group", group)) == 2, "the broker knows it")
    assert tool("kafka-console-consumer", *consume).lines == []
    refused = tool("kafka-consumer-groups", "--describe", "--group", group)
    assert "GroupAuthorizationException" in refused.out + refused.err
    assert tool("kafka-acls", "--remove", "--force", "--group", group).code == 0
    until(lambda: listed(tool, "--group", group) == [], "the broker has forgotten it")
    assert tool("kafka-console-consumer", *consume).lines == ["a"]


def test_librdkafka_s_admin(admin: AdminClient, topic: str) -> None:
    def binding(operation: AclOperation, name: str = topic) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ann", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip

    wanted = [binding(AclOperation.READ), binding(AclOperation.WRITE)]
    for future in admin.create_acls(wanted).values():
        future.result(30)
    mine = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.MATCH, ANYBODY, ANYWHERE, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    until(lambda: set(admin.describe_acls(mine).result(30)) == set(wanted), "both are listed")
    (removed,) = admin.delete_acls([mine]).values()
    assert set(removed.result(30)) == set(wanted)
    (refused,) = admin.create_acls([binding(AclOperation.READ, "")]).values()
    with pytest.raises(KafkaException) as failure:
        refused.result(30)
    assert failure.value.args[0].code() == KafkaError.INVALID_REQUEST


def test_a_controller_is_asked_directly(broker: AnyBroker, tool_server: ToolServer, topic: str) -> None:
    at = ("--bootstrap-controller", broker.bootstrap_controllers)
    added = tool_server.run("kafka-acls", *at, "--add", "--allow-principal", "User:ann", "--topic", topic)
    assert added.code == 0, added.err
    shown = tool_server.run("kafka-acls", *at, "--list", "--topic", topic)
    assert entry("ALL", who="User:ann") in shown.out


def test_they_outlive_a_restart(broker: AnyBroker, tool: Tool, topic: str) -> None:
    added(tool, "--deny-principal", ME, "--operation", "write", "--topic", topic)
    until(lambda: len(listed(tool, "--topic", topic)) == 2, "the broker knows it")
    before = listed(tool)
    broker.stop()
    broker.start()
    until(lambda: listed(tool) == before, "nothing is forgotten")
    assert write(broker, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@barnabas_only
def test_the_operator_is_told(broker: AnyBroker, tool: Tool, topic: str) -> None:
    added(tool, "--allow-principal", ME, "--operation", "describe", "--topic", topic)
    until(lambda: len(listed(tool, "--topic", topic)) == 2, "the broker knows it")
    alter = ("--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=1")
    refused = tool("kafka-configs", *alter)
    assert "TopicAuthorizationException" in refused.out + refused.err
    assert isinstance(broker, BarnabasProcess)
    assert (
        f"Principal = {ME} is Denied operation = ALTER_CONFIGS from host = 127.0.0.1 on resource = "
        f"Topic:LITERAL:{topic} for request = IncrementalAlterConfigs"
    ) in broker.log_tail(100_000)


def test_offsets_of_a_topic_that_one_may_not_read(tool: Tool, topic: str, fresh: Fresh) -> None:
    group = fresh()
    assert tool("kafka-console-producer", "--topic", topic, stdin="a\n").code == 0
    consume = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1")
    assert tool("kafka-console-consumer", *consume).lines == ["a"]
    added(tool, "--allow-principal", ME, "--operation", "describe", "--topic", topic)
    reset = ("--reset-offsets", "--to-earliest", "--execute", "--group", group, "--topic", topic)
    until(
        lambda: (
            "TopicAuthorizationException" in (done := tool("kafka-consumer-groups", *reset)).out + done.err
        ),
        "who may only describe it commits nothing",
    )
    described = tool("kafka-consumer-groups", "--describe", "--group", group)
    assert topic in described.out, "but sees what was committed"


def test_partitions_of_an_assigned_consumer(tool: Tool, broker: AnyBroker, topic: str) -> None:
    added(tool, "--allow-principal", ME, "--operation", "describe", "--topic", topic)
    until(lambda: len(listed(tool, "--topic", topic)) == 2, "the broker knows it")
    consumer = Consumer(settings(broker.bootstrap_servers) | {"group.id": "assigned"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_connected_consumer_is_stopped_at_once(tool: Tool, broker: AnyBroker, topic: str) -> None:
    """Its fetch session was begun when it still might read."""
    assert write(broker, topic) == 0
    consumer = Consumer(settings(broker.bootstrap_servers) | {"group.id": "stopped"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consumer.consume(1, 30)] == [b"x"]
    added(tool, "--allow-principal", ME, "--operation", "write", "--topic", topic)
    assert write(broker, topic) == 0
    codes: list[int] = []

    def is_told() -> bool:
        codes.extend(error.code() for message in consumer.consume(1, 1) if (error := message.error()))
        return bool(codes)

    until(is_told, "it may not read any more")  # Apache Kafka answers a fetch that waits with the record
    consumer.close()
    assert set(codes) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}


def test_a_transactional_producer(tool: Tool, broker: AnyBroker, topic: str, fresh: Fresh) -> None:
    name = fresh()
    added(tool, "--deny-principal", ME, "--operation", "write", "--transactional-id", name)
    until(lambda: len(listed(tool, "--transactional-id", name)) == 2, "the broker knows it")
    producer = Producer(settings(broker.bootstrap_servers) | {"transactional.id": name})
    with pytest.raises(KafkaException) as failure:
        producer.init_transactions(30)
    assert failure.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_the_cluster(tool: Tool, admin: AdminClient) -> None:
    """What is closed here is opened again, or no other test could do its work."""
    describe = ("--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert tool("kafka-configs", *describe).code == 0
    added(tool, "--allow-principal", ME, "--operation", "all", "--cluster")
    added(tool, "--deny-principal", ME, "--operation", "DescribeConfigs", "--cluster")

    def refused() -> bool:
        done = tool("kafka-configs", *describe)
        return "ClusterAuthorizationException" in done.out + done.err

    until(refused, "a broker's configs are not shown")
    operations = admin.describe_cluster(include_authorized_operations=True).result(30).authorized_operations
    assert AclOperation.ALTER_CONFIGS in operations
    assert AclOperation.DESCRIBE_CONFIGS not in operations
    assert tool("kafka-acls", "--remove", "--force", "--cluster").code == 0
    until(lambda: not refused(), "they are shown again")


def test_topics_that_one_may_make(tool: Tool, broker: AnyBroker, fresh: Fresh) -> None:
    """With entries for the cluster only names with a certain beginning may be created, by first use too."""
    stem = fresh()
    operations = [word for each in ("ClusterAction", "Alter", "Describe") for word in ("--operation", each)]
    added(tool, "--allow-principal", ME, *operations, "--cluster")
    added(tool, "--allow-principal", ME, "--producer", "--topic", stem, "--resource-pattern-type", "prefixed")
    added(tool, "--allow-principal", ME, "--operation", "describe", "--topic", f"not-{stem}")
    create = ("kafka-topics", "--create", "--topic")
    refused = tool(*create, f"not-{stem}")
    assert "topic command : Authorization failed." in refused.out + refused.err
    assert tool(*create, f"{stem}-1").code == 0
    assert write(broker, f"{stem}-2", **{"allow.auto.create.topics": "true"}) == 0
    assert tool("kafka-acls", "--remove", "--force", "--cluster").code == 0
    until(lambda: listed(tool, "--cluster") == [], "the cluster is open again")
