"""Genuine clients over TLS: librdkafka, kafka-python, aiokafka and Java's, with and without certificates of
their own, and what each of them is refused for."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.certificates import Authority, authority
from tests.support.clients.librdkafka import take, until
from tests.support.genuine.tool_server import ToolServer

pytestmark = barnabas_only

Fresh = Callable[[], str]
LISTENERS: Final = "SSL://127.0.0.1:0,STRICT://127.0.0.1:0,EXPIRED://127.0.0.1:0,ELSEWHERE://127.0.0.1:0"
MEGABYTE: Final = 1 << 20


class Secured(NamedTuple):
    """A broker with listeners over TLS: one that asks for no certificate, one that does (STRICT), one with an
    expired certificate, one with a certificate for another host. addresses: by listener."""

    broker: BarnabasProcess
    folder: Path
    addresses: Mapping[str, str]

    @property
    def trust(self) -> str:
        return str(self.folder / "ca.pem")

    def identity(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    ca, stranger = authority(), Authority("a stranger")
    ca.write_certificate(folder / "ca.pem")
    stranger.write_certificate(folder / "stranger-ca.pem")
    server = ca.issue("broker")
    server.write_pem(folder / "server.pem", "d-o-o-r")
    ca.issue("broker", is_expired=True).write_pem(folder / "expired.pem")
    ca.issue("broker", hosts=["elsewhere.example"]).write_pem(folder / "elsewhere.pem")
    ca.issue("alice").write_pem(folder / "alice.pem")
    stranger.issue("mallory").write_pem(folder / "mallory.pem")
    settings = {
        "listeners": f"{LISTENERS},CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,STRICT:SSL,EXPIRED:SSL,ELSEWHERE:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.key.password": "d-o-o-r",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.strict.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": str(folder / "expired.pem"),
        "listener.name.elsewhere.ssl.keystore.location": str(folder / "elsewhere.pem"),
        "message.max.bytes": str(20 * MEGABYTE),
    }
    with BarnabasProcess(folder / "data", settings).start() as broker:
        serves = broker.ready_line.partition("serves ")[2].partition(";")[0]
        addresses = dict(each.split("://") for each in serves.split(", "))
        yield Secured(broker, folder, addresses)
        assert "d-o-o-r" not in broker.log_file.read_text()


def librdkafka(secured: Secured, listener: str = "SSL", identity: str = "", **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": "ssl",
        "ssl.ca.location": secured.trust,
        "log_level": 0,
    }
    if identity:
        path = secured.identity(identity)
        given |= {"ssl.certificate.location": path, "ssl.key.location": path}
    return given | {name.replace("_", "."): value for name, value in more.items()}


def make_topic(secured: Secured, name: str) -> str:
    admin = AdminClient(librdkafka(secured))
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


@pytest.mark.parametrize(("listener", "identity"), [("SSL", ""), ("STRICT", "alice")])
def test_librdkafka(secured: Secured, fresh: Fresh, listener: str, identity: str) -> None:
    topic = make_topic(secured, fresh())
    producer = Producer(librdkafka(secured, listener, identity, enable_idempotence=True))
    for number in range(500):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    reader = librdkafka(secured, listener, identity, group_id=fresh(), auto_offset_reset="earliest")
    consumer = Consumer(reader)
    consumer.subscribe([topic])
    assert [message.value() for message in take(consumer, 500)] == [b"%d" % number for number in range(500)]
    consumer.close()


def test_sixteen_megabytes_at_once_are_byte_equal(secured: Secured, fresh: Fresh) -> None:
    topic = make_topic(secured, fresh())
    values = [os.urandom(16 * MEGABYTE - 4_000), b"small", os.urandom(16 * MEGABYTE - 4_000)]
    limits = {"message.max.bytes": 17 * MEGABYTE, "receive.message.max.bytes": 100 * MEGABYTE}
    producer = Producer(librdkafka(secured) | limits)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    for listener, identity in (("SSL", ""), ("STRICT", "alice")):
        more = {"fetch.message.max.bytes": 17 * MEGABYTE, "fetch.max.bytes": 60 * MEGABYTE} | limits
        reader = librdkafka(secured, listener, identity, group_id=fresh(), auto_offset_reset="earliest")
        consumer = Consumer(reader | more)
        consumer.subscribe([topic])
        assert [message.value() for message in take(consumer, 3)] == values
        consumer.close()


@pytest.mark.parametrize(
    ("listener", "identity", "more"),
    [
        ("SSL", "", {"ssl_ca_location": "stranger-ca.pem"}),
        ("EXPIRED", "", {}),
        ("ELSEWHERE", "", {}),
        ("STRICT", "", {}),
        ("STRICT", "mallory", {}),
    ],
    ids=["wrong authority", "expired", "wrong host name", "no certificate", "a stranger's certificate"],
)
def test_who_is_refused(secured: Secured, listener: str, identity: str, more: dict[str, str]) -> None:
    given = {name: str(secured.folder / value) for name, value in more.items()}
    told: list[str] = []
    admin = AdminClient(
        librdkafka(secured, listener, identity, **given)
        | {"error_cb": lambda error: told.append(error.str())}
    )
    until(lambda: admin.poll(0.05) or told, "the client is told of it")
    assert "SSL" in told[0] or "ssl" in told[0], told


@pytest.mark.parametrize(("listener", "identity"), [("SSL", ""), ("STRICT", "alice")])
def test_kafka_python(secured: Secured, fresh: Fresh, listener: str, identity: str) -> None:
    topic = make_topic(secured, fresh())
    given: dict[str, Any] = {
        "bootstrap_servers": secured.addresses[listener],
        "security_protocol": "SSL",
        "ssl_cafile": secured.trust,
    }
    if identity:
        given |= {"ssl_certfile": secured.identity(identity), "ssl_keyfile": secured.identity(identity)}
    producer = KafkaProducer(**given)
    sent = [producer.send(topic, b"%d" % number) for number in range(50)]
    assert [each.get(60).offset for each in sent] == list(range(50))
    producer.close()
    consumer = KafkaConsumer(topic, **given, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    assert [next(consumer).value for _ in range(50)] == [b"%d" % number for number in range(50)]
    consumer.close()


@pytest.mark.parametrize(
    ("version", "is_spoken"), [("TLSv1", 0), ("TLSv1_1", 0), ("TLSv1_2", 1), ("TLSv1_3", 1)]
)
def test_versions_of_tls(secured: Secured, version: str, is_spoken: int) -> None:
    """The client would speak older versions, at OpenSSL's lowest security level."""
    context = ssl.create_default_context(cafile=secured.trust)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
    host, _, port = secured.addresses["SSL"].partition(":")
    with socket.create_connection((host, int(port)), 60) as plain:
        if is_spoken:
            with context.wrap_socket(plain, server_hostname=host) as talk:
                assert talk.version() == version.replace("_", ".")
        else:
            with pytest.raises(ssl.SSLError, match=r"PROTOCOL_VERSION|UNSUPPORTED"):
                context.wrap_socket(plain, server_hostname=host)


