"""Limits of connections that follow the configs."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from broker.network.limits import ConnectionLimits, plain_host
from broker.network.socket_network import resolve
from broker.server.connection_limits import change_limits, is_address
from tests.support.rigs.controllers import one_node_config

LISTENERS = ["PLAINTEXT"]


def test_limits_are_those_of_the_config_in_force() -> None:
    limits = ConnectionLimits()
    static = one_node_config(listener__name__plaintext__max__connections="7")
    config = static.with_dynamic({"max.connections": "50"}, {"max.connections.per.ip": "5"})
    change_limits(limits, config, LISTENERS, {"10.0.0.1": 2})
    assert (limits.maximum, limits.maximum_per_ip, limits.exempt_listener) == (50, 5, None)
    assert limits.per_ip_overrides == {"10.0.0.1": 2}
    assert limits.per_listener == {"PLAINTEXT": 7}
    change_limits(
        limits, config.with_dynamic({"listener.name.plaintext.max.connections": "9"}, {}), LISTENERS, {}
    )
    assert limits.per_listener == {"PLAINTEXT": 9}
    assert limits.per_ip_overrides == {}


def test_who_waits_for_room_looks_again_when_there_is_more() -> None:
    limits = ConnectionLimits(maximum=1)
    limits.opened("PLAINTEXT", "10.0.0.1")
    woken: list[bool] = []
    limits.when_room(lambda: woken.append(limits.has_room("PLAINTEXT")))
    change_limits(limits, one_node_config().with_dynamic({"max.connections": "2"}, {}), LISTENERS, {})
    assert woken == [True]


def test_an_address_counts_as_it_is_written_where_connections_are_counted() -> None:
    assert is_address("::1")
    assert is_address("10.0.0.1")
    assert not is_address("localhost")
    limits = ConnectionLimits(maximum_per_ip=1, per_ip_overrides={plain_host("::1"): 2})
    limits.opened("PLAINTEXT", plain_host("::1"))
    assert limits.refusal(plain_host("0:0:0:0:0:0:0:1")) is None


def test_names_are_looked_up_and_an_unknown_one_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str, port: object) -> list[Any]:
        if name == "nobody.invalid":
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", ("::1", 0)), (0, 0, 0, "", ("10.0.0.7", 0)), (0, 0, 0, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert resolve(["here", "nobody.invalid"]) == {
        "here": ["0:0:0:0:0:0:0:1", "10.0.0.7"],
        "nobody.invalid": [],
    }
