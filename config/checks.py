"""Relations between broker configs, checked once at the start as Kafka checks them, in its words.

Each function looks at one subject and raises `ConfigError` for the first relation that does not hold. The
last one is ours: a file that asks for encryption, authentication or an authorizer that the broker cannot give
is refused, because an open broker is not what that file means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from config.authentication import check_sasl
from config.broker_config import BrokerConfig
from config.errors import ConfigError, InvalidValue, UnmetRequirement
from config.setting import one_line
from config.tls_settings import check_tls
from config.values import ConfigType, parse_value, split_map

_MIB: Final = 1024 * 1024

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's authorizer of clusters in KRaft mode, whose decisions are made here too."""


def check_relations(config: BrokerConfig) -> None:
    """Checks the relations between configs. Raises ConfigError for the first that does not hold."""
    check_security(config)
    check_kafkas_relations(config)


def check_kafkas_relations(config: BrokerConfig) -> None:
    """The relations that Kafka checks too, `UnmetRequirement` where it uses `require`."""
    _check_identity(config)
    _check_roles(config)
    _check_listeners(config)
    _check_log(config)
    _check_replication(config)
    _check_network(config)
    for kind in ("consumer", "share", "streams"):
        _check_group_bounds(config, kind)
    _check_groups(config)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise UnmetRequirement(sentence)


def _expect(condition: bool, sentence: str) -> None:
    if not condition:
        raise ConfigError(sentence)


def _check_identity(config: BrokerConfig) -> None:
    _expect(
        not config.is_set("broker.id") or config.integer("broker.id") == config.node_id,
        "You must set `node.id` to the same value as `broker.id`.",
    )


def check_security(config: BrokerConfig) -> None:
    """Whether what the configs say of keys, logins and access control can be done. Raises ConfigError."""
    # A node speaks to its controllers by the first of these names, which a broker alone does not listen on.
    controllers = config.controller_listener_names[:1]
    connecting = [*controllers, config.inter_broker_listener_name] if config.is_broker else controllers
    check_tls(config, [endpoint.listener for endpoint in config.listeners], connecting)
    check_sasl(config)
    authorizer = config.text("authorizer.class.name")
    _expect(
        authorizer in ("", STANDARD_AUTHORIZER),
        f"authorizer.class.name: {one_line(authorizer)} is not served here, because there is no JVM to load "
        f"it; name {STANDARD_AUTHORIZER}, or leave the config out and everything is allowed to everyone",
    )
    _ = config.super_users


