"""What the clients do while `record_corpus` listens: one function a client, as broad as it is short."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.genuine.kafka_jars import java_command

TOOLS = "org.apache.kafka.tools."
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def use_kafka_python(servers: str) -> None:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic("kp", 2, 1)])
    for options in ({}, {"acks": 0}, {"compression_type": "gzip", "acks": 1}, {"enable_idempotence": False}):
        producer = KafkaProducer(bootstrap_servers=servers, **options)
        for number in range(5):
            producer.send("kp", key=b"k%d" % number, value=b"value %d" % number, headers=[("h", b"1")])
        producer.flush()
        producer.close()
    consumer = KafkaConsumer(
        "kp", bootstrap_servers=servers, group_id="kp-group", auto_offset_reset="earliest", client_id="kp"
    )
    consumer.poll(5000)
    consumer.commit()
    partition = TopicPartition("kp", 0)
    with contextlib.suppress(Exception):
        consumer.beginning_offsets([partition])
        consumer.offsets_for_times({partition: 0})
    attempt(
        lambda: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "kp")]),
        lambda: admin.create_partitions({"kp": NewPartitions(3)}),
        lambda: admin.list_groups(),
        lambda: admin.list_consumer_groups(),
        lambda: admin.describe_groups(["kp-group"]),
        lambda: admin.describe_topics(["kp"]),
        lambda: admin.describe_topic_partitions(["kp"]),
        lambda: admin.describe_features(),
        lambda: admin.describe_metadata_quorum(),
        lambda: admin.describe_producers([partition]),
        lambda: admin.list_transactions(),
        lambda: admin.list_config_resources(),
        lambda: admin.list_partition_reassignments(),
        lambda: admin.list_partition_offsets({partition: -1}),
        lambda: admin.elect_leaders(0, [partition]),
        lambda: admin.elect_leaders(0),
        lambda: admin.delete_records({partition: 1}),
        lambda: admin.describe_user_scram_credentials(),
        lambda: admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "kp", {"retention.ms": "99"})]),
        lambda: admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, "kp", {"retention.ms": "99"})]),
        lambda: admin.alter_partition_reassignments({partition: [1]}),
        lambda: admin.update_features({"share.version": 1}),
        lambda: admin.describe_consumer_groups(["kp-group"]),
        lambda: admin.list_consumer_group_offsets("kp-group"),
        lambda: admin.list_group_offsets("kp-group"),
        lambda: admin.describe_cluster(),
        lambda: admin.describe_log_dirs(),
        lambda: consumer.close(),
        lambda: admin.delete_consumer_groups(["kp-group"]),
        lambda: admin.delete_groups(["kp-group"]),
        lambda: admin.delete_topics(["kp"]),
    )
    admin.close()


def attempt(*calls: Callable[[], object]) -> None:
    """Make each call; what this release of a client does not have, or Kafka refuses, is not the point."""
    for call in calls:
        with contextlib.suppress(Exception):
            call()


def use_confluent_kafka(servers: str) -> None:
    import confluent_kafka.admin
    from confluent_kafka import Consumer, Producer, TopicPartition

    library: Any = confluent_kafka.admin
    admin = library.AdminClient({"bootstrap.servers": servers})
    admin.create_topics([library.NewTopic("ck", 2, 1)])["ck"].result(20)
    for options in (
        {},
        {"enable.idempotence": True},
        {"transactional.id": "ck-tx", "compression.type": "lz4"},
    ):
        producer = Producer({"bootstrap.servers": servers, **options})
        transactional = "transactional.id" in options
        if transactional:
            producer.init_transactions(20)
            producer.begin_transaction()
        for number in range(5):
            producer.produce("ck", b"value %d" % number, b"key")
        producer.flush(20)
        if transactional:
            producer.commit_transaction(20)
            producer.begin_transaction()
            producer.produce("ck", b"aborted")
            producer.abort_transaction(20)
    for protocol_ in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"ck-{protocol_}",
                "group.protocol": protocol_,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["ck"])
        for _ in range(12):
            consumer.poll(0.5)
        attempt(lambda: consumer.commit(asynchronous=False))  # noqa: B023
        consumer.close()
    resource = library.ConfigResource(library.ConfigResource.Type.TOPIC, "ck")
    group = "ck-classic"
    partition = TopicPartition("ck", 0)
    attempt(
        lambda: admin.list_topics(timeout=20),
        lambda: admin.describe_configs([resource])[resource].result(20),
        lambda: admin.create_partitions([library.NewPartitions("ck", 3)])["ck"].result(20),
        lambda: admin.describe_cluster().result(20),
        lambda: admin.list_consumer_groups().result(20),
        lambda: admin.describe_consumer_groups([group, "ck-consumer"])[group].result(20),
        lambda: admin.list_offsets({partition: library.OffsetSpec.latest()})[partition].result(20),
        lambda: admin.delete_records([TopicPartition("ck", 0, 1)])[partition].result(20),
        lambda: admin.describe_user_scram_credentials().result(20),
        lambda: admin.elect_leaders(library.ElectionType.PREFERRED, [partition]).result(20),
        lambda: admin.delete_consumer_groups([group])[group].result(20),
        lambda: admin.delete_topics(["ck"])["ck"].result(20),
    )


def use_aiokafka(servers: str) -> None:
    asyncio.run(_use_aiokafka(servers))


async def _use_aiokafka(servers: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    for options in ({}, {"enable_idempotence": True}, {"transactional_id": "aio-tx"}):
        producer = AIOKafkaProducer(bootstrap_servers=servers, **options)
        await producer.start()
        if "transactional_id" in options:
            async with producer.transaction():
                await producer.send_and_wait("aio", b"in a transaction")
        else:
            await producer.send_and_wait("aio", b"plain", key=b"k")
        await producer.stop()
    consumer = AIOKafkaConsumer(
        "aio", bootstrap_servers=servers, group_id="aio-group", auto_offset_reset="earliest"
    )
    await consumer.start()
    await consumer.getmany(timeout_ms=3000)
    await consumer.commit()
    await consumer.stop()


Call = tuple[str, str, tuple[str, ...]]
"""A tool's class, what it reads on standard input, and its arguments."""


