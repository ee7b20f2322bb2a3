"""What the configs say of SASL: the mechanisms of a listener, who may log in by them, and with which name and
password this node logs in to others.

    listener.name.<listener>.sasl.enabled.mechanisms                     PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
    listener.name.<listener>.<mechanism>.sasl.jaas.config                of PLAIN: user_alice="secret", …
                                                                         of this node: username, password
    listener.name.<listener>.<mechanism>.connections.max.reauth.ms       how long a session lasts (KIP-368)

All that cannot be served is refused here, at the start: a broker that lets nobody in, or lets in others than
its file says, is not what its operator wants. Passwords are in no error message.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from config.broker_config import BrokerConfig
from config.errors import ConfigError, UnmetRequirement
from config.jaas import JaasEntry, parse_jaas
from config.setting import one_line

__all__ = [
    "PLAIN",
    "SERVED_MECHANISMS",
    "SaslListener",
    "SaslLogin",
    "check_sasl",
    "controller_login",
    "has_sasl",
    "inter_broker_login",
    "sasl_listener",
]

PLAIN: Final = "PLAIN"
SERVED_MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER: Final = "user_"

_JAAS: Final = "sasl.jaas.config"
_ENABLED: Final = "sasl.enabled.mechanisms"
_INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER: Final = "sasl.mechanism.controller.protocol"


class SaslListener(Struct, frozen=True):
    """A listener with SASL. plain_users: password by user name. max_reauth_ms: by mechanism, how long a
    session lasts; 0 is for ever."""

    name: str
    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]
    max_reauth_ms: Mapping[str, int]

    def __repr__(self) -> str:
        return f"SaslListener({self.name!r}, {self.mechanisms!r})"


class SaslLogin(Struct, frozen=True):
    """How this node logs in to another one."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism!r}, [hidden])"


def has_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def sasl_listener(config: BrokerConfig, listener: str) -> SaslListener:
    """What the configs say of a listener with SASL. Raises ConfigError."""
    value = config.for_listener(listener, _ENABLED)
    mechanisms = value if isinstance(value, tuple) else ()
    users: Mapping[str, str] = {}
    lifetimes: dict[str, int] = {}
    _check_mechanisms(listener, mechanisms)
    for mechanism in mechanisms:
        _check_no_java(config, listener, mechanism)
        lifetime = config.for_mechanism(listener, mechanism, "connections.max.reauth.ms")
        lifetimes[mechanism] = max(lifetime, 0) if isinstance(lifetime, int) else 0
        entry = _entry(config, listener, mechanism)
        if mechanism == PLAIN:
            if entry is None:
                raise ConfigError(
                    f"listener {listener} offers PLAIN and has no users for it: set "
                    f'{_jaas_name(listener, PLAIN)}={_PLAIN_MODULE} required user_alice="…";'
                )
            users = {
                key.removeprefix(_USER): text for key, text in entry.options.items() if key.startswith(_USER)
            }
    return SaslListener(listener, mechanisms, MappingProxyType(users), MappingProxyType(lifetimes))


def inter_broker_login(config: BrokerConfig) -> SaslLogin | None:
    """How this broker logs in to others; None if their listener has no SASL. Raises ConfigError."""
    listener = config.inter_broker_listener_name
    if not has_sasl(config.listener_protocols.get(listener, "")):
        return None
    return _login(config, listener, _INTER_BROKER)


def controller_login(config: BrokerConfig) -> SaslLogin | None:
    """How this node logs in to controllers; None if their listener has no SASL. Raises ConfigError."""
    names = config.controller_listener_names
    if not names or not has_sasl(config.listener_protocols.get(names[0], "")):
        return None
    return _login(config, names[0], _CONTROLLER)


def check_sasl(config: BrokerConfig) -> None:
    """Raises ConfigError for the first thing that does not work."""
    listeners = {
        endpoint.listener: sasl_listener(config, endpoint.listener)
        for endpoint in config.listeners
        if has_sasl(endpoint.security_protocol)
    }
    logins = [
        (config.controller_listener_names[:1], controller_login(config), _CONTROLLER),
        ((config.inter_broker_listener_name,), inter_broker_login(config) if config.is_broker else None,
         _INTER_BROKER),
    ]  # fmt: skip
    for names, login, name in logins:
        for listener in names:
            own = listeners.get(listener)
            if login is not None and own is not None and login.mechanism not in own.mechanisms:
                purpose = "inter-broker" if name == _INTER_BROKER else "controller"
                raise UnmetRequirement(
                    f"{name} must be included in {_ENABLED} when SASL is used for {purpose} communication"
                )


def _check_mechanisms(listener: str, mechanisms: tuple[str, ...]) -> None:
    served = ", ".join(SERVED_MECHANISMS)
    if not mechanisms:
        raise ConfigError(f"listener {listener}: {_ENABLED} is empty; name one or more of {served}")
    for mechanism in mechanisms:
        if mechanism not in SERVED_MECHANISMS:
            raise ConfigError(
                f"listener {listener}: {_ENABLED} names {one_line(mechanism)}, which is not served yet; "
                f"served are {served}"
            )


def _check_no_java(config: BrokerConfig, listener: str, mechanism: str) -> None:
    """A class decides who may log in, and it cannot be asked here."""
    name = "sasl.server.callback.handler.class"
    if config.for_mechanism(listener, mechanism, name) is not None:
        raise ConfigError(
            f"listener {listener}: {name} names a Java class for {mechanism}, and there is no JVM to load "
            "it; leave it out for users of the JAAS entry or of SCRAM"
        )


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def _entry(config: BrokerConfig, listener: str, mechanism: str) -> JaasEntry | None:
    """The JAAS entry of a mechanism; None if there is none."""
    text = config.for_mechanism(listener, mechanism, _JAAS)
    if not isinstance(text, str):
        return None
    name = _jaas_name(listener, mechanism)
    entry = parse_jaas(name, text)
    wanted = _PLAIN_MODULE if mechanism == PLAIN else _SCRAM_MODULE
    if entry.login_module != wanted:
        raise ConfigError(
            f"{name}: the login module of {mechanism} is {wanted}, not {one_line(entry.login_module)}"
        )
    if entry.options.get("tokenauth", "false").lower() == "true":
        raise ConfigError(f"{name}: tokenauth is set, but delegation tokens are not served")
    return entry


def _login(config: BrokerConfig, listener: str, name: str) -> SaslLogin:
    mechanism = config.text(name)
    if mechanism not in SERVED_MECHANISMS:
        raise ConfigError(
            f"{name}={one_line(mechanism)}: this mechanism is not served yet; served are "
            f"{', '.join(SERVED_MECHANISMS)}"
        )
    entry = _entry(config, listener, mechanism)
    username = "" if entry is None else entry.options.get("username", "")
    password = "" if entry is None else entry.options.get("password", "")
    if not username or not password:
        module = _PLAIN_MODULE if mechanism == PLAIN else _SCRAM_MODULE
        raise ConfigError(
            f"{name} is {mechanism}, and this node has no name and password to log in with: set "
            f'{_jaas_name(listener, mechanism)}={module} required username="…" password="…";'
        )
    return SaslLogin(mechanism, username, password)
