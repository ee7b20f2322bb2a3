"""What may be changed of a broker's configs while it runs: the checks behind IncrementalAlterConfigs and
AlterConfigs of the resource BROKER. (Topics': `topic_config`; groups': `dynamic_groups`.)

As in Kafka they are made by the broker whom the request reaches, before the controller hears of it: it alone
knows its file. In order: may the names be changed at all, at this level; are the values well-formed; would
the broker start with all of it together; can it go there from where it is (a thread pool only to between half
and double of its size).

All faults are raised as `ConfigError` in Kafka's words, with its oddities: what the last step finds arrives
as "Invalid value org.apache.kafka.common.config.ConfigException: … for configuration Invalid dynamic
configuration", because that is how Kafka wraps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from config.broker_config import BrokerConfig
from config.catalogue import AT_THE_START, BROKER, is_listener_scoped, unscoped_name
from config.checks import check_kafkas_relations, check_security
from config.definition import PER_BROKER, READ_ONLY
from config.errors import ConfigError, InvalidValue, UnmetRequirement, some_of
from config.java_order import hash_order
from config.setting import one_line

_POOLS: Final = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "num.network.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)
_CLEANERS: Final = "log.cleaner.threads"

_STORES: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)
"""The configs of key stores and trust stores; they can be changed for a single listener only, with its
prefix."""

_LISTENER_LIMITS: Final = ("max.connections", "max.connection.creation.rate")

_FOR_ALL_LISTENERS: Final = (*_LISTENER_LIMITS, "num.network.threads")
"""Listener configs that can also be set for one listener on all brokers at once."""

_RETENTION: Final = (
    ("log.local.retention.ms", "log.retention.ms"),
    ("log.local.retention.bytes", "log.retention.bytes"),
)
_LOCAL_AS_THE_REST: Final = -2


def validate_broker_change(
    settings: Mapping[str, str], current: BrokerConfig, *, per_broker: bool
) -> BrokerConfig:
    """Whether `settings`, all that would be set for this broker or else for all brokers, can be. The config
    that they would make."""
    validate_broker_config(settings, per_broker=per_broker)
    if per_broker:
        wanted = current.with_dynamic(settings, current.dynamic_default)
    else:
        wanted = current.with_dynamic(current.dynamic_broker, settings)
    _check_login(settings, current)
    try:
        check_kafkas_relations(wanted)
    except UnmetRequirement as unmet:
        raise ConfigError(unmet.in_kafkas_words) from unmet
    try:
        _check_transition(current, wanted)
    except ConfigError as fault:
        raise invalid_as_a_whole(fault) from fault
    check_security(wanted)
    return wanted


def _check_login(settings: Mapping[str, str], current: BrokerConfig) -> None:
    """Refuses to change how this broker logs in to others. A change that is stored already, as
    Kafka's brokers store it, is in nobody's way."""
    wanted = settings.get(AT_THE_START)
    if wanted not in (None, current.dynamic_broker.get(AT_THE_START)):
        raise ConfigError(
            f"{AT_THE_START}={one_line(str(wanted))}: this broker logs in to others as its file says; set it "
            "there and start the broker again"
        )


def invalid_as_a_whole(fault: ConfigError) -> InvalidValue:
    """A fault of all settings together, as Kafka tells it."""
    return InvalidValue(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {fault} "
        "for configuration Invalid dynamic configuration"
    )


def validate_broker_config(settings: Mapping[str, str], *, per_broker: bool) -> None:
    """Names and values of dynamic settings, for one broker or for all. Unknown names are let through: a
    plug-in may know them."""
    fixed = [name for name in settings if name in BROKER and BROKER[name].update_mode is READ_ONLY]
    _refuse(fixed, "Cannot update these configs dynamically")
    bare = [name for name in settings if name in _STORES]
    _refuse(
        bare, "These security configs can be dynamically updated only per-listener using the listener prefix"
    )
    texts = {unscoped_name(name): text for name, text in settings.items()}
    for name, row in BROKER.items():
        if name in texts and row.update_mode is not READ_ONLY:
            row.parse(texts[name])
    if not per_broker:
        single = [name for name in settings if _is_for_one_broker(name)]
        _refuse(single, "Cannot update these configs at default cluster level, broker id must be specified")


def _refuse(names: Iterable[str], sentence: str) -> None:
    ordered = hash_order(names)
    if ordered:
        raise InvalidValue(f"{sentence}: [{some_of(ordered, ', ')}]")


def _is_for_one_broker(name: str) -> bool:
    if is_listener_scoped(name):
        return unscoped_name(name) not in _FOR_ALL_LISTENERS
    return name in BROKER and BROKER[name].update_mode is PER_BROKER


def _check_transition(current: BrokerConfig, wanted: BrokerConfig) -> None:
    """Checks the change from the configs in force to the wanted ones, as a whole."""
    for name in _POOLS:
        check_thread_pool(name, current.integer(name), wanted.integer(name))
    _check_cleaners(current.integer(_CLEANERS), wanted.integer(_CLEANERS))
    _check_local_retention(current, wanted)
    _check_listeners(current, wanted)
    _check_connection_limits(current, wanted)


def check_thread_pool(name: str, now: int, wanted: int) -> None:
    """Refuses to change the size of a thread pool to less than half or more than double at once."""
    if wanted == now:
        return
    failed = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted < 1:
        raise InvalidValue(f"{failed}, value should be at least 1")
    if wanted < now // 2:
        raise InvalidValue(f"{failed}, value should be at least half the current value {now}")
    if wanted > now * 2:
        raise InvalidValue(f"{failed}, value should not be greater than double the current value {now}")


def _check_cleaners(now: int, wanted: int) -> None:
    if wanted == now:
        return
    if wanted < 1:
        raise InvalidValue("Log cleaner threads should be at least 1")
    if wanted < now // 2:
        raise InvalidValue(f"Log cleaner threads cannot be reduced to less than half the current value {now}")
    if wanted > now * 2:
        raise InvalidValue(
            f"Log cleaner threads cannot be increased to more than double the current value {now}"
        )


def _check_local_retention(current: BrokerConfig, wanted: BrokerConfig) -> None:
    """Refuses a local retention that is longer than the whole retention."""
    for local_name, name in _RETENTION:
        local, kept = wanted.integer(local_name), _kept(wanted, name)
        if (local, kept) == (current.integer(local_name), _kept(current, name)):
            continue
        if kept == -1 or local == _LOCAL_AS_THE_REST:
            continue
        if local == -1:
            raise InvalidValue.of(
                local_name, local, f"Value must not be -1 as {name} value is set as {kept}."
            )
        if local > kept:
            raise InvalidValue.of(
                local_name, local, f"Value must not be more than {name} property value: {kept}"
            )


def _kept(config: BrokerConfig, name: str) -> int:
    return config.retention_ms if name == "log.retention.ms" else config.integer(name)


def _check_listeners(current: BrokerConfig, wanted: BrokerConfig) -> None:
    """Refuses to take away a listener that is advertised, and to change the security protocol of one that
    stays. A broker advertises what its file says, so a listener that was added since may go again; Kafka
    keeps that too where advertised.listeners is not set."""
    names = [endpoint.listener for endpoint in wanted.listeners]
    told = [endpoint.listener for endpoint in current.with_dynamic({}, {}).advertised_listeners]
    if not set(told).issubset(names) and wanted.listeners != current.listeners:
        raise InvalidValue(
            f"Advertised listeners '{_scala_set(told)}' must be a subset of listeners '{_scala_set(names)}'"
        )
    before = {endpoint.listener: endpoint for endpoint in current.listeners}
    for endpoint in wanted.listeners:
        stays = before.get(endpoint.listener)
        if stays is not None and stays.security_protocol != endpoint.security_protocol:
            raise InvalidValue(
                "Configs cannot be updated dynamically for existing listener "
                f"ListenerName({endpoint.listener}), restart broker or create a new listener for update"
            )


def _scala_set(listeners: Iterable[str]) -> str:
    return f"Set({', '.join(f'ListenerName({name})' for name in listeners)})"


def _check_connection_limits(current: BrokerConfig, wanted: BrokerConfig) -> None:
    """Refuses limits that would shut an open listener: its own ones, or else the broker's."""
    for endpoint in current.broker_listeners:
        limits = {name: wanted.for_listener(endpoint.listener, name) for name in _LISTENER_LIMITS}
        if all(current.for_listener(endpoint.listener, name) == limit for name, limit in limits.items()):
            continue
        for name, limit in limits.items():
            if isinstance(limit, int) and limit <= 0:
                raise InvalidValue(f"Invalid {name} {limit}")
