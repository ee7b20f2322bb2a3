"""Who may log in, changed while the broker runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.ports import free_ports
from tests.support.brokers.with_passwords import PLAIN_MODULE
from tests.support.clients.librdkafka import settings, until
from tests.support.clients.raw_connection import RawConnection

pytestmark = barnabas_only

NewBroker = Callable[..., BarnabasProcess]
JAAS = "sasl.jaas.config"


def lets_in(port: int, user: str, password: str) -> bool:
    with RawConnection(f"127.0.0.1:{port}") as client:
        client.ask_for(SaslHandshakeResponse, SaslHandshakeRequest("PLAIN"), 1)
        token = SaslAuthenticateRequest(f"\0{user}\0{password}".encode())
        return client.ask_for(SaslAuthenticateResponse, token, 2).error_code == 0


def offered(port: int) -> list[str]:
    with RawConnection(f"127.0.0.1:{port}") as client:
        return client.ask_for(SaslHandshakeResponse, SaslHandshakeRequest("NONE"), 1).mechanisms


def change(address: str, **settings_: str) -> None:
    changes = [
        ConfigEntry(name.replace("__", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings_.items()
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=changes)
    admin = AdminClient(settings(address))
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_users_and_mechanisms_change_while_the_broker_runs_and_stay(new_broker: NewBroker) -> None:
    plain, secured = free_ports(2)
    broker = new_broker(
        listeners=f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:0",
        listener__security__protocol__map="PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        sasl__enabled__mechanisms="PLAIN",
        sasl__jaas__config=f'{PLAIN_MODULE} required user_alice="old";',
        connection__failed__authentication__delay__ms="0",
    )
    address = f"127.0.0.1:{plain}"
    assert lets_in(secured, "alice", "old")
    change(address, sasl__jaas__config=f'{PLAIN_MODULE} required user_alice="new" user_eve="eves";')
    until(lambda: lets_in(secured, "eve", "eves"), "the new user is let in")
    assert (lets_in(secured, "alice", "new"), lets_in(secured, "alice", "old")) == (True, False)
    for wrong in (
        {"sasl__enabled__mechanisms": "GSSAPI"},
        {"sasl__jaas__config": 'x required user_eve="s3c"'},
    ):
        with pytest.raises(KafkaException) as refused:
            change(address, **wrong)
        assert refused.value.args[0].name() == "INVALID_REQUEST"
        assert "s3c" not in refused.value.args[0].str()
    assert broker.stop() == 0
    broker.start()
    assert (lets_in(secured, "alice", "new"), lets_in(secured, "alice", "old")) == (True, False)
    assert offered(secured) == ["PLAIN"]
