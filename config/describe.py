"""The configs of a resource as DescribeConfigs shows them.

Each row tells the value in force, where it comes from, and its synonyms: the chain of names and layers that
could have given it, the strongest first. Kafka cuts the chain so that it begins with the config's own name,
and leaves out built-in defaults without value; so `retention.ms` of an untouched topic has no synonyms at
all, although log.retention.hours decides it. Values of secrets, and of keys that nobody has defined, are
null.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from msgspec import Struct

from config.broker_config import BrokerConfig
from config.catalogue import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    broker_definition,
    broker_synonyms,
)
from config.definition import READ_ONLY, Definition
from config.effects import documentation
from config.log_levels import Loggers
from config.topic_config import inherited_value
from config.values import ConfigType, text_of


class ConfigSource(enum.IntEnum):
    """The codes with which DescribeConfigs says where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(Struct, frozen=True, gc=False):
    """One of the configs that can give the value; `value` is None for secrets."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(Struct, frozen=True, gc=False):
    """One row of the answer; the handler leaves out `synonyms` and `documentation` that nobody asked for."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str


def describe_broker(config: BrokerConfig, names: Sequence[str] | None = None) -> list[DescribedConfig]:
    """Every config of this broker, or those of `names` (none given, or an empty list: all)."""
    rows = []
    for name in _chosen(config.known_names(), names):
        definition = broker_definition(name)
        sensitive = definition is None or definition.sensitive
        synonyms = _broker_chain(config, name, sensitive)
        rows.append(
            DescribedConfig(
                name=name,
                value=None if sensitive else config.shown(name),
                source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                read_only=not _is_dynamic(name),
                sensitive=sensitive,
                type=ConfigType.UNKNOWN if definition is None else definition.type,
                synonyms=synonyms,
                documentation=_documentation(name, definition),
            )
        )
    return rows


def describe_cluster_default(
    config: BrokerConfig, names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """The dynamic configs for all brokers: those of the resource BROKER with an empty name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    rows = []
    for name in _chosen(sorted(config.dynamic_default), names):
        definition = broker_definition(name)
        sensitive = definition is None or definition.sensitive
        value = None if sensitive else config.dynamic_default[name]
        rows.append(
            DescribedConfig(
                name=name,
                value=value,
                source=source,
                read_only=not _is_dynamic(name),
                sensitive=sensitive,
                type=ConfigType.UNKNOWN if definition is None else definition.type,
                synonyms=(ConfigSynonym(name, value, source),),
                documentation=_documentation(name, definition),
            )
        )
    return rows


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Every public config of a topic with these settings of its own, and the internal ones among them."""
    rows = []
    hooks = [name for name in overrides if name in TOPIC and TOPIC[name].internal]
    for name in _chosen(sorted([*_public(TOPIC), *hooks]), names):
        definition = TOPIC[name]
        chain = _broker_chain(config, definition.synonyms[0], False) if definition.synonyms else ()
        if name in overrides:
            value = text_of(definition.parse(overrides[name]), definition.type)
            chain = (ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC), *chain)
        else:
            value = text_of(inherited_value(config, name), definition.type)
        rows.append(_row(definition, value, chain))
    return rows


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """All configs of a group that are shown to clients; `overrides` are those that are set for the group
    itself."""
    rows = []
    for name in _chosen(_public(GROUP), names):
        definition = GROUP[name]
        if definition.synonyms:
            chain = _broker_chain(config, definition.synonyms[0], False)
            value = text_of(config.value(definition.synonyms[0]), definition.type)
        else:
            value = text_of(definition.default, definition.type)
            chain = (ConfigSynonym(name, value, ConfigSource.DEFAULT),)
        if name in overrides:
            value = text_of(definition.parse(overrides[name]), definition.type)
            chain = (ConfigSynonym(name, value, ConfigSource.GROUP), *chain)
        rows.append(_row(definition, value, chain))
    return rows


def describe_client_metrics(
    overrides: Mapping[str, str], names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """All configs of a subscription to client metrics."""
    rows = []
    for name in _chosen(_public(CLIENT_METRICS), names):
        definition = CLIENT_METRICS[name]
        chain: tuple[ConfigSynonym, ...] = ()
        value = text_of(definition.default, definition.type)
        if name in overrides:
            value = text_of(definition.parse(overrides[name]), definition.type)
            chain = (ConfigSynonym(name, value, ConfigSource.CLIENT_METRICS),)
        rows.append(_row(definition, value, chain))
    return rows


def describe_loggers(loggers: Loggers, names: Sequence[str] | None = None) -> list[DescribedConfig]:
    """The level of each logger of this process."""
    levels = loggers.levels()
    return [
        DescribedConfig(
            name=name,
            value=levels[name],
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            read_only=False,
            sensitive=False,
            type=ConfigType.UNKNOWN,
            synonyms=(),
            documentation="",
        )
        for name in _chosen(sorted(levels), names)
    ]


def _row(definition: Definition, value: str | None, chain: tuple[ConfigSynonym, ...]) -> DescribedConfig:
    return DescribedConfig(
        name=definition.name,
        value=value,
        source=chain[0].source if chain else ConfigSource.DEFAULT,
        read_only=False,
        sensitive=definition.sensitive,
        type=definition.type,
        synonyms=chain,
        documentation=documentation(definition),
    )


def _documentation(name: str, definition: Definition | None) -> str:
    """The documentation of a config. As in Kafka, only configs that can stand in a file have one."""
    if definition is None or definition.dynamic_only or definition.name != name:
        return ""
    return documentation(definition)


def _public(definitions: Mapping[str, Definition]) -> list[str]:
    return sorted(name for name, definition in definitions.items() if not definition.internal)


def _chosen(all_names: list[str], names: Sequence[str] | None) -> list[str]:
    if not names:
        return all_names
    chosen = set(names)
    return [name for name in all_names if name in chosen]


def _is_dynamic(name: str) -> bool:
    definition = BROKER.get(name)
    return definition is not None and definition.update_mode is not READ_ONLY


def _broker_chain(config: BrokerConfig, name: str, sensitive: bool) -> tuple[ConfigSynonym, ...]:
    names = broker_synonyms(name)
    chain: list[ConfigSynonym] = []

    def add(synonym: str, text: str | None, source: ConfigSource) -> None:
        if text is not None:
            chain.append(ConfigSynonym(synonym, None if sensitive else text, source))

    for synonym in names:
        add(synonym, config.dynamic_broker.get(synonym), ConfigSource.DYNAMIC_BROKER)
    for synonym in names:
        add(synonym, config.dynamic_default.get(synonym), ConfigSource.DYNAMIC_DEFAULT_BROKER)
    for synonym in names:
        if synonym in config.static:
            add(synonym, config.static[synonym].text, ConfigSource.STATIC_BROKER)
    for synonym in names:
        if synonym in BROKER and not BROKER[synonym].dynamic_only:
            row = BROKER[synonym]
            add(synonym, text_of(row.default, row.type), ConfigSource.DEFAULT)
    while chain and chain[0].name != name:
        chain.pop(0)
    return tuple(chain)