def use_java_tools(servers: str) -> None:
    at = ("--bootstrap-server", servers)
    for name, stdin, arguments in (*topics_and_groups(servers, at), *administration(at)):
        run(name, *arguments, stdin=stdin)


def topics_and_groups(servers: str, at: tuple[str, ...]) -> list[Call]:
    topic = ("--topic", "java")
    return [
        ("TopicCommand", "", (*at, "--create", *topic, "--partitions", "2")),
        ("ConsoleProducer", "a\nb\nc\n", (*at, *topic)),
        ("ProducerPerformance", "", (
            *topic, "--num-records", "20", "--record-size", "20", "--throughput", "-1", "--transactional-id",
            "perf", "--producer-props", f"bootstrap.servers={servers}", "compression.type=zstd",
        )),
        *(
            ("consumer.ConsoleConsumer", "", (
                *at, *topic, "--from-beginning", "--timeout-ms", "6000", "--group", f"java-{protocol_}",
                "--consumer-property", f"group.protocol={protocol_}",
            ))
            for protocol_ in ("classic", "consumer")
        ),
        ("consumer.ConsoleShareConsumer", "", (*at, *topic, "--timeout-ms", "7000", "--group", "java-share")),
        ("TopicCommand", "", (*at, "--describe", *topic)),
        ("TopicCommand", "", (*at, "--alter", *topic, "--partitions", "3")),
        ("TopicCommand", "", (*at, "--list")),
        ("GetOffsetShell", "", (*at, *topic, "--time", "-3")),
        ("GroupsCommand", "", (*at, "--list")),
        ("consumer.group.ConsumerGroupCommand", "", (*at, "--describe", "--all-groups")),
        ("consumer.group.ConsumerGroupCommand", "", (
            *at, *topic, "--group", "java-classic", "--reset-offsets", "--to-earliest", "--execute",
        )),
        ("consumer.group.ConsumerGroupCommand", "", (*at, "--delete", "--group", "java-classic")),
    ]  # fmt: skip


