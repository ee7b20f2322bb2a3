"""Limits of connections that follow the configs."""

from __future__ import annotations

import logging
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from broker.fast_lane.epoch import LaneEpoch
from broker.network.interfaces import ListenerSettings
from broker.network.limits import ConnectionLimits
from broker.network.socket_network import resolve
from broker.server.connection_limits import change_limits
from broker.server.dynamic_configs import DynamicConfigListeners
from controller.metadata.image.cluster_image import EMPTY_IMAGE
from protocol.serving.session import is_address, plain_host
from tests.support.rigs.controllers import HandOffload, one_node_config

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


class Names:
    """The limits and listeners of a broker, and a resolver that answers when the test says so.

    known: addresses by name. bound: the hosts of listeners that were opened. in_use: addresses that cannot be
    bound.
    """

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.bound: list[str] = []
        self.in_use: set[str] = set()
        self.limits = ConnectionLimits()
        self.threads = HandOffload()
        self.static = one_node_config()
        services: Any = SimpleNamespace(config=self.static)
        shared: Any = SimpleNamespace(
            logs=SimpleNamespace(cleaner=SimpleNamespace(settings=None)),
            server=SimpleNamespace(limits=self.limits, listen=self.listen, close_excess=list),
            threads=SimpleNamespace(files=self.threads),
            surroundings=SimpleNamespace(network=SimpleNamespace(resolve=self.resolve)),
            change_stores=lambda config: None,
            authentication=SimpleNamespace(change=lambda config: None),
        )
        acceptors: Any = {endpoint.listener: None for endpoint in self.static.broker_listeners}
        service: Any = None
        self.followers = DynamicConfigListeners(
            shared, services, acceptors, lambda endpoint, config: service, LaneEpoch()
        )

    def resolve(self, names: list[str]) -> dict[str, list[str]]:
        self.asked += names
        return {name: self.known.get(name, []) for name in names}

    def listen(self, settings: ListenerSettings, service: object) -> Any:
        if settings.host in self.in_use:
            raise OSError(98, "Address already in use")
        self.bound.append(settings.host)
        return SimpleNamespace(host=settings.host, port=settings.port, start=lambda: None)

    def listen_at(self, host: str) -> list[str]:
        """Adds a listener at this host; tells what is bound before names are looked up."""
        own = ",".join(map(str, self.static.listeners))
        settings = {
            "listeners": f"{own},ADDED://{host}:5",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,ADDED:PLAINTEXT",
        }
        self.followers.follow(EMPTY_IMAGE, self.static.with_dynamic(settings, {}))
        return self.bound

    def configure(self, overrides: str, **others: str) -> dict[str, int]:
        """What the addresses are limited to before the names are looked up."""
        settings = {"max.connections.per.ip.overrides": overrides} | others
        self.followers.follow(EMPTY_IMAGE, self.static.with_dynamic(settings, {}))
        return self.limits.per_ip_overrides


def test_a_setting_without_effect_is_named_once_when_it_is_set(caplog: pytest.LogCaptureFixture) -> None:
    world = Names()

    def follow(own: dict[str, str], shared: dict[str, str]) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "barnabas.node"):
            world.followers.follow(EMPTY_IMAGE, world.static.with_dynamic(own, shared))
        return [record.getMessage() for record in caplog.records]

    prefix = "Dynamic configs: configs that are set but have no effect here; "
    own = {"log.retention.ms": "5", "num.io.threads": "16"}
    shared = {"remote.log.reader.threads": "11"}
    assert follow(own, shared) == [
        prefix + "not used yet: remote.log.reader.threads; ignored: num.io.threads",
    ]
    assert follow(own | {"num.io.threads": "17"}, shared) == []
    assert follow(own, shared | {"remote.log.reader.threads": "10", "num.network.threads": "6"}) == [
        prefix + "ignored: num.network.threads"
    ]
    assert follow({}, {}) == []
    assert follow({"num.io.threads": "8"}, {}) == [], "its default: nothing is promised"
    assert follow({"my.plugin.setting": "secret"}, {}) == [
        "Dynamic configs: unknown configs, without effect: my.plugin.setting (set for this broker)"
    ]
    (refused,) = follow({"background.threads": "many"}, {})
    assert refused.startswith("A stored setting is passed over: ")
    (many,) = follow({f"unknown.{number}": "" for number in range(1_000)}, {})
    assert many.endswith(" and 900 more")


def test_the_limit_of_a_name_stays_while_other_configs_change() -> None:
    world = Names()
    world.known = {"friend": ["10.0.0.7"], "foe": ["10.0.0.8"]}
    assert world.configure("friend:5,10.0.0.1:3") == {"10.0.0.1": 3}
    world.threads.run()
    assert world.limits.per_ip_overrides == {"10.0.0.7": 5, "10.0.0.1": 3}
    assert world.configure("friend:5,10.0.0.1:3", **{"log.retention.ms": "5"}) == {
        "10.0.0.7": 5,
        "10.0.0.1": 3,
    }
    assert len(world.threads) == 0, "nothing is looked up that has not changed"
    assert world.configure("friend:6,foe:1") == {"10.0.0.7": 6}
    world.known["friend"] = ["10.0.0.9"]
    world.threads.run()
    assert world.limits.per_ip_overrides == {"10.0.0.9": 6, "10.0.0.8": 1}
    assert world.configure("") == {}


def test_a_name_that_is_not_found_keeps_its_address_and_is_looked_up_again() -> None:
    world = Names()
    world.configure("friend:5")
    world.threads.run()
    assert world.limits.per_ip_overrides == {}
    world.known = {"friend": ["10.0.0.7"]}
    world.configure("friend:5")
    world.threads.run()
    assert world.limits.per_ip_overrides == {"10.0.0.7": 5}
    world.known = {}
    world.configure("friend:4")
    world.threads.run()
    assert world.limits.per_ip_overrides == {"10.0.0.7": 4}
    assert world.asked == ["friend"] * 3


def test_an_answer_to_an_older_question_limits_only_who_is_still_named() -> None:
    world = Names()
    world.known = {"friend": ["10.0.0.7"], "foe": ["10.0.0.8"]}
    world.configure("friend:5,foe:1")
    world.configure("friend:6")
    world.threads.run()
    assert world.limits.per_ip_overrides == {"10.0.0.7": 6}


@pytest.mark.parametrize("host", ["", "127.0.0.1", "[::1]"])
def test_a_listener_at_an_address_is_opened_at_once(host: str) -> None:
    world = Names()
    assert world.listen_at(host) == [host.strip("[]")]
    assert len(world.threads) == 0


def test_a_listener_at_a_host_name_is_opened_when_its_address_is_known() -> None:
    world = Names()
    world.known = {"here": ["0:0:0:0:0:0:0:1", "10.0.0.7"]}
    world.in_use = {"0:0:0:0:0:0:0:1"}
    assert world.listen_at("here") == world.listen_at("here") == []
    world.threads.run()
    assert world.bound == ["10.0.0.7"]
    world.listen_at("here")
    assert len(world.threads) == 0, "it is open"


def test_a_listener_at_an_unknown_host_name_is_tried_again_with_the_next_change() -> None:
    world = Names()
    world.listen_at("here")
    world.threads.run()
    world.known = {"here": ["10.0.0.7"], "there": ["10.0.0.8"]}
    world.listen_at("here")
    world.listen_at("there")
    world.threads.run()
    assert world.bound == ["10.0.0.8"], "the other one is wanted no longer"
