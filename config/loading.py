"""From the places where settings stand to one checked `BrokerConfig`.

    settings = layered(defaults, file settings, environment, overrides)     later layers win
    loaded = load(settings)                                                 raises ConfigError: one line
    loaded.config, loaded.warnings                                          warnings: one line each

A key that nobody defined is only a warning, as in Kafka: it may belong to a plug-in, or to a newer release.
A key that is known but has no effect here is named in a warning too, so that no promise is silent; so is one
that is set while the broker runs (`dynamic_warnings`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from config import limits
from config.authentication import inter_broker_login
from config.broker_config import BrokerConfig
from config.catalogue import BROKER, PLUGINS, broker_definition
from config.checks import check_relations
from config.definition import Definition
from config.effects import Effect
from config.errors import ConfigError, InvalidValue, some_of
from config.meanings import POLICIES, meaning_of
from config.properties import read_properties
from config.setting import Setting, Source, one_line
from config.values import HIDDEN
from config.yaml_file import read_yaml

_ONE_NODE: Final = (
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"),
    ("controller.listener.names", "CONTROLLER"),
    ("controller.quorum.bootstrap.servers", "127.0.0.1:9093"),
    ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
)


_LOGIN_STAYS: Final = (
    "this broker goes on logging in to others by the name and password in its file; set sasl.jaas.config "
    "there and start it again"
)


class Loaded(Struct, frozen=True, gc=False):
    """A checked config, and warnings for the operator."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def one_node_defaults(data_directory: str) -> dict[str, str]:
    """The settings of a start without a file: one node on 127.0.0.1, as Kafka's own sample file has it."""
    return dict(_ONE_NODE) | {"log.dirs": data_directory}


def default_settings(defaults: Mapping[str, str]) -> list[Setting]:
    """The settings of `one_node_defaults`, as the lowest layer."""
    return [Setting(name, text, Source.DEFAULTS, "one-node default") for name, text in defaults.items()]


def file_settings(path: str, data: bytes) -> list[Setting]:
    """The settings in the content of a file: YAML if its name ends with .yaml or .yml, else properties."""
    if len(data) > limits.CONFIG_FILE_BYTES:
        raise ConfigError(f"{path}: {len(data)} bytes are too many for a config file")
    if path.endswith((".yaml", ".yml")):
        try:
            return read_yaml(data.decode("utf-8-sig"), path)
        except UnicodeDecodeError as problem:
            raise ConfigError(f"{path}: not UTF-8 at byte {problem.start}") from None
    return read_properties(data.decode("iso-8859-1"), path)


def layered(*layers: Iterable[Setting]) -> dict[str, Setting]:
    """One setting a name: of a later layer rather than an earlier, of a later line rather than an earlier."""
    settings: dict[str, Setting] = {}
    for layer in layers:
        for setting in layer:
            settings[setting.name] = setting
    return settings


def refusal(setting: Setting) -> str | None:
    """Why the setting cannot be used: place, key, value and what is allowed, in one line."""
    definition = broker_definition(setting.name)
    if definition is None:
        return None
    try:
        definition.parse(setting.text)
    except InvalidValue as invalid:
        shown = HIDDEN if definition.sensitive else one_line(setting.text)
        reason = one_line(str(invalid), 400)
        return f"{setting.place}: {setting.name}={shown}: {reason} (allowed: {definition.allowed()})"
    return None


def load(settings: Mapping[str, Setting]) -> Loaded:
    """The config that these settings make; raises `ConfigError` with one line for the first that is wrong."""
    completed = _with_controller_listener(_with_both_ids(settings))
    for setting in completed.values():
        problem = refusal(setting)
        if problem is not None:
            raise ConfigError(problem)
    for name, definition in BROKER.items():
        if definition.required and name not in completed:
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
    config = BrokerConfig(completed)
    try:
        check_relations(config)
    except ConfigError as problem:
        raise ConfigError(f"{problem}{_places(str(problem), completed)}") from None
    return Loaded(config, tuple(_warnings(settings, settings)))


