"""Genuine clients that log in by PLAIN and SCRAM: right and wrong passwords, strangers, ends of sessions."""

from __future__ import annotations

import asyncio
import io
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from broker.cli.cluster_check import NOT_ASKED, check_cluster
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.ports import free_ports
from tests.support.brokers.with_passwords import (
    PASSWORDS,
    PLAIN_MODULE,
    SCRAM_MODULE,
    SESSION_MS,
    PasswordBroker,
    password_broker,
    set_passwords,
)
from tests.support.clients.librdkafka import create_topic, fill, settings, take, until
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.wire_client import ConnectionEnded
from tests.support.genuine.tool_server import ToolServer

Fresh = Callable[[], str]
MECHANISMS = list(PASSWORDS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PasswordBroker]:
    made = password_broker(tmp_path_factory.mktemp("broker") / "data")
    with made.broker:
        set_passwords(made.open)
        yield made


def login(mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
    """librdkafka's settings."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "sasl_password": PASSWORDS[mechanism] if password is None else password,
    }


def java_login(mechanism: str, file: Path, user: str = "alice", password: str | None = None) -> Path:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    secret = PASSWORDS[mechanism] if password is None else password
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{secret}";\n',
        encoding="latin-1",
    )
    return file


def errors_of(address: str, **named: Any) -> list[str]:
    """What librdkafka tells of a client that does not get in."""
    told: list[str] = []
    admin = AdminClient(
        settings(address, **named) | {"log_level": 0, "error_cb": lambda error: told.append(error.str())}
    )
    until(lambda: admin.poll(0.05) is not None and told != [], "an error is told")
    return told


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(guarded: PasswordBroker, fresh: Fresh, mechanism: str) -> None:
    topic = create_topic(guarded.open, fresh())
    fill(guarded.secured, topic, ["a", "b"], **login(mechanism))
    reader = Consumer(
        settings(guarded.secured, group_id=topic, auto_offset_reset="earliest", **login(mechanism))
    )
    reader.subscribe([topic])
    assert [message.value() for message in take(reader, 2)] == [b"a", b"b"]
    reader.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_is_told_of_a_wrong_password_as_of_an_unknown_user(
    guarded: PasswordBroker, mechanism: str
) -> None:
    sentence = (
        "Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{mechanism}"
    )
    for user in ("alice", "nobody"):
        told = errors_of(guarded.secured, **login(mechanism, user, "wrong"))
        assert any(sentence in each for each in told), told


def test_librdkafka_is_told_which_mechanisms_there_are(guarded: PasswordBroker) -> None:
    told = errors_of(guarded.short, **login("SCRAM-SHA-256"))
    assert any("SCRAM-SHA-256" in each and "PLAIN" in each for each in told), told


def test_a_client_without_a_login_is_cut_off_and_the_next_one_is_served(guarded: PasswordBroker) -> None:
    assert errors_of(guarded.secured) != []
    assert errors_of(guarded.open, **login("PLAIN")) != []
    admin = AdminClient(settings(guarded.secured, **login("PLAIN")))
    assert admin.list_topics(timeout=30).brokers[1].port == int(guarded.secured.rpartition(":")[2])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(guarded: PasswordBroker, fresh: Fresh, mechanism: str) -> None:
    topic = create_topic(guarded.open, fresh())
    who: dict[str, Any] = {
        "bootstrap_servers": guarded.secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORDS[mechanism],
    }
    producer = KafkaProducer(**who)
    producer.send(topic, b"a").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **who)
    assert next(iter(consumer)).value == b"a"
    consumer.close()
    with pytest.raises(PythonKafkaError):
        KafkaAdminClient(**who | {"sasl_plain_password": "wrong"}, bootstrap_timeout_ms=500)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(guarded: PasswordBroker, fresh: Fresh, mechanism: str) -> None:
    topic = create_topic(guarded.open, fresh())
    who: dict[str, Any] = {
        "bootstrap_servers": guarded.secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORDS[mechanism],
    }

    async def talk() -> None:
        async with AIOKafkaProducer(**who) as producer:
            await producer.send_and_wait(topic, b"a")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **who) as consumer:
            assert (await consumer.getone()).value == b"a"
        stranger = AIOKafkaProducer(**who | {"sasl_plain_username": "nobody"})
        with pytest.raises(AioKafkaError):
            await stranger.start()
        await stranger.stop()

    asyncio.run(talk())


@pytest.mark.java
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_s_tools(
    guarded: PasswordBroker, tool_server: ToolServer, tmp_path: Path, fresh: Fresh, mechanism: str
) -> None:
    at = ("--bootstrap-server", guarded.secured)
    known = str(java_login(mechanism, tmp_path / "known.properties"))
    stranger = str(java_login(mechanism, tmp_path / "stranger.properties", "nobody", "x"))
    topic = fresh()
    assert (
        tool_server.run("kafka-topics", *at, "--command-config", known, "--create", "--topic", topic).code
        == 0
    )
    refused = tool_server.run("kafka-topics", *at, "--command-config", stranger, "--list")
    assert refused.code == 1
    assert "Authentication failed" in refused.out


@pytest.mark.java
def test_kafka_configs_sets_a_password_and_takes_it_back(
    guarded: PasswordBroker, tool_server: ToolServer, fresh: Fresh
) -> None:
    user = fresh()
    at = ("--bootstrap-server", guarded.open, "--alter", "--entity-type", "users", "--entity-name", user)
    added = tool_server.run(
        "kafka-configs", *at, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=new-secret]"
    )
    assert added.out.strip() == f"Completed updating config for user {user}."
    topic = create_topic(guarded.open, fresh())
    who = login("SCRAM-SHA-256", user, "new-secret")
    fill(guarded.secured, topic, ["a"], **who)
    few = tool_server.run(
        "kafka-configs", *at, "--add-config", "SCRAM-SHA-256=[iterations=4095,password=new-secret]"
    )
    assert "4096" in few.out + few.err or "Too few iterations" in few.out + few.err
    gone = tool_server.run("kafka-configs", *at, "--delete-config", "SCRAM-SHA-256")
    assert gone.out.strip() == f"Completed updating config for user {user}."
    assert errors_of(guarded.secured, **who) != []


def test_a_listener_with_a_password_is_opened_while_the_broker_runs(guarded: PasswordBroker) -> None:
    (port,) = free_ports(1)
    properties = guarded.properties
    admin = AdminClient(settings(guarded.open))
    listeners = f"{properties['listeners']},ADDED://127.0.0.1:{port}"
    added = {
        "listeners": listeners,
        "listener.security.protocol.map": (
            f"{properties['listener.security.protocol.map']},ADDED:SASL_PLAINTEXT"
        ),
        "listener.name.added.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.added.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_eve="eves";',
    }
    change_config(guarded.open, added)
    at = f"127.0.0.1:{port}"
    until(lambda: is_open(port), "the listener is open")
    told = errors_of(at, **login("PLAIN", "eve", "wrong"))
    assert any("Invalid username or password" in each for each in told)
    assert lets_in(at, "eve", "eves")
    shown = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")])
    for described in shown.values():
        assert "eves" not in str({name: each.value for name, each in described.result(30).items()})


def lets_in(address: str, user: str, password: str) -> bool:
    with RawConnection(address) as client:
        client.ask_for(SaslHandshakeResponse, SaslHandshakeRequest("PLAIN"), 1)
        token = SaslAuthenticateRequest(f"\0{user}\0{password}".encode())
        return client.ask_for(SaslAuthenticateResponse, token, 2).error_code == 0


def change_config(address: str, settings_: dict[str, str]) -> None:
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings_.items()
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=changes)
    admin = AdminClient(settings(address))
    admin.incremental_alter_configs([resource])[resource].result(30)


def is_open(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@barnabas_only
def test_authentications_are_counted_by_kafka_s_names(guarded: PasswordBroker) -> None:
    before = counted(guarded)
    assert lets_in(guarded.secured, "alice", PASSWORDS["PLAIN"])
    assert not lets_in(guarded.secured, "alice", "wrong")
    assert not lets_in(guarded.secured, "nobody", "wrong")
    after = counted(guarded)
    assert [after[name] - before[name] for name in ("successful", "failed")] == [1, 2]


def counted(guarded: PasswordBroker) -> dict[str, int]:
    """Of the listener SECURED."""
    address = re.search(r"Metrics and health at (http://\S+)/", guarded.broker.log_file.read_text())
    assert address is not None
    with urlopen(f"{address[1]}/metrics", timeout=30) as page:
        text = page.read().decode()
    found = re.findall(
        r'^kafka_server_socket_server_metrics_(\w+)_authentication_total\{listener="SECURED",.*\} (\d+)',
        text,
        re.MULTILINE,
    )
    return {name: int(value) for name, value in found}


def test_a_command_of_ours_that_cannot_log_in_says_so(guarded: PasswordBroker) -> None:
    told = io.StringIO()
    assert check_cluster(guarded.secured, None, told) == NOT_ASKED
    assert "name the address of a listener without SASL" in told.getvalue()
    assert check_cluster(guarded.open, None, told) == 0


# Sessions that end (KIP-368)


@pytest.mark.java
def test_java_authenticates_again_while_it_writes(
    guarded: PasswordBroker, tool_server: ToolServer, tmp_path: Path, fresh: Fresh
) -> None:
    """Two sessions long: without another authentication the broker would close the connection, and the
    client makes no other one in time."""
    topic = create_topic(guarded.open, fresh())
    known = java_login("PLAIN", tmp_path / "known.properties")
    with open(known, "a") as file:
        file.write("retries=0\nenable.idempotence=false\nreconnect.backoff.ms=60000\n")
    told = tool_server.run(
        "kafka-producer-perf-test",
        *("--bootstrap-server", guarded.short, "--topic", topic, "--command-config", str(known)),
        *("--num-records", "300", "--record-size", "10", "--throughput", "100"),
    )
    assert told.code == 0, told
    assert told.lines[-1].startswith("300 records sent, ")
    reader = Consumer(settings(guarded.open, group_id=topic))
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), 30) == (0, 300)
    reader.close()


def test_a_client_that_waits_for_no_answer_has_one_attempt(guarded: PasswordBroker) -> None:
    def attempt(password: str) -> bytes:
        token = SaslAuthenticateRequest(f"\0alice\0{password}".encode())
        return encode_request_frame(SaslHandshakeRequest("PLAIN"), 1, 1, "me") + encode_request_frame(
            token, 2, 2, "me"
        )

    with RawConnection(guarded.secured) as client:
        client.send_bytes(
            attempt("wrong")
            + attempt(PASSWORDS["PLAIN"])
            + encode_request_frame(MetadataRequest([]), 12, 3, "me")
        )
        frames = io.BytesIO(client.remaining())
        answers = [frames.read(int.from_bytes(size, "big")) for size in iter(lambda: frames.read(4), b"")]
    assert len(answers) == 2, answers
    refused = decode_response(SaslAuthenticateResponse, 2, memoryview(answers[1]))[1]
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def ask_for_ever(client: RawConnection) -> None:
    while True:
        client.ask(MetadataRequest([]), 12)


def test_a_client_that_does_not_authenticate_again_is_cut_off(guarded: PasswordBroker) -> None:
    """One request while the session lasts is answered; the first one behind its end closes the connection."""
    with RawConnection(guarded.short) as client:
        chosen = client.ask_for(SaslHandshakeResponse, SaslHandshakeRequest("PLAIN"), 1)
        assert (chosen.error_code, chosen.mechanisms) == (0, ["PLAIN"])
        token = SaslAuthenticateRequest(f"\0alice\0{PASSWORDS['PLAIN']}".encode())
        done = client.ask_for(SaslAuthenticateResponse, token, 2)
        assert (done.error_code, done.session_lifetime_ms) == (0, SESSION_MS)
        client.ask(MetadataRequest([]), 12)
        with pytest.raises(ConnectionEnded):
            ask_for_ever(client)