def administration(at: tuple[str, ...]) -> list[Call]:
    topic = ("--topic", "java")
    return [
        ("consumer.group.ShareGroupCommand", "", (*at, "--describe", "--group", "java-share")),
        ("consumer.group.ShareGroupCommand", "", (
            *at, *topic, "--group", "java-share", "--reset-offsets", "--to-earliest", "--execute",
        )),
        ("streams.StreamsGroupCommand", "", (*at, "--list")),
        ("LogDirsCommand", "", (*at, "--describe")),
        ("TransactionsCommand", "", (*at, "list")),
        ("TransactionsCommand", "", (*at, "describe", "--transactional-id", "perf")),
        ("TransactionsCommand", "", (*at, "describe-producers", *topic, "--partition", "0")),
        ("MetadataQuorumCommand", "", (*at, "describe", "--status")),
        ("FeatureCommand", "", (*at, "describe")),
        ("ClusterTool", "", ("cluster-id", *at)),
        ("ClusterTool", "", ("list-endpoints", *at)),
        ("ClusterTool", "", ("unregister", *at, "--id", "77")),
        ("consumer.group.ConsumerGroupCommand", "", (
            *at, *topic, "--group", "java-consumer", "--delete-offsets",
        )),
        ("consumer.group.ShareGroupCommand", "", (
            *at, *topic, "--group", "java-share", "--delete-offsets",
        )),
        ("consumer.group.ShareGroupCommand", "", (*at, "--delete", "--group", "java-share")),
        ("TransactionsCommand", "", (
            *at, "abort", *topic, "--partition", "0", "--producer-id", "3", "--producer-epoch", "0",
            "--coordinator-epoch", "0",
        )),
        ("FeatureCommand", "", (*at, "downgrade", "--feature", "share.version=0", "--dry-run")),
        ("MetadataQuorumCommand", "", (*at, "remove-controller", "--controller-id", "9",
            "--controller-directory-id", "bWVhc3VyZW9mYWxsdGhpbg",
        )),
        ("LeaderElectionCommand", "", (*at, "--election-type", "preferred", "--all-topic-partitions")),
        ("BrokerApiVersionsCommand", "", at),
        ("AclCommand", "", (*at, "--add", "--allow-principal", "User:a", "--operation", "Read", *topic)),
        ("AclCommand", "", (*at, "--list")),
        ("AclCommand", "", (
            *at, "--remove", "--force", "--allow-principal", "User:a", "--operation", "Read", *topic,
        )),
        ("ClientMetricsCommand", "", (
            *at, "--alter", "--name", "m", "--metrics", "x.", "--interval", "1000",
        )),
        ("ClientMetricsCommand", "", (*at, "--list")),
        ("reassign.ReassignPartitionsCommand", "", (*at, "--list")),
        ("kafka.admin.ConfigCommand", "", (*at, "--describe", *topic, "--all")),
        ("kafka.admin.ConfigCommand", "", (*at, "--alter", *topic, "--add-config", "retention.ms=99999")),
        ("kafka.admin.ConfigCommand", "", (
            *at, "--alter", "--entity-type", "users", "--entity-name", "u", "--add-config",
            "SCRAM-SHA-256=[iterations=4096,password=p]",
        )),
        ("kafka.admin.ConfigCommand", "", (
            *at, "--alter", "--entity-type", "clients", "--entity-name", "c", "--add-config",
            "request_percentage=9",
        )),
        ("kafka.admin.ConfigCommand", "", (*at, "--describe", "--entity-type", "users")),
        ("TopicCommand", "", (*at, "--delete", *topic)),
    ]  # fmt: skip


def run(name: str, *arguments: str, stdin: str = "") -> None:
    """One of Kafka's tools. One that fails is reported, but what it sent is in the corpus all the same."""
    class_name = name if name.startswith("kafka.") else TOOLS + name
    command = java_command(class_name, *arguments)
    done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=90, check=False)
    if done.returncode:
        print(f"{name} {arguments}: {done.returncode} {done.stderr.strip()[-200:]}", file=sys.stderr)


def use_sasl(servers: str, properties: Path) -> None:
    """PLAIN and SCRAM handshakes, and delegation tokens, which only an authenticated client gets."""
    from confluent_kafka import Producer
    from kafka import KafkaProducer

    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    }
    producer = KafkaProducer(bootstrap_servers=servers, sasl_mechanism="PLAIN", **login)
    producer.close()
    for mechanism, user in (("PLAIN", "me"), ("SCRAM-SHA-256", "u")):
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": user, "sasl.mechanism": mechanism}
        client = Producer(
            {"bootstrap.servers": servers, "sasl.password": "p" if user == "u" else "secret", **settings}
        )
        attempt(lambda: client.list_topics(timeout=5))  # noqa: B023
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_LOGIN} username="me" password="secret";\n'
    )
    at = ("--bootstrap-server", servers, "--command-config", str(properties))
    for words in (("--create", "--max-life-time-period", "-1"), ("--describe",)):
        run("DelegationTokenCommand", *at, *words)
    for words in (("--renew", "--renew-time-period", "-1"), ("--expire", "--expiry-time-period", "-1")):
        run("DelegationTokenCommand", *at, *words, "--hmac", "AAAA")
