"""What may be set for a group while the cluster runs, and what of it is in force."""

from __future__ import annotations

from collections.abc import Mapping

from config.broker_config import BrokerConfig
from config.catalogue import BROKER, GROUP
from config.errors import InvalidValue, some_of
from config.java_order import hash_order
from config.values import Value


def validate_group_config(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """A group's settings lie within the broker's bounds for that kind of group.

    `overrides` are all settings that the group would have afterwards. Raises `InvalidValue`
    (INVALID_CONFIG) in Kafka's words.
    """
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise InvalidValue(f"Null value not supported for group configs: {some_of(nulls)}")
    for name in hash_order(overrides):
        if name not in GROUP:
            raise InvalidValue(f"Unknown group config name: {name}")
    values = {name: row.parse(overrides[name]) for name, row in GROUP.items() if name in overrides}
    for name, value in values.items():
        if isinstance(value, int):
            _check_bounds(name, value, broker)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if not _group_number(values, broker, heartbeat) < _group_number(values, broker, session):
            raise InvalidValue(f"{session} must be greater than {heartbeat}")


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
