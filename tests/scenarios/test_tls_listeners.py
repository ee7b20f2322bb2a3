"""Listeners over TLS as an operator meets them: stores that cannot be used, and stores that change."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from cryptography import x509

from broker.cli.cluster_check import IN_THE_WAY, NOT_ASKED, check_cluster
from protocol.messages.api_versions import ApiVersionsRequest
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.certificates import authority
from tests.support.brokers.ports import free_ports
from tests.support.clients.librdkafka import settings, until
from tests.support.clients.wire_client import WireClient

pytestmark = barnabas_only

NewBroker = Callable[..., BarnabasProcess]
LOCATION = "listener.name.ssl.ssl.keystore.location"


def over_tls(new_broker: NewBroker, folder: Path, key_store: str) -> BarnabasProcess:
    return new_broker(
        listeners="SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        listener__security__protocol__map="SSL:SSL,CONTROLLER:PLAINTEXT",
        inter__broker__listener__name="SSL",
        ssl__keystore__type="PEM",
        ssl__keystore__location=key_store,
        ssl__truststore__type="PEM",
        ssl__truststore__location=authority().write_certificate(folder / "ca.pem"),
    )


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("nowhere.pem", "ssl.keystore.location={} cannot be read: No such file or directory"),
        ("locked.pem", "ssl.keystore.location={}: the private key is encrypted: set ssl.key.password"),
    ],
)
def test_a_store_that_cannot_be_used_stops_the_start(
    new_broker: NewBroker, tmp_path: Path, file: str, sentence: str
) -> None:
    authority().issue("broker").write_pem(tmp_path / "locked.pem", "geheim")
    with pytest.raises(RuntimeError) as refused:
        over_tls(new_broker, tmp_path, str(tmp_path / file))
    *_, last = str(refused.value).rstrip("\n").splitlines()
    assert last == f"barnabas: {sentence.format(tmp_path / file)}"


def test_a_cluster_is_asked_over_tls(new_broker: NewBroker, tmp_path: Path) -> None:
    """By the file of a node that would speak TLS to it; without a file nobody answers."""
    broker = over_tls(new_broker, tmp_path, authority().issue("broker").write_pem(tmp_path / "first.pem"))
    file = tmp_path / "node-2.properties"
    file.write_text(
        "process.roles=broker\nnode.id=2\nlisteners=SSL://127.0.0.1:5\ninter.broker.listener.name=SSL\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\nssl.keystore.type=PEM\n"
        f"ssl.keystore.location={tmp_path / 'first.pem'}\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={tmp_path / 'ca.pem'}\nlog.dirs={tmp_path / 'node-2'}\n"
    )
    out = io.StringIO()
    assert check_cluster(broker.bootstrap_servers, str(file), out) == IN_THE_WAY
    (_, line) = out.getvalue().splitlines()
    assert f"{tmp_path / 'node-2'} is not formatted" in line
    assert check_cluster(broker.bootstrap_servers, None, out) == NOT_ASKED
    file.write_text(file.read_text().replace("ca.pem", "nowhere.pem"))
    out = io.StringIO()
    assert check_cluster(broker.bootstrap_servers, str(file), out) == NOT_ASKED
    assert "nowhere.pem cannot be read: No such file or directory" in out.getvalue()


def serial_number(client: WireClient) -> int:
    assert isinstance(client.socket, ssl.SSLSocket)
    return x509.load_der_x509_certificate(client.socket.getpeercert(binary_form=True) or b"").serial_number


def test_a_key_store_is_exchanged_while_clients_work(new_broker: NewBroker, tmp_path: Path) -> None:
    first, second, third = (authority().issue("broker") for _ in range(3))
    stranger, narrow = authority().issue("somebody"), authority().issue("broker", hosts=["127.0.0.1"])
    broker = over_tls(new_broker, tmp_path, first.write_pem(tmp_path / "first.pem"))
    address = broker.bootstrap_servers
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    admin = AdminClient(settings(address, security_protocol="ssl", ssl_ca_location=str(tmp_path / "ca.pem")))

    def put(path: str) -> None:
        entry = ConfigEntry(LOCATION, path, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)

    def served() -> int:
        with WireClient(address, tls=trust) as client:
            return serial_number(client)

    with WireClient(address, tls=trust) as open_one:
        assert serial_number(open_one) == first.certificate.serial_number
        path = second.write_pem(tmp_path / "second.pem")
        put(path)
        until(lambda: served() == second.certificate.serial_number, "the second key is used")
        third.write_pem(tmp_path / "second.pem")
        put(path)  # the same path: the file is read again
        until(lambda: served() == third.certificate.serial_number, "the third key is used")
        for bad, sentence in (
            (str(tmp_path / "nowhere.pem"), "nowhere.pem cannot be read: No such file or directory"),
            (stranger.write_pem(tmp_path / "s.pem"), "existing=CN=broker, new=CN=somebody"),
            (narrow.write_pem(tmp_path / "n.pem"), "SubjectAlternativeNames do not match: localhost"),
        ):
            with pytest.raises(KafkaException, match=sentence) as refused:
                put(bad)
            assert "INVALID_REQUEST" in repr(refused.value) or "Invalid" in str(refused.value)
        assert served() == third.certificate.serial_number
        open_one.ask(ApiVersionsRequest("open", "1"), 3)
    assert "has read its key store and its trust store again" in broker.log_tail(20_000)
    broker.stop()
    broker.start_anywhere()
    address = broker.bootstrap_servers
    assert served() == third.certificate.serial_number, "and after a restart"


def test_a_listener_over_tls_is_added_while_the_broker_runs(new_broker: NewBroker, tmp_path: Path) -> None:
    """Its key is in the configs themselves, and DescribeConfigs does not show it."""
    plain, added = free_ports(2)
    broker = new_broker(
        listeners=f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:0",
        listener__security__protocol__map="PLAINTEXT:PLAINTEXT,ADDED:SSL,CONTROLLER:PLAINTEXT",
    )
    identity = authority().issue("broker")
    admin = AdminClient(settings(broker.bootstrap_servers))
    (tmp_path / "ca.pem").write_text(authority().certificate_pem)
    prefix = "listener.name.added.ssl.keystore"
    given = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:0,ADDED://127.0.0.1:{added}",
        f"{prefix}.type": "PEM",
        f"{prefix}.key": identity.key_pem(),
        f"{prefix}.certificate.chain": identity.certificate_pem,
    }
    entries = [
        ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET) for name, text in given.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)
    until(lambda: "Listener ADDED is open" in broker.log_tail(20_000), "the listener is open")
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with WireClient(f"127.0.0.1:{added}", tls=trust) as client:
        assert serial_number(client) == identity.certificate.serial_number
    shown = admin.describe_configs([resource])[resource].result(60)
    assert shown[f"{prefix}.key"].value is None
    assert shown[f"{prefix}.type"].value == "PEM"
    assert "PRIVATE KEY" not in broker.log_tail(100_000)