def _check_listeners(config: BrokerConfig) -> None:
    known = config.listener_protocols
    if config.is_set("inter.broker.listener.name"):
        inter_broker = config.inter_broker_listener_name
        _require(
            not config.is_set("security.inter.broker.protocol"),
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        )
        _expect(
            bool(config.text("inter.broker.listener.name")),
            "inter.broker.listener.name: The provided listener name is null or empty string",
        )
        _require(
            inter_broker in known,
            f"Listener with name {inter_broker} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        )
    names = [endpoint.listener for endpoint in config.listeners]
    for name in config.items("early.start.listeners"):
        _require(
            name.upper() in names or name.upper() in config.controller_listener_names,
            f"early.start.listeners contains listener {name.upper()}, but this is not contained in listeners "
            "or controller.listener.names",
        )
    if config.is_broker:
        _check_broker_listeners(config, names)
    _require(
        all(
            endpoint.host != "0.0.0.0"
            for endpoint in (*config.advertised_listeners, *config.advertised_controller_listeners)
        ),
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
    )


def _check_broker_listeners(config: BrokerConfig, names: Sequence[str]) -> None:
    """names: those of all listeners."""
    told = config.advertised_listeners
    _require(
        bool(told),
        "There must be at least one broker advertised listener."
        + (" Perhaps all listeners appear in controller.listener.names?" if config.is_controller else ""),
    )
    options = [endpoint.listener for endpoint in told]
    _require(
        config.inter_broker_listener_name in options,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
        f"options based on currently configured listeners are {','.join(options)}",
    )
    for name in options:
        _require(
            name in names,
            "advertised.listeners listener names must be equal to or a subset of the ones defined in "
            f"listeners. Found {','.join(options)}. The valid options based on the current configuration are "
            f"{','.join(names)}",
        )


def _check_roles(config: BrokerConfig) -> None:
    voters = [voter.node_id for voter in config.quorum_voters]
    _require(
        bool(voters) or bool(config.items("controller.quorum.bootstrap.servers")),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of "
        "bootstrap controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    names = [endpoint.listener for endpoint in config.listeners]
    controller_names = config.controller_listener_names
    shown = f"controller.quorum.voters=Set({', '.join(map(str, voters))})"
    if not config.is_controller:
        _require(
            config.node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be "
            f"included in the set of voters {shown}",
        )
        _require(
            not any(name in names for name in controller_names),
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration "
            "when running KRaft with just the broker role",
        )
        _check_broker_alone(config)
        return
    if not config.is_broker:
        _require(
            not config.is_set("inter.broker.listener.name")
            or config.inter_broker_listener_name not in controller_names,
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name "
            "configuration value when process.roles=controller'",
        )
    _require(
        not voters or config.node_id in voters,
        f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in "
        f"the set of voters {shown}",
    )
    _require(
        any(name in names for name in controller_names),
        "controller.listener.names must contain at least one value appearing in the 'listeners' "
        "configuration when running the KRaft controller role",
    )
    _require(
        all(name in names for name in controller_names),
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when "
        "running the KRaft controller role",
    )
    if not config.is_broker:
        _require(
            all(name in controller_names for name in names),
            "The listeners config must only contain KRaft controller listeners from "
            "controller.listener.names when process.roles=controller",
        )


def _check_broker_alone(config: BrokerConfig) -> None:
    known = config.listener_protocols
    for name in config.controller_listener_names:
        _expect(
            name in known,
            f"Controller listener with name {name} defined in controller.listener.names not found in "
            "listener.security.protocol.map  (an explicit security mapping for each controller listener is "
            "required if listener.security.protocol.map is non-empty, or if there are security protocols "
            "other than PLAINTEXT in use)",
        )
    _require(
        not config.flag("controller.quorum.auto.join.enable"),
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' "
        "role.",
    )


def _check_log(config: BrokerConfig) -> None:
    _require(config.roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(config.roll_jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        config.retention_ms == -1 or config.retention_ms >= 1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        bool(config.log_directories), "At least one log directory must be defined via log.dirs or log.dir."
    )
    for path in (*config.log_directories, config.metadata_log_directory):
        _expect(
            "\0" not in path, f"Nul character not allowed in a path of log.dirs or metadata.log.dir: {path!r}"
        )
    cleaners = config.integer("log.cleaner.threads")
    _require(
        cleaners < 1 or config.integer("log.cleaner.dedupe.buffer.size") // cleaners > _MIB,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    if config.is_broker:
        _check_cordoned(config)


def _check_cordoned(config: BrokerConfig) -> None:
    cordoned = config.items("cordoned.log.dirs")
    if "*" in cordoned:
        _require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
    else:
        strangers = [path for path in cordoned if path not in config.log_directories]
        _require(
            not strangers,
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(strangers)}",
        )


def _check_replication(config: BrokerConfig) -> None:
    wait_ms = config.integer("replica.fetch.wait.max.ms")
    _require(
        wait_ms <= config.integer("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent "
        "unnecessary socket timeouts",
    )
    _require(
        wait_ms <= config.integer("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
        "frequent changes in ISR",
    )


def _check_network(config: BrokerConfig) -> None:
    queued = config.integer("queued.max.request.bytes")
    _require(
        queued <= 0 or queued >= config.integer("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = max_connections_per_ip(config)
    _require(
        config.integer("max.connections.per.ip") > 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    delay_ms = config.integer("connection.failed.authentication.delay.ms")
    idle_ms = config.integer("connections.max.idle.ms")
    _require(
        delay_ms == 0 or idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out",
    )
    _ = config.admin_listener


def max_connections_per_ip(config: BrokerConfig) -> dict[str, int]:
    """max.connections.per.ip.overrides as address or host name → limit; raises `ConfigError`. A limit below 1
    lets nobody in."""
    name = "max.connections.per.ip.overrides"
    limits: dict[str, int] = {}
    for host, limit in split_map(name, config.text(name), "HOST:LIMIT"):
        if not host or any(character in host for character in " \t/"):
            raise ConfigError(f"{name} contains invalid addresses : {host}")
        limits[host.strip("[]")] = _limit(name, limit)
    return limits


def _limit(name: str, text: str) -> int:
    try:
        limit = parse_value(name, text, ConfigType.INT)
    except InvalidValue:
        limit = None
    if not isinstance(limit, int):
        raise ConfigError(f"Error parsing configuration property '{name}': {text} is not a number")
    return limit


def _at_most(config: BrokerConfig, lower: str, upper: str, sentence: str) -> None:
    if config.integer(lower) > config.integer(upper):
        raise ConfigError(sentence)


def _check_group_bounds(config: BrokerConfig, kind: str) -> None:
    """Checks that each setting of a kind of group lies between its `min` and `max` configs."""
    group = f"group.{kind}"
    for setting in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        least, most, chosen = f"{group}.min.{setting}", f"{group}.max.{setting}", f"{group}.{setting}"
        _at_most(config, least, most, f"{most} must be greater than or equal to {least}")
        _at_most(config, least, chosen, f"{chosen} must be greater than or equal to {least}")
        _at_most(config, chosen, most, f"{chosen} must be less than or equal to {most}")
    heartbeat, session = f"{group}.heartbeat.interval.ms", f"{group}.session.timeout.ms"
    _expect(config.integer(heartbeat) < config.integer(session), f"{heartbeat} must be less than {session}")


def _check_groups(config: BrokerConfig) -> None:
    for setting in ("delivery.count.limit", "record.lock.duration.ms", "partition.max.record.locks"):
        least, most = f"group.share.min.{setting}", f"group.share.max.{setting}"
        chosen = f"group.share.{setting}"
        _at_most(config, chosen, most, f"{most} must be greater than or equal to {chosen}")
        _at_most(config, least, chosen, f"{chosen} must be greater than or equal to {least}")
    sessions, size = "group.share.max.share.sessions", "group.share.max.size"
    _at_most(config, size, sessions, f"{sessions} must be greater than or equal to {size}")
    standby, most_standby = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    _at_most(config, standby, most_standby, f"{standby} must be less than or equal to {most_standby}")
    _expect(
        "classic" in config.items("group.coordinator.rebalance.protocols"),
        "Disabling the 'classic' protocol is not supported.",
    )
    _ = config.consumer_group_assignors
    for topic in ("offsets.topic", "share.coordinator.state.topic"):
        codec = config.integer(f"{topic}.compression.codec")
        _expect(0 <= codec <= 4, f"Unknown compression type id: {codec} ({topic}.compression.codec)")
