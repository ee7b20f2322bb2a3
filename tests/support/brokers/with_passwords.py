"""A broker whose clients log in: listeners with SASL, and one without for the tests' own use.

`alice` has a password by PLAIN and by both mechanisms of SCRAM, another one for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.conftest import AnyBroker, broker_under_test
from tests.support.brokers.ports import free_ports

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORDS: Final = {"PLAIN": "plain-secret", "SCRAM-SHA-256": "secret, =256", "SCRAM-SHA-512": "secret-ü"}
SESSION_MS: Final = 1_500


class PasswordBroker(NamedTuple):
    """secured: the address of the listener SECURED, which offers all mechanisms. short: of the listener
    SHORT, whose sessions last `SESSION_MS`. properties: what the broker was started with."""

    broker: AnyBroker
    secured: str
    short: str
    properties: dict[str, str]

    @property
    def open(self) -> str:
        """The address of the listener without SASL."""
        return self.broker.bootstrap_servers


def password_broker(data: Path) -> PasswordBroker:
    """Not started yet."""
    plain, secured, short, controller = free_ports(4)
    named = {"PLAINTEXT": plain, "SECURED": secured, "SHORT": short, "CONTROLLER": controller}
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in named.items()]
    users = f'{PLAIN_MODULE} required user_alice="{PASSWORDS["PLAIN"]}" user_bob="bob-secret";'
    properties = {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(listeners[:3]),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secured.plain.sasl.jaas.config": users,
        "listener.name.short.plain.sasl.jaas.config": users,
        "listener.name.secured.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    broker = broker_under_test(data, properties)
    broker.bootstrap_servers = f"127.0.0.1:{plain}"
    return PasswordBroker(broker, f"127.0.0.1:{secured}", f"127.0.0.1:{short}", properties)


def set_passwords(address: str, user: str = "alice") -> None:
    """Sets the SCRAM passwords, as an admin client does it: in one request for each mechanism."""
    admin = AdminClient({"bootstrap.servers": address})
    for mechanism, password in (
        (ScramMechanism.SCRAM_SHA_256, PASSWORDS["SCRAM-SHA-256"]),
        (ScramMechanism.SCRAM_SHA_512, PASSWORDS["SCRAM-SHA-512"]),
    ):
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        admin.alter_user_scram_credentials([change])[user].result(30)
