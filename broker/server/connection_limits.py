"""The limits on connections that a config sets, for the listeners of one role.

Broker and controller count apart, as in Kafka, where each has a socket server of its own: a node whose
clients have taken all of `max.connections` must still be heard by its quorum. The broker's limits follow
dynamic configs; the controller keeps those of the file. How fast single addresses may open connections is a
quota of the cluster, which both follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.network.limits import UNLIMITED, ConnectionLimits
from broker.quotas.address_rates import AddressRates
from config.broker_config import BrokerConfig
from config.checks import max_connections_per_ip
from protocol.serving.session import is_address, plain_host

__all__ = ["address_rates", "change_limits", "controller_limits", "limits_of_addresses"]

MAX_CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"


def controller_limits(config: BrokerConfig) -> ConnectionLimits:
    """Host names in max.connections.per.ip.overrides have no limits of their own here; they would have to be
    looked up first."""
    limits = ConnectionLimits()
    names = [endpoint.listener for endpoint in config.controller_listeners]
    change_limits(limits, config, names, limits_of_addresses(max_connections_per_ip(config)))
    return limits


def limits_of_addresses(overrides: Mapping[str, int]) -> dict[str, int]:
    """What max.connections.per.ip.overrides says of addresses, by address as `plain_host` writes it."""
    return {plain_host(host): limit for host, limit in overrides.items() if is_address(host)}


def address_rates(config: BrokerConfig) -> AddressRates:
    """How fast single addresses may open connections: as fast as they can, before the metadata say more."""
    window_ms = config.integer("quota.window.size.seconds") * 1_000
    return AddressRates(window_ms=window_ms, windows=config.integer("quota.window.num"))


def change_limits(
    limits: ConnectionLimits,
    config: BrokerConfig,
    names: Sequence[str],
    per_ip: Mapping[str, int],
    *,
    exempt_listener: str | None = None,
) -> None:
    """Sets the limits to what the config says. names: the listeners that they are for. per_ip: by address, as
    `plain_host` writes it. A listener of which the broker's rate holds needs no rate of its own that is the
    same; the exempt one does."""
    limits.change(
        maximum=config.integer(MAX_CONNECTIONS),
        maximum_per_ip=config.integer("max.connections.per.ip"),
        per_ip_overrides=per_ip,
        per_listener=_listener_limits(config, names, MAX_CONNECTIONS),
        exempt_listener=exempt_listener,
        creation_rate=config.integer(CREATION_RATE),
        creation_rate_per_listener={
            name: rate
            for name, rate in _listener_limits(config, names, CREATION_RATE).items()
            if rate != config.integer(CREATION_RATE) or name == exempt_listener
        },
    )


def _listener_limits(config: BrokerConfig, names: Sequence[str], setting: str) -> dict[str, int]:
    """The limits of listeners that have one, set for the single listener or for all of them."""
    limits = {}
    for name in names:
        limit = config.for_listener(name, setting)
        if isinstance(limit, int) and limit != UNLIMITED:
            limits[name] = limit
    return limits
