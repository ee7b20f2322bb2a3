"""All definitions by name, and the families of broker configs that stand for one another.

Kafka has several names for some broker values (`log.retention.ms`, `.minutes`, `.hours`), and lets security
configs carry a listener's name in front (`listener.name.internal.ssl.keystore.location`). Which definition
such a key means, and which names give its value when it is not set itself, is answered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from config.definition import Definition, PluginConfig
from config.definitions import (
    cleaner,
    client_metrics,
    group_level,
    groups,
    log,
    metrics,
    network,
    ours,
    plugins,
    process,
    quotas,
    replication,
    sasl,
    security,
    share,
    streams,
    tiered,
    tls,
    topic_level,
    topics,
    transactions,
)

_BROKER_SUBJECTS: Final = (
    process,
    network,
    log,
    cleaner,
    topics,
    replication,
    groups,
    share,
    streams,
    transactions,
    security,
    sasl,
    tls,
    quotas,
    metrics,
    tiered,
    ours,
)

BROKER: Final[Mapping[str, Definition]] = MappingProxyType(
    {row.name: row for subject in _BROKER_SUBJECTS for row in subject.DEFINITIONS}
)
TOPIC: Final[Mapping[str, Definition]] = MappingProxyType({row.name: row for row in topic_level.DEFINITIONS})
GROUP: Final[Mapping[str, Definition]] = MappingProxyType({row.name: row for row in group_level.DEFINITIONS})
CLIENT_METRICS: Final[Mapping[str, Definition]] = MappingProxyType(
    {row.name: row for row in client_metrics.DEFINITIONS}
)
PLUGINS: Final[Mapping[str, PluginConfig]] = MappingProxyType({row.name: row for row in plugins.DEFINITIONS})
"""Keys that only plug-ins read: no configs of the broker's, and unknown to DescribeConfigs."""

_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")

_SYNONYMS: Final = MappingProxyType(
    {name: family for family in _FAMILIES for name in family} | {_FLUSH[0]: _FLUSH}
)

_LISTENER_PREFIX: Final = "listener.name."

_PER_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""The configs that may be set with the prefix of a listener and a SASL mechanism."""


AT_THE_START: Final = "sasl.mechanism.inter.broker.protocol"
"""Kafka lets it be changed while a broker runs; here its text in the file counts, until the broker starts
with another one."""


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names that can give this broker config its value; the first that is set wins."""
    family = _SYNONYMS.get(name)
    if family is not None:
        return family
    if not name.startswith(_LISTENER_PREFIX):
        return (name,)
    _, dot, rest = name.removeprefix(_LISTENER_PREFIX).partition(".")
    if not dot:
        return (name,)
    return (name, next((config for config in _PER_MECHANISM if rest.endswith(config)), rest))


def broker_definition(name: str) -> Definition | None:
    """The definition behind a broker key, seen through a listener prefix; None for an unknown key."""
    if name in BROKER:
        return BROKER[name]
    return next((BROKER[known] for known in broker_synonyms(name) if known in BROKER), None)


def unscoped_name(name: str) -> str:
    """The key without its listener's (and mechanism's) name; a key without them is itself."""
    return broker_synonyms(name)[-1] if is_listener_scoped(name) else name


def plugin_config(name: str) -> PluginConfig | None:
    """The config of a Kafka plug-in with this key: that of the whole name, else that of the longest
    prefix."""
    if name in PLUGINS:
        return PLUGINS[name]
    begins = [row for row in PLUGINS.values() if row.name.endswith(".") and name.startswith(row.name)]
    return max(begins, key=lambda row: len(row.name), default=None)


def is_listener_scoped(name: str) -> bool:
    """Whether the key carries a `listener.name.<listener>.` prefix."""
    return name.startswith(_LISTENER_PREFIX) and "." in name.removeprefix(_LISTENER_PREFIX)
