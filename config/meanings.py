"""What one key of a file means here: for `barnabas config check`, and for the warnings of a start.

    a config of Kafka's or ours       what `effects` says of it
    listener.name.<listener>.<key>    the same, if Kafka reads the key for one listener, or for one SASL
                                      mechanism of it, and such a listener is there
    a key that a plug-in reads        what `effects` says of it, and who reads it (`definitions/plugins`)
    anything else                     nobody reads it; but Kafka hands all keys of a file to each plug-in that
                                      the file names, so if it names one that does not come with Kafka the key
                                      may be for that one. Policies are given all keys here too

The other keys count, because they name listeners, plug-ins and the prefixes of what is handed to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from config.catalogue import BROKER, is_listener_scoped, plugin_config
from config.definition import CLASS, Definition, PluginConfig
from config.effects import REASONS_IGNORED, Effect, effect_of
from config.setting import Setting, one_line


class Meaning(Struct, frozen=True, gc=False):
    """effect: None if neither Kafka nor one of its own plug-ins reads the key. note: more about it, or empty.
    is_secret: the value may be one and is not shown."""

    effect: Effect | None
    note: str = ""
    is_secret: bool = False


Settings = Mapping[str, Setting]

POLICIES: Final = ("create.topic.policy.class.name", "alter.config.policy.class.name")

_PLUGINS_OF_OTHER_TYPES: Final = (
    "authorizer.class.name",
    "group.consumer.assignors",
    "group.share.assignors",
    "group.share.persister.class.name",
    "kafka.metrics.reporters",
    "metric.reporters",
    "remote.log.metadata.manager.class.name",
    "remote.log.storage.manager.class.name",
    "security.providers",
)
"""The configs that name classes although their type is not CLASS."""

_COMES_WITH_KAFKA: Final = ("org.apache.kafka.", "kafka.")

_PREFIXES: Final = (
    ("remote.log.metadata.manager.impl.prefix", "rlmm.config."),
    ("remote.log.storage.manager.impl.prefix", "rsm.config."),
)

_PER_LISTENER: Final = frozenset(
    {
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "max.connections",
        "num.network.threads",
        "principal.builder.class",
    }
)
"""The configs that Kafka reads with a listener's prefix, beside those of TLS and SASL."""

_OF_ALL_LISTENERS: Final = frozenset(
    {"sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol"}
)

_PER_MECHANISM: Final = frozenset(
    {
        "connections.max.reauth.ms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.server.callback.handler.class",
    }
)
"""The configs that Kafka reads with a mechanism's prefix, beside those of OAuth."""


def meaning_of(name: str, settings: Settings) -> Meaning:
    """The meaning of the key `name` in a file with these settings."""
    if name in BROKER:
        return _as_defined(BROKER[name])
    if is_listener_scoped(name):
        return _of_listener(name, settings)
    for prefix_config, default in _PREFIXES:
        prefix = _text(settings, prefix_config, default)
        if prefix and name.startswith(prefix):
            row = plugin_config(default + name.removeprefix(prefix))
            return _unknown_meaning(name, settings) if row is None else _as_defined(row)
        if name.startswith(default):
            return Meaning(None, f"{prefix_config} says that such keys begin with {prefix}", is_secret=True)
    row = plugin_config(name)
    return _unknown_meaning(name, settings) if row is None else _as_defined(row)


def _as_defined(row: Definition | PluginConfig) -> Meaning:
    reason = REASONS_IGNORED.get(row.name, "")
    if isinstance(row, Definition):
        return Meaning(effect_of(row), reason, row.sensitive)
    reader = f"read by {row.reader}"
    return Meaning(effect_of(row), f"{reader}; {reason}" if reason else reader, row.may_be_secret)


