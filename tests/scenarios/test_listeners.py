"""Listeners: several of them, names that clients are told, free ports, IPv6, and limits to connections."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.ports import free_ports
from tests.support.clients.librdkafka import create_topic, fill, settings, until
from tests.support.clients.wire_client import ConnectionEnded, WireClient

pytestmark = barnabas_only

NewBroker = Callable[..., BarnabasProcess]


def listeners(broker: BarnabasProcess) -> dict[str, str]:
    """Where each listener is, as the line of readiness says."""
    return dict(re.findall(r"(\w+)://(\S+?)[,;]", broker.ready_line + ";"))


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def told_endpoint(address: str) -> tuple[str, int]:
    """The one broker's address as Metadata has it for this listener."""
    with WireClient(address) as client:
        (node,) = client.ask_for(MetadataResponse, MetadataRequest(topics=[]), 12).brokers
        return node.host, node.port


MAP = "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_two_listeners_and_what_their_clients_are_told(new_broker: NewBroker) -> None:
    inside, outside = free_ports(2)
    broker = new_broker(
        listeners=f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},CONTROLLER://127.0.0.1:0",
        advertised__listeners=f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://localhost:{outside}",
        listener__security__protocol__map=MAP,
    )
    assert told_endpoint(f"127.0.0.1:{inside}") == ("127.0.0.1", inside)
    assert told_endpoint(f"127.0.0.1:{outside}") == ("localhost", outside)
    for address in (f"127.0.0.1:{inside}", f"localhost:{outside}"):
        create_topic(address, f"by-{address.split(':')[0]}")
        fill(address, f"by-{address.split(':')[0]}", range(3), partition=0)
    topics = AdminClient(settings(f"127.0.0.1:{outside}")).list_topics(timeout=30).topics
    assert {"by-127.0.0.1", "by-localhost"} <= topics.keys()
    assert set(listeners(broker)) == {"PLAINTEXT", "OUTSIDE", "CONTROLLER"}


def test_free_ports_are_told(new_broker: NewBroker) -> None:
    broker = new_broker(
        listeners="PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        listener__security__protocol__map=MAP,
    )
    found = listeners(broker)
    ports = {int(address.rpartition(":")[2]) for address in found.values()}
    assert len(ports) == 3
    assert 0 not in ports
    for name in ("PLAINTEXT", "OUTSIDE"):
        host, _, port = found[name].rpartition(":")
        assert told_endpoint(found[name]) == (host, int(port))


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_ipv6(new_broker: NewBroker) -> None:
    broker = new_broker(
        listeners="PLAINTEXT://127.0.0.1:0,OUTSIDE://[::1]:0,CONTROLLER://127.0.0.1:0",
        listener__security__protocol__map=MAP,
    )
    address = listeners(broker)["OUTSIDE"]
    assert re.fullmatch(r"\[::1\]:\d+", address)
    assert told_endpoint(address) == ("::1", int(address.rpartition(":")[2]))
    create_topic(address, "six")
    fill(address, "six", range(100), partition=0)
    assert "six" in AdminClient(settings(broker.bootstrap_servers)).list_topics(timeout=30).topics


def test_every_interface(new_broker: NewBroker) -> None:
    (port,) = free_ports(1)
    new_broker(
        listeners=f"PLAINTEXT://:{port},CONTROLLER://127.0.0.1:0",
        advertised__listeners=f"PLAINTEXT://127.0.0.1:{port}",
    )
    create_topic(f"127.0.0.1:{port}", "any")
    assert told_endpoint(f"127.0.0.1:{port}") == ("127.0.0.1", port)


def is_served(client: WireClient) -> bool:
    try:
        client.ask(ApiVersionsRequest("wire", "1"), 3)
    except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
        return False
    return True


def test_connections_from_one_address_are_counted(new_broker: NewBroker) -> None:
    broker = new_broker(max__connections__per__ip="5")
    served = [WireClient(broker.bootstrap_servers) for _ in range(5)]
    assert all(is_served(client) for client in served)
    with WireClient(broker.bootstrap_servers) as one_too_many:
        assert one_too_many.at_end()
    served.pop().close()

    def comes_in() -> bool:
        with WireClient(broker.bootstrap_servers) as client:
            return is_served(client)

    until(comes_in, "the place is free again")
    assert all(is_served(client) for client in served), "the others felt nothing"
    for client in served:
        client.close()


def test_a_controller_is_heard_when_clients_have_all_places(new_broker: NewBroker) -> None:
    broker = new_broker(max__connections="3")
    controller = listeners(broker)["CONTROLLER"]
    served = [WireClient(broker.bootstrap_servers) for _ in range(3)]
    assert all(is_served(client) for client in served)
    others = [WireClient(controller) for _ in range(3)]
    assert all(is_served(client) for client in others)
    for client in (*served, *others):
        client.close()


def test_an_idle_connection_is_closed(new_broker: NewBroker) -> None:
    broker = new_broker(connections__max__idle__ms="300")

    def was_served_and_is_at_an_end() -> bool:
        """A client that is slow to ask is idle before it was served."""
        with WireClient(broker.bootstrap_servers) as client:
            return is_served(client) and client.at_end()

    until(was_served_and_is_at_an_end, "a connection that was served is closed")


def test_a_producer_lives_with_short_idle_times(new_broker: NewBroker) -> None:
    broker = new_broker(connections__max__idle__ms="1000")
    create_topic(broker.bootstrap_servers, "patient")
    producer = Producer(
        settings(broker.bootstrap_servers, enable_idempotence=True, reconnect_backoff_max_ms=100)
    )
    delivered: list[int | None] = []
    for number in range(3):
        producer.produce("patient", str(number), on_delivery=lambda _, sent: delivered.append(sent.offset()))
        assert producer.flush(30) == 0
        with WireClient(broker.bootstrap_servers) as idle:
            assert idle.at_end(), "so long, at least, the producer rested"
    assert delivered == [0, 1, 2]


def test_quotas_hold_at_a_controller_too(new_broker: NewBroker) -> None:
    """Who asks it for too much by a version that is not refused is not heard for a while, and an address that
    comes too fast is not let in."""
    broker = new_broker(listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0")
    address = listeners(broker)["CONTROLLER"]
    client: Any = WireClient(address)

    def limit(entity: tuple[str, str | None], key: str, value: float) -> None:
        asked = AlterClientQuotasRequest.EntryData(
            [AlterClientQuotasRequest.EntityData(*entity)], [AlterClientQuotasRequest.OpData(key, value)]
        )
        assert client.ask(AlterClientQuotasRequest([asked]), 1).entries[0].error_code == 0

    limit(("user", None), "controller_mutation_rate", 10)
    began = monotonic()
    many = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("many", 125, 1)], 20_000)
    told_ms = client.ask(many, 5).throttle_time_ms
    assert told_ms > 500
    client.ask(ApiVersionsRequest("me", "1"), 3)
    assert monotonic() - began >= told_ms / 1000
    limit(("ip", "127.0.0.1"), "connection_creation_rate", 1)

    def comes_too_fast() -> bool:
        try:
            WireClient(address).ask(ApiVersionsRequest("me", "1"), 3)
        except (ConnectionEnded, OSError):
            return True
        return False

    assert any(comes_too_fast() for _ in range(15))
