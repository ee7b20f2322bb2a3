"""What may be changed while the cluster runs: the checks behind IncrementalAlterConfigs for brokers, groups
and client metrics (those for topics stand in `topic_config`).

Every function takes all settings that the resource would have afterwards and raises `InvalidValue` in
Kafka's words. Which error code it becomes is the handler's: INVALID_CONFIG for groups, INVALID_REQUEST for
brokers and client metrics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from config.broker_config import BrokerConfig
from config.catalogue import BROKER, CLIENT_METRICS, GROUP, broker_definition, is_listener_scoped
from config.definition import PER_BROKER, READ_ONLY
from config.definitions import sasl, tls
from config.errors import InvalidValue
from config.values import Value, split_list

_THREAD_POOLS: Final = frozenset(
    {
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "log.cleaner.threads",
        "num.recovery.threads.per.data.dir",
        "background.threads",
        "remote.log.reader.threads",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
    }
)

_MATCH_KEYS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_INTERVAL_MS: Final = (100, 3_600_000)


def validate_broker_config(settings: Mapping[str, str], *, per_broker: bool) -> None:
    """Names and values of dynamic settings, for one broker or for all. Unknown names are let through."""
    listener_only = _security_names()
    fixed = [name for name in settings if name in BROKER and BROKER[name].update_mode is READ_ONLY]
    if fixed:
        raise InvalidValue(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    bare = [name for name in settings if name in listener_only]
    if bare:
        raise InvalidValue(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(bare)}]"
        )
    if not per_broker:
        single = [name for name in settings if _is_per_broker(name)]
        if single:
            raise InvalidValue(
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"[{', '.join(single)}]"
            )
    for name, text in settings.items():
        definition = broker_definition(name)
        if definition is not None:
            definition.parse(text)


def validate_thread_pools(settings: Mapping[str, str], current: BrokerConfig) -> None:
    """A pool may change to between half and double of its size at once."""
    for name, text in settings.items():
        if name not in _THREAD_POOLS:
            continue
        wanted, now = BROKER[name].parse(text), current.integer(name)
        if not isinstance(wanted, int) or wanted == now:
            continue
        failed = f"Dynamic thread count update validation failed, configuration name {name}: "
        if wanted < now // 2:
            raise InvalidValue(f"{failed}value should be at least half the current value {now}")
        if wanted > now * 2:
            raise InvalidValue(f"{failed}value should not be greater than double the current value {now}")


def validate_group_config(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """A group's settings lie within the broker's bounds for that kind of group."""
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise InvalidValue(f"Null value not supported for group configs: {','.join(nulls)}")
    for name in overrides:
        if name not in GROUP:
            raise InvalidValue(f"Unknown group config name: {name}")
    values = {name: GROUP[name].parse(text) for name, text in overrides.items()}
    for name, value in values.items():
        if isinstance(value, int):
            _check_bounds(name, value, broker)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if not _group_number(values, broker, heartbeat) < _group_number(values, broker, session):
            raise InvalidValue(f"{session} must be greater than {heartbeat}")


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """A subscription: known names, an interval that does not hurt, patterns that compile."""
    for name in overrides:
        if name not in CLIENT_METRICS:
            raise InvalidValue(f"Unknown client metrics configuration: {name}")
    if "interval.ms" in overrides:
        value = CLIENT_METRICS["interval.ms"].parse(overrides["interval.ms"])
        if not isinstance(value, int) or not _INTERVAL_MS[0] <= value <= _INTERVAL_MS[1]:
            raise InvalidValue(
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
    for pattern in split_list(overrides.get("match", "")):
        key, equals, expression = pattern.partition("=")
        valid = bool(equals) and key in _MATCH_KEYS and bool(expression) and "=" not in expression
        if not valid or not _compiles(expression):
            raise InvalidValue(f"Illegal client matching pattern: {pattern}")


def _security_names() -> frozenset[str]:
    """Security configs that have no value of their own for the broker as a whole while it runs."""
    rows = (*tls.DEFINITIONS, *sasl.DEFINITIONS)
    names = frozenset(row.name for row in rows if row.update_mode is PER_BROKER)
    return names | {"principal.builder.class"}


def _is_per_broker(name: str) -> bool:
    return is_listener_scoped(name) or (name in BROKER and BROKER[name].update_mode is PER_BROKER)


def _check_bounds(name: str, value: int, broker: BrokerConfig) -> None:
    kind, _, setting = name.partition(".")
    least, most = f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
    if setting == "num.standby.replicas":
        most = "group.streams.max.standby.replicas"
    if least in BROKER and value < broker.integer(least):
        raise InvalidValue(f"{name} must be greater than or equal to {least}")
    if most in BROKER and value > broker.integer(most):
        raise InvalidValue(f"{name} must be less than or equal to {most}")


def _group_number(values: Mapping[str, Value], broker: BrokerConfig, name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else broker.integer(GROUP[name].synonyms[0])


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except re.error:
        return False
    return True