def _of_listener(name: str, settings: Settings) -> Meaning:
    _, _, listener, key = name.split(".", 3)
    mechanism, _, inner = key.partition(".")
    row: Definition | PluginConfig | None = BROKER.get(key) or plugin_config(key)
    if row is not None:
        is_read = _is_read_per_listener(row.name)
        whom = "one listener"
    else:
        row = BROKER.get(inner) or plugin_config(inner)
        is_read = row is not None and _is_read_per_mechanism(row.name)
        whom = "one mechanism of a listener"
    if row is None:
        return _unknown_meaning(name, settings)
    if not is_read:
        return Meaning(Effect.IGNORED, f"Kafka does not read {row.name} for {whom}", is_secret=True)
    known = _listeners(settings)
    if listener not in known and listener.lower() in known:
        return Meaning(
            Effect.IGNORED, f"the listener's name is to be written {listener.lower()}", is_secret=True
        )
    if listener not in known:
        return Meaning(Effect.IGNORED, f"there is no listener {listener.upper()}", is_secret=True)
    if inner == row.name and mechanism != mechanism.lower():
        return Meaning(Effect.IGNORED, f"the mechanism is to be written {mechanism.lower()}", is_secret=True)
    return _as_defined(row)


def _is_read_per_listener(config: str) -> bool:
    return config in _PER_LISTENER or (
        config.startswith(("ssl.", "sasl.")) and config not in _OF_ALL_LISTENERS
    )


def _is_read_per_mechanism(config: str) -> bool:
    is_class = config.endswith(".class")
    return config in _PER_MECHANISM or (config.startswith("sasl.oauthbearer.") and not is_class)


def _listeners(settings: Settings) -> set[str]:
    """The listener names that can follow `listener.name.` in a key, in small letters."""
    endpoints = [
        *_items(settings, "listeners", "PLAINTEXT://:9092"),
        *_items(settings, "advertised.listeners", ""),
    ]
    names = [endpoint.partition("://")[0] for endpoint in endpoints]
    return {name.lower() for name in (*names, *_items(settings, "controller.listener.names", ""))}


def _unknown_meaning(name: str, settings: Settings) -> Meaning:
    """The meaning of a key that nobody reads, with a note about the keys that may be meant by it."""
    notes = []
    behind_prefix = next((prefix for _, prefix in _PREFIXES if _names_plugin_config(prefix + name)), None)
    mechanism, _, inner = name.partition(".")
    if behind_prefix is not None:
        notes.append(f"Kafka reads it behind {behind_prefix} only")
    elif inner in BROKER and _is_read_per_mechanism(inner):
        notes.append(f"Kafka reads it behind listener.name.<listener>.{mechanism.lower()}. only")
    handed = [config for config in POLICIES if _text(settings, config, "")]
    if handed:
        notes.append(f"handed to the class that {' and '.join(handed)} names")
    notes += [f"perhaps for {plugin}, which is not loaded here" for plugin in foreign_plugins(settings)]
    return Meaning(None, "; ".join(notes), is_secret=True)


def _names_plugin_config(name: str) -> bool:
    """Whether a definition names this very key, and not merely a prefix of such keys."""
    row = plugin_config(name)
    return row is not None and row.name not in (prefix for _, prefix in _PREFIXES)


def foreign_plugins(settings: Settings) -> list[str]:
    """The Java classes that do not come with Kafka and that a file wants loaded, each with the config."""
    configs = [name for name, row in BROKER.items() if row.type is CLASS and name not in POLICIES]
    return [
        f"{one_line(item)} ({name})"
        for name in sorted({*configs, *_PLUGINS_OF_OTHER_TYPES})
        for item in _items(settings, name, "")
        if "." in item and not item.startswith(_COMES_WITH_KAFKA)
    ]


def _text(settings: Settings, name: str, default: str) -> str:
    return settings[name].text.strip() if name in settings else default


def _items(settings: Settings, name: str, default: str) -> list[str]:
    return [item for part in _text(settings, name, default).split(",") if (item := part.strip())]
