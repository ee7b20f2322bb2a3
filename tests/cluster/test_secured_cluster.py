"""A cluster as it stands on an open network: TLS and SASL on all listeners, access control and quotas, while
it loses a leader.

The nodes log in to each other by PLAIN, as a super user. Clients log in by SCRAM on the same listener:
`alice`, who may write and read one topic, at a limited rate, and `mallory`, who may nothing. Their passwords,
what they may and their quotas are set with Apache Kafka's own tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.support.brokers.certificates import authority
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.brokers.with_passwords import PLAIN_MODULE
from tests.support.clients.librdkafka import settings, take, until
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

NODE_PASSWORD: Final = "between nodes"
PASSWORDS: Final = {"alice": "wonder, land=", "mallory": "malicious"}
RATE: Final = 80_000
"""Bytes a second that alice may write to a broker, which allows ten times as much at once."""
LETTER: Final = b"v" * 1_000
LETTERS: Final = 2_400


class Secured:
    """Three such nodes, and how clients reach them."""

    def __init__(self, folder: Path, tools: ToolServer) -> None:
        stores = folder / "stores"
        stores.mkdir()
        self.trusted = authority().write_certificate(stores / "ca.pem")
        login = f'{PLAIN_MODULE} required username="node" password="{NODE_PASSWORD}"'
        login += f' user_node="{NODE_PASSWORD}";'
        self.cluster = Cluster(
            folder,
            [OURS] * 3,
            properties={
                **FAST,
                "broker.session.timeout.ms": "2000",
                "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": authority().issue("node").write_pem(stores / "node.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.trusted,
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.plaintext.plain.sasl.jaas.config": login,
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": login,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:node",
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "offsets.topic.replication.factor": "3",
            },
        )
        self._tools = tools
        self._admin_file = folder / "admin.properties"
        self._admin_file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.trusted}\n"
        )

    def tool(self, name: str, *words: str) -> str:
        """A tool of Kafka's, run by the nodes' own user."""
        where = ("--bootstrap-server", self.cluster.bootstrap, "--command-config", str(self._admin_file))
        done = self._tools.run(name, *where, *words)
        assert done.code == 0, (words, done.out, done.err)
        return done.out

    def settings_of(self, user: str, **more: Any) -> dict[str, Any]:
        return settings(
            self.cluster.bootstrap,
            security_protocol="sasl_ssl",
            ssl_ca_location=self.trusted,
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username=user,
            sasl_password=PASSWORDS[user],
            **more,
        )


@pytest.fixture
def secured(tmp_path: Path, tool_server: ToolServer) -> Iterator[Secured]:
    made = Secured(tmp_path, tool_server)
    with made.cluster as cluster:
        cluster.format().start()
        for user, password in PASSWORDS.items():
            change = f"SCRAM-SHA-512=[iterations=4096,password={password}]"
            made.tool("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", user,
                      "--add-config", change)  # fmt: skip
        made.tool("kafka-topics", "--create", "--topic", "letters", "--partitions", "3")
        for convenience in (("--producer",), ("--consumer", "--group", "readers")):
            made.tool("kafka-acls", "--add", "--allow-principal", "User:alice", "--topic", "letters",
                      *convenience)  # fmt: skip
        made.tool("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice",
                  "--add-config", f"producer_byte_rate={RATE}")  # fmt: skip
        yield made


def errors_of(producer: Producer, topic: str) -> set[int]:
    """What is said to one letter that is sent there."""
    told: set[int] = set()
    producer.produce(topic, LETTER, on_delivery=lambda error, _: told.add(error.code() if error else 0))
    producer.flush(60)
    return told


def test_who_may_works_at_the_rate_that_is_given_and_nothing_is_lost(secured: Secured) -> None:
    throttled: list[float] = []
    producer = Producer(
        secured.settings_of("alice", enable_idempotence=True, batch_size=100_000)
        | {"throttle_cb": lambda event: throttled.append(event.throttle_time)}
    )
    refused: list[KafkaError] = []
    for number in range(LETTERS):
        if number == LETTERS // 2:
            secured.cluster.nodes[1].kill()
        producer.produce(
            "letters",
            LETTER,
            key=str(number),
            partition=number % 3,
            on_delivery=lambda error, _: refused.append(error) if error is not None else None,
        )
        producer.poll(0)
    assert producer.flush(120) == 0
    assert refused == []
    assert any(throttled), "alice is over her quota, and is told so"
    consumer = Consumer(secured.settings_of("alice", group_id="readers", auto_offset_reset="earliest"))
    consumer.subscribe(["letters"])
    found = sorted(int(message.key() or b"") for message in take(consumer, LETTERS))
    consumer.close()
    assert found == list(range(LETTERS))


def test_who_may_not_learns_nothing(secured: Secured) -> None:
    mallory = secured.settings_of("mallory", topic_metadata_refresh_interval_ms=500)
    assert AdminClient(mallory).list_topics(timeout=60).topics == {}
    assert errors_of(Producer(mallory), "letters") == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert errors_of(Producer(secured.settings_of("alice")), "other") == {
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    }
    secured.tool(
        "kafka-acls", "--add", "--allow-principal", "User:mallory", "--topic", "letters", "--producer"
    )
    producer = Producer(mallory)
    until(lambda: errors_of(producer, "letters") == {0}, "mallory may write since the entry is there")
    for node in secured.cluster.nodes.values():
        told = node.log_tail(10_000_000)
        assert not [secret for secret in (*PASSWORDS.values(), NODE_PASSWORD) if secret in told]