def test_kafka_python_with_the_wrong_authority(secured: Secured) -> None:
    with pytest.raises(KafkaError):
        KafkaProducer(
            bootstrap_servers=secured.addresses["SSL"],
            security_protocol="SSL",
            ssl_cafile=str(secured.folder / "stranger-ca.pem"),
            bootstrap_timeout_ms=500,
        )


def test_aiokafka(secured: Secured, fresh: Fresh) -> None:
    topic = make_topic(secured, fresh())

    async def story() -> None:
        context = ssl.create_default_context(cafile=secured.trust)
        context.load_cert_chain(secured.identity("alice"))
        at: dict[str, Any] = {
            "bootstrap_servers": secured.addresses["STRICT"],
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**at) as producer:
            for number in range(20):
                await producer.send_and_wait(topic, b"%d" % number)
        async with AIOKafkaConsumer(topic, **at, auto_offset_reset="earliest") as consumer:
            assert [(await consumer.getone()).value for _ in range(20)] == [b"%d" % n for n in range(20)]

    asyncio.run(asyncio.wait_for(story(), 90))


@pytest.mark.java
@pytest.mark.parametrize(("listener", "identity"), [("SSL", ""), ("STRICT", "alice")])
def test_javas_tools_with_pem_stores(
    secured: Secured, fresh: Fresh, tmp_path: Path, tool_server: ToolServer, listener: str, identity: str
) -> None:
    topic = fresh()
    config = tmp_path / "client.properties"
    text = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={secured.trust}\n"
    if identity:
        text += f"ssl.keystore.type=PEM\nssl.keystore.location={secured.identity(identity)}\n"
    config.write_text(text)
    where = ("--bootstrap-server", secured.addresses[listener])
    made = tool_server.run(
        "kafka-topics", *where, "--command-config", str(config), "--create", "--topic", topic
    )
    assert made.code == 0, made
    wrote = tool_server.run(
        "kafka-console-producer",
        *where,
        "--command-config",
        str(config),
        "--topic",
        topic,
        stdin="one\ntwo\n",
    )
    assert wrote.code == 0, wrote
    read = tool_server.run(
        "kafka-console-consumer",
        *where,
        "--command-config",
        str(config),
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "2",
    )
    assert read.out.splitlines() == ["one", "two"], read


def s_client(secured: Secured, listener: str, *options: str, typed: str = "") -> str:
    """What `openssl s_client` prints. typed: its commands, a line each."""
    command = ["openssl", "s_client", "-connect", secured.addresses[listener], "-CAfile", secured.trust]
    done = subprocess.run(
        [*command, *options], input=typed, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_who_is_asked_for_a_certificate(secured: Secured) -> None:
    assert "Client Certificate Types: " in s_client(secured, "STRICT", "-tls1_2")
    assert "Client Certificate Types: " not in s_client(secured, "SSL", "-tls1_2")


def test_nobody_renegotiates(secured: Secured) -> None:
    told = s_client(secured, "SSL", "-tls1_2", typed="R\n")
    assert "RENEGOTIATING" in told
    assert "no renegotiation" in told