def dynamic_warnings(before: BrokerConfig, now: BrokerConfig) -> list[str]:
    """Warnings about the dynamic settings that have come since `before` and have no effect, one line each, as
    a start has them for those of the file. What is wrong with a value is told in `BrokerConfig.refused`."""
    settings = dict(now.static)
    added: dict[str, Setting] = {}
    for old, new, place in (
        (before.dynamic_default, now.dynamic_default, "set for all brokers"),
        (before.dynamic_broker, now.dynamic_broker, "set for this broker"),
    ):
        for name, text in new.items():
            setting = settings[name] = Setting(name, text, Source.DYNAMIC, place)
            if name not in old and refusal(setting) is None:
                added[name] = setting
    return _warnings(added, settings) + _login_warnings(before, now)


def _login_warnings(before: BrokerConfig, now: BrokerConfig) -> list[str]:
    """Whether there has come another name or password, by which this broker would log in to others."""
    logins = [inter_broker_login(each) for each in (now.with_dynamic({}, {}), before, now) if each.is_broker]
    if len(set(logins[-2:])) < 2 or logins[-1] == logins[0]:
        return []
    return [_LOGIN_STAYS]


def _places(sentence: str, settings: Mapping[str, Setting]) -> str:
    """The places of the settings that an error message of Kafka names, for settings that are not defaults."""
    words = re.findall(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)*", sentence)
    named = [settings[name] for name in dict.fromkeys(words) if name in settings]
    places = [f"{each.name} at {each.place}" for each in named if each.source is not Source.DEFAULTS]
    return f" ({', '.join(places)})" if places else ""


def _with_controller_listener(settings: dict[str, Setting]) -> dict[str, Setting]:
    """Who moves the listeners of the one-node defaults need not name the controller's: it gets any port.

    Only while controller.listener.names is itself a default; a file says all, or is refused.
    """
    names, given = settings.get("controller.listener.names"), settings.get("listeners")
    if names is None or given is None or names.source is not Source.DEFAULTS:
        return settings
    if given.source is Source.DEFAULTS or f"{names.text}://" in given.text.upper():
        return settings
    text = f"{given.text},{names.text}://127.0.0.1:0"
    return settings | {"listeners": Setting("listeners", text, given.source, given.place)}


def _with_both_ids(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Sets node.id from broker.id or the other way round where one of them is missing, as Kafka does."""
    completed = dict(settings)
    for given, missing in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if given in completed and missing not in completed:
            setting = completed[given]
            completed[missing] = Setting(missing, setting.text, setting.source, setting.place)
    return completed


def _warnings(wanted: Mapping[str, Setting], settings: Mapping[str, Setting]) -> list[str]:
    """Warnings about those of the settings that are wanted."""
    unknown: list[str] = []
    from_file: list[str] = []
    by_effect: dict[Effect, list[str]] = {}
    for setting in wanted.values():
        definition = broker_definition(setting.name)
        if setting.source is Source.DEFAULTS:
            continue
        effect = meaning_of(setting.name, settings).effect
        if effect is None:
            unknown.append(f"{one_line(setting.name)} ({setting.place})")
        elif setting.source is Source.DYNAMIC and setting.name in PLUGINS and effect is Effect.HONOURED:
            from_file.append(one_line(setting.name))
        elif definition is None or _differs(definition, setting):
            by_effect.setdefault(effect, []).append(one_line(setting.name))
    warnings = []
    if unknown:
        has_policies = any(settings[name].text for name in POLICIES if name in settings)
        readers = "read by policies if at all" if has_policies else "without effect"
        warnings.append(f"unknown configs, {readers}: {some_of(unknown, ', ')}")
    without_effect = [
        f"{effect.value}: {some_of(sorted(by_effect[effect]), ', ')}"
        for effect in (Effect.NOT_USED_YET, Effect.IGNORED)
        if effect in by_effect
    ]
    if from_file:
        without_effect.append(f"taken from the file, at the start: {some_of(sorted(from_file), ', ')}")
    if without_effect:
        warnings.append(f"configs that are set but have no effect here; {'; '.join(without_effect)}")
    return warnings


def _differs(definition: Definition, setting: Setting) -> bool:
    """Whether the setting differs from the config's default; setting a config to its default needs no
    warning."""
    return setting.name != definition.name or definition.parse(setting.text) != definition.default
