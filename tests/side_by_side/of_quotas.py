"""Client quotas: through Kafka's tool, and byte by byte what its tool would not send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from tests.side_by_side.cases import Case, tool
from tests.side_by_side.sides import Side
from tests.support.clients.wire_client import WireClient

DEFAULT: Final = "--entity-default"

Entity: TypeAlias = dict[str, str | None]
Asked: TypeAlias = Callable[[Side], object]
Component: TypeAlias = tuple[str, int, str | None]


def entity(kind: str, name: str) -> str:
    return f"--entity-type {kind} " + (name if name == DEFAULT else f"--entity-name {name}")


def add(name: str, kind: str, of: str, config: str) -> Case:
    return tool(name, f"kafka-configs --alter {entity(kind, of)} --add-config {config}")


def delete(name: str, kind: str, of: str, config: str) -> Case:
    return tool(name, f"kafka-configs --alter {entity(kind, of)} --delete-config {config}")


def shown(name: str, words: str, *, until: str = "") -> Case:
    """What the tool shows; of several entities Kafka's order is that of a hash table."""
    return tool(name, f"kafka-configs --describe {words}", unordered=True, until=until)


def altered(entity: Entity, **quotas: float) -> Case:
    """One entity's quotas are set over the wire: the code and the sentence."""
    name = " ".join(f"{kind} {value}" for kind, value in [*entity.items(), *quotas.items()])

    def ask(side: Side) -> object:
        request = AlterClientQuotasRequest(
            [
                AlterClientQuotasRequest.EntryData(
                    [AlterClientQuotasRequest.EntityData(*part) for part in entity.items()],
                    [AlterClientQuotasRequest.OpData(*quota) for quota in quotas.items()],
                )
            ]
        )
        with WireClient(side.address) as client:
            response = client.ask_for(AlterClientQuotasResponse, request, 1)
        return [
            (each.error_code, each.error_message, sorted((p.entity_type, p.entity_name) for p in each.entity))
            for each in response.entries
        ]

    return Case(f"alter {name[:60]}", python=ask)


def described(name: str, *components: Component, strict: bool = False) -> Case:
    def ask(side: Side) -> object:
        request = DescribeClientQuotasRequest(
            [DescribeClientQuotasRequest.ComponentData(*each) for each in components], strict
        )
        with WireClient(side.address) as client:
            response = client.ask_for(DescribeClientQuotasResponse, request, 1)
        entries = response.entries
        return (
            response.error_code,
            response.error_message,
            entries
            and sorted(
                repr((
                    sorted((part.entity_type, part.entity_name or "default") for part in entry.entity),
                    sorted((value.key, value.value) for value in entry.values),
                ))
                for entry in entries
            ),
        )  # fmt: skip

    return Case(f"describe {name}", python=ask)


CASES: Final[tuple[Case, ...]] = (
    add("a client", "clients", "one", "producer_byte_rate=1000"),
    add("a user", "users", "bob", "consumer_byte_rate=2048,request_percentage=150.5"),
    tool(
        "a user's client",
        f"kafka-configs --alter {entity('users', 'bob')} {entity('clients', 'two')} "
        "--add-config controller_mutation_rate=2.5",
    ),
    add("all users", "users", DEFAULT, "producer_byte_rate=900000"),
    add("all clients", "clients", DEFAULT, "request_percentage=900"),
    add("an address", "ips", "10.1.2.3", "connection_creation_rate=7"),
    add("all addresses", "ips", DEFAULT, "connection_creation_rate=900"),
    add("a bad address", "ips", "no..ip", "connection_creation_rate=7"),
    add("a bad key", "clients", "one", "colour=1"),
    add("a fraction", "clients", "one", "producer_byte_rate=1.5"),
    delete("a quota that is not set", "clients", "one", "consumer_byte_rate"),
    shown("describe a client", entity("clients", "one"), until="producer_byte_rate"),
    shown("describe all clients", "--entity-type clients"),
    shown("describe a user's client", f"{entity('users', 'bob')} {entity('clients', 'two')}"),
    shown("describe the default of clients", entity("clients", DEFAULT)),
    shown("describe addresses", "--entity-type ips"),
    altered({}, producer_byte_rate=5.0),
    altered({"group": "g"}, producer_byte_rate=5.0),
    altered({"user": ""}, producer_byte_rate=5.0),
    altered({"ip": "1.2.3.4", "user": "u"}, connection_creation_rate=5.0),
    altered({"user": "u"}, connection_creation_rate=5.0),
    altered({"ip": "1.2.3.4"}, producer_byte_rate=5.0),
    altered({"user": "u"}, producer_byte_rate=0.0),
    altered({"user": "u"}, producer_byte_rate=-5.5),
    altered({"user": "u"}, request_percentage=-5.5),
    altered({"user": "u"}, controller_mutation_rate=0.0),
    altered({"user": "u"}, producer_byte_rate=5.0000001),
    altered({"user": "u"}, producer_byte_rate=5.25),
    altered({"user": "u"}, producer_byte_rate=1e30),
    altered({"user": "u"}, producer_byte_rate=9.3e18),
    altered({"ip": "1.2.3.4"}, connection_creation_rate=0.0),
    altered({"ip": "1.2.3.4"}, connection_creation_rate=3e9),
    altered({"ip": "1.2.3.4"}, connection_creation_rate=3.5),
    described("all"),
    described("all, strictly", strict=True),
    described("users", ("user", 2, None)),
    described("users, strictly", ("user", 2, None), strict=True),
    described("users and clients, strictly", ("user", 2, None), ("client-id", 2, None), strict=True),
    described("default user", ("user", 1, None)),
    described("nothing of an empty type", ("", 2, None)),
    described("groups", ("group", 2, None)),
    described("a type twice", ("user", 2, None), ("user", 0, "bob")),
    described("a name that is null", ("user", 0, None)),
    described("a default with a name", ("user", 1, "bob")),
    described("any with a name", ("user", 2, "bob")),
    described("by an unknown match", ("user", 7, None)),
    described("addresses and users", ("ip", 2, None), ("user", 2, None)),
    delete("a quota is deleted", "clients", "one", "producer_byte_rate"),
    delete("the quotas of addresses are deleted", "ips", DEFAULT, "connection_creation_rate"),
    delete("the quotas of users are deleted", "users", DEFAULT, "producer_byte_rate"),
    delete("the quotas of clients are deleted", "clients", DEFAULT, "request_percentage"),
)
