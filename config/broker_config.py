"""What the broker was told: typed access to every broker config, in force at this moment.

Five layers give a value, the strongest first: dynamic for this broker, dynamic for all brokers, the static
settings (override, environment, file), Kafka's default. A `BrokerConfig` never changes; `with_dynamic` makes
another one from the same static settings.

Reading costs a dictionary look-up. What a hot path needs is read once, when the config arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from config import listeners
from config.catalogue import AT_THE_START, BROKER, broker_definition, broker_synonyms, is_listener_scoped
from config.definition import PER_BROKER, READ_ONLY, Definition
from config.errors import ConfigError, InvalidValue
from config.listeners import Endpoint, QuorumVoter
from config.setting import Setting, one_line
from config.values import HIDDEN, Value, text_of

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})

CONSUMER_ASSIGNORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "uniform": "uniform",
        "range": "range",
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    }
)
"""The assignors of consumer groups, by all that group.consumer.assignors may call them: older files name the
classes of Kafka's own ones. Others are classes that Kafka would load."""

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


class BrokerConfig:
    """The values of the broker configs that are in force. `config.loading.load` makes it after all checks."""

    __slots__ = ("_values", "dynamic_broker", "dynamic_default", "refused", "static")

    def __init__(
        self,
        static: Mapping[str, Setting],
        dynamic_broker: Mapping[str, str] = _EMPTY,
        dynamic_default: Mapping[str, str] = _EMPTY,
    ) -> None:
        """Raises InvalidValue for a static setting that is not valid; dynamic settings that are not valid are
        left out."""
        self.static: Final = MappingProxyType(dict(static))
        self.dynamic_broker: Final = MappingProxyType(dict(dynamic_broker))
        self.dynamic_default: Final = MappingProxyType(dict(dynamic_default))
        values: dict[str, Value] = {}
        for name, setting in static.items():
            if name in BROKER:
                values[name] = BROKER[name].parse(setting.text)
        refused = _apply(values, dynamic_default, for_one_broker=False)
        refused += _apply(values, dynamic_broker, for_one_broker=True)
        self._values: Final = values
        self.refused: Final = tuple(refused)
        """Stored dynamic settings that could not be used, each with the reason; the layer below counts."""

    def with_dynamic(self, per_broker: Mapping[str, str], cluster: Mapping[str, str]) -> BrokerConfig:
        """The same static settings under these dynamic ones (for this broker, and for all brokers).

        What cannot be set dynamically, or is not valid, is left out and named in `refused`.
        """
        return BrokerConfig(self.static, per_broker, cluster)

    # Typed access

    def value(self, name: str) -> Value:
        """The value in force. Raises KeyError for a name that is no broker config."""
        if name in self._values:
            return self._values[name]
        return BROKER[name].default

    def integer(self, name: str) -> int:
        """The value of a config of type INT, SHORT or LONG that is not null."""
        value = self.value(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise TypeError(f"{name} is not a whole number")

    def optional_integer(self, name: str) -> int | None:
        return None if self.value(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        """The value of a config of type DOUBLE."""
        value = self.value(name)
        if isinstance(value, float):
            return value
        raise TypeError(f"{name} is not a double")

    def flag(self, name: str) -> bool:
        """The value of a config of type BOOLEAN."""
        value = self.value(name)
        if isinstance(value, bool):
            return value
        raise TypeError(f"{name} is not a boolean")

    def text(self, name: str) -> str:
        """The value of a config of type STRING, CLASS or PASSWORD that is not null."""
        value = self.value(name)
        if isinstance(value, str):
            return value
        raise TypeError(f"{name} is not a text")

    def optional_text(self, name: str) -> str | None:
        return None if self.value(name) is None else self.text(name)

    def items(self, name: str) -> tuple[str, ...]:
        """The value of a config of type LIST; null counts as an empty list."""
        value = self.value(name)
        if value is None:
            return ()
        if isinstance(value, tuple):
            return value
        raise TypeError(f"{name} is not a list")

    def for_listener(self, listener: str, name: str) -> Value:
        """The value for one listener: that of `listener.name.<listener>.<name>` where it is set, else the
        broker's. Raises `InvalidValue` for a static text that is not valid."""
        scoped = f"listener.name.{listener.lower()}.{name}"
        return self._scoped(scoped, name) if self._has(scoped) else self.value(name)

    def for_mechanism(self, listener: str, mechanism: str, name: str) -> Value:
        """The value for one SASL mechanism of a listener: that of
        `listener.name.<listener>.<mechanism>.<name>` where it is set, else the listener's. Raises
        `InvalidValue` for a static text that is not valid."""
        scoped = f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}"
        return self._scoped(scoped, name) if self._has(scoped) else self.for_listener(listener, name)

    def _has(self, scoped: str) -> bool:
        return scoped in self._values or scoped in self.static

    def _scoped(self, scoped: str, name: str) -> Value:
        if scoped in self._values:
            return self._values[scoped]
        return BROKER[name].parse(self.static[scoped].text)

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The unparsed static texts of all keys with this prefix, which is taken off (for plug-ins)."""
        return {
            name.removeprefix(prefix): setting.text
            for name, setting in self.static.items()
            if name.startswith(prefix)
        }

    def is_set(self, name: str) -> bool:
        """Whether the configuration file, the environment or an override sets a config of this very name."""
        return name in self.static

    def known_names(self) -> list[str]:
        """The names that DescribeConfigs shows: the public configs, and everything else that was set."""
        public = {name for name, row in BROKER.items() if not row.internal and not row.dynamic_only}
        return sorted(public.union(self.static, self.dynamic_default, self.dynamic_broker))

    def shown(self, name: str) -> str | None:
        """The value in force as text, None for null. Secrets, and keys without a definition, are
        `[hidden]`."""
        definition = broker_definition(name)
        if definition is None or definition.sensitive:
            return HIDDEN
        if name in BROKER:
            return text_of(self.value(name), definition.type)
        for layer in (self.dynamic_broker, self.dynamic_default):
            if name in layer:
                return layer[name]
        return self.static[name].text if name in self.static else None

    def explain(self, name: str) -> str:
        """One line with the value in force and where it comes from. Values of secrets are hidden."""
        shown = self.shown(name)
        shown = "(none)" if shown is None else one_line(shown)
        for layer, origin in (
            (self.dynamic_broker, "dynamic for this broker"),
            (self.dynamic_default, "dynamic for all brokers"),
        ):
            if name in layer:
                return f"{name} = {shown} ({origin})"
        if name in self.static:
            return f"{name} = {shown} ({self.static[name].place})"
        return f"{name} = {shown} (default)"

    # Values that depend on several configs

    @property
    def node_id(self) -> int:
        return self.integer("node.id")

    @property
    def is_broker(self) -> bool:
        return "broker" in self.items("process.roles")

    @property
    def is_controller(self) -> bool:
        return "controller" in self.items("process.roles")

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories of log.dirs, or else that of log.dir."""
        return self.items("log.dirs") or self.items("log.dir")

    @property
    def cordoned_log_directories(self) -> tuple[str, ...]:
        """The directories of cordoned.log.dirs, as log.dirs names them; `*` stands for all."""
        cordoned = self.items("cordoned.log.dirs")
        return self.log_directories if "*" in cordoned else cordoned

    @property
    def metadata_log_directory(self) -> str:
        """The directory of `__cluster_metadata-0`: metadata.log.dir, or else the first log directory."""
        return self.optional_text("metadata.log.dir") or self.log_directories[0]

    @property
    def retention_ms(self) -> int:
        """The value of log.retention.ms, .minutes or .hours, in milliseconds; -1 means for ever."""
        value = self.optional_integer("log.retention.ms")
        if value is None:
            minutes = self.optional_integer("log.retention.minutes")
            hours = self.integer("log.retention.hours")
            value = hours * _HOUR_MS if minutes is None else minutes * _MINUTE_MS
        return max(value, -1)

    @property
    def roll_ms(self) -> int:
        """The value of log.roll.ms, or else of log.roll.hours, in milliseconds."""
        value = self.optional_integer("log.roll.ms")
        return self.integer("log.roll.hours") * _HOUR_MS if value is None else value

    @property
    def roll_jitter_ms(self) -> int:
        """The value of log.roll.jitter.ms, or else of log.roll.jitter.hours, in milliseconds."""
        value = self.optional_integer("log.roll.jitter.ms")
        return self.integer("log.roll.jitter.hours") * _HOUR_MS if value is None else value

    @property
    def flush_interval_ms(self) -> int:
        """The value of log.flush.interval.ms, or else of log.flush.scheduler.interval.ms."""
        value = self.optional_integer("log.flush.interval.ms")
        return self.integer("log.flush.scheduler.interval.ms") if value is None else value

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.items("controller.listener.names"))

    @property
    def listener_protocols(self) -> dict[str, str]:
        """The security protocol by listener name, with the protocols that are implied where no map is set."""
        protocols = listeners.parse_protocol_map(self.text("listener.security.protocol.map"))
        if self.is_set("listener.security.protocol.map"):
            return protocols
        used = [text.partition("://")[0].upper() for text in self.items("listeners")]
        secured = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
        if not any(name in secured for name in (*used, *self.controller_listener_names)):
            for name in self.controller_listener_names:
                protocols[name] = "PLAINTEXT"
        return protocols

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        """The addresses on which this process listens, those of controller listeners included."""
        name = "listeners"
        return listeners.parse_endpoints(name, self.items(name), self.listener_protocols, distinct_ports=True)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        names = self.controller_listener_names
        return tuple(endpoint for endpoint in self.listeners if endpoint.listener in names)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        names = self.controller_listener_names
        return tuple(endpoint for endpoint in self.listeners if endpoint.listener not in names)

    @property
    def advertised_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners that clients are told of, without the controller listeners. An empty host becomes
        this host's name."""
        if self.value("advertised.listeners") is None:
            return self.broker_listeners
        names = self.controller_listener_names
        return tuple(endpoint for endpoint in self._advertised() if endpoint.listener not in names)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """The addresses at which other nodes reach this controller: the advertised ones, or else those of its
        listeners. One of these that is bound to 0.0.0.0 has an empty host, which becomes this host's name."""
        names = self.controller_listener_names
        told = tuple(endpoint for endpoint in self._advertised() if endpoint.listener in names)
        told_names = [endpoint.listener for endpoint in told]
        inherited = [own for own in self.controller_listeners if own.listener not in told_names]
        return told + tuple(replace(own, host="") if own.host == "0.0.0.0" else own for own in inherited)

    def _advertised(self) -> tuple[Endpoint, ...]:
        name = "advertised.listeners"
        return listeners.parse_endpoints(
            name, self.items(name), self.listener_protocols, distinct_ports=False
        )

    @property
    def inter_broker_listener_name(self) -> str:
        name = self.optional_text("inter.broker.listener.name")
        return (name or self.text("security.inter.broker.protocol")).upper()

    @property
    def quorum_voters(self) -> tuple[QuorumVoter, ...]:
        return listeners.parse_voters(self.items("controller.quorum.voters"))

    @property
    def has_authorizer(self) -> bool:
        """Whether what clients do is authorized by access control entries."""
        return bool(self.text("authorizer.class.name"))

    @property
    def early_start_listeners(self) -> frozenset[str]:
        """The listeners that take connections before the access control entries are loaded: those that are
        named, or else the controller's."""
        if self.value("early.start.listeners") is None:
            return frozenset(self.controller_listener_names)
        return frozenset(name.upper() for name in self.items("early.start.listeners"))

    @property
    def super_users(self) -> frozenset[str]:
        """The principals of super.users, as `User:name`. Raises ConfigError for one that is no principal."""
        found = set()
        for item in self._of_authorizer("super.users").split(";"):
            principal = item.strip()
            if principal and not all(principal.partition(":")):
                raise ConfigError(
                    f"super.users: {one_line(principal)} is no principal; write TYPE:NAME, such as "
                    "User:admin, and a semicolon between two of them"
                )
            found.add(principal)
        return frozenset(found - {""})

    @property
    def allows_everyone_without_acls(self) -> bool:
        """The value of allow.everyone.if.no.acl.found: whether a resource without any entry is open to all.
        Whatever is not `true` means that it is not, as in Kafka."""
        return self._of_authorizer("allow.everyone.if.no.acl.found").strip().lower() == "true"

    def _of_authorizer(self, name: str) -> str:
        """The text of a key that the authorizer reads; empty if it is not set."""
        return self.static[name].text if name in self.static else ""

    @property
    def consumer_group_assignors(self) -> tuple[str, ...]:
        """The names of the assignors that consumer groups may use, the default first. Raises ConfigError for
        one that is not served."""
        config = "group.consumer.assignors"
        for item in self.items(config):
            if item not in CONSUMER_ASSIGNORS:
                raise ConfigError(
                    f"{config}: the assignor {one_line(item)} is not served here; name uniform or range, or "
                    "leave the config out"
                )
        return tuple(dict.fromkeys(CONSUMER_ASSIGNORS[item] for item in self.items(config)))

    @property
    def admin_listener(self) -> tuple[str, int] | None:
        """The host and port of the admin listener (/metrics and others); None when it is off."""
        return listeners.parse_host_port("barnabas.admin.listener", self.text("barnabas.admin.listener"))


def _apply(values: dict[str, Value], layer: Mapping[str, str], *, for_one_broker: bool) -> list[str]:
    """Lays dynamic settings over `values`; returns why some were left out.

    A dynamic value takes the place of its whole family: a dynamic log.retention.ms is not overruled by
    log.retention.minutes of the file.
    """
    refused = []
    for name in sorted(layer):
        definition = broker_definition(name)
        if definition is None:
            continue
        problem = _not_dynamic(name, definition, for_one_broker)
        if problem is None:
            try:
                value = definition.parse(layer[name])
            except InvalidValue as invalid:
                problem = str(invalid)
        if problem is not None:
            refused.append(problem)
            continue
        for synonym in broker_synonyms(name) if name in BROKER else (name,):
            values.pop(synonym, None)
        values[name] = value
    return refused


def _not_dynamic(name: str, definition: Definition, for_one_broker: bool) -> str | None:
    of_new_listener = definition.name == "connections.max.reauth.ms" and is_listener_scoped(name)
    if name == AT_THE_START or (definition.update_mode is READ_ONLY and not of_new_listener):
        return f"{name} cannot be changed while the broker runs"
    if not for_one_broker and definition.update_mode is PER_BROKER:
        return f"{name} can be set for one broker only, not for all"
    return None
