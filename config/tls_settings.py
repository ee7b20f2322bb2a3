"""What the configs of TLS say for one listener: key store, trust store, versions, and who has to show a
certificate.

Each config is read with the listener's prefix first (`listener.name.<listener>.ssl.…`), then without it, as
Kafka reads them. Here the texts are checked; the stores themselves are opened by `broker.network.tls`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from config.broker_config import BrokerConfig
from config.errors import ConfigError
from config.principal_mapping import PrincipalMapper
from config.setting import one_line

__all__ = ["ENCRYPTED", "NEWEST_SUITES", "StoreSettings", "TlsSettings", "check_tls", "tls_settings"]

ENCRYPTED: Final = ("SSL", "SASL_SSL")
"""The security protocols that are spoken over TLS."""

STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
SERVED_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_NEVER_NEGOTIATED: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Versions that a file may name and that are not spoken: recent JVMs do not speak them either."""

NEWEST_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The cipher suites of TLS 1.3, in the order in which this server chooses among them."""


class StoreSettings(Struct, frozen=True):
    """A key store or a trust store. Texts that are not set are None.

    config: the prefix of its configs, `ssl.keystore` or `ssl.truststore`, for messages. type: JKS, PKCS12 or
    PEM. location: the file. key, certificates: PEM texts in the config itself, in place of a file.
    key_password: the password of the private key.
    """

    config: str
    type: str
    location: str | None = None
    password: str | None = None
    key: str | None = None
    certificates: str | None = None
    key_password: str | None = None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.certificates is not None or self.key is not None

    def __repr__(self) -> str:
        """Without secrets."""
        return f"StoreSettings({self.config}, {self.type}, {self.location})"


class TlsSettings(Struct, frozen=True):
    """The configs of TLS for one listener, for both sides: as a server, and as a client of other nodes.

    client_auth: none, requested or required. versions: of SERVED_VERSIONS. cipher_suites: by the names of
    IANA; empty leaves the choice to the library. checks_host: whether a server's certificate must name the
    host that is connected to. principal_rules: ssl.principal.mapping.rules. may_change_name, may_drop_hosts:
    what a key store that is exchanged while the listener is open may do (ssl.allow.dn.changes,
    ssl.allow.san.changes).
    """

    listener: str
    key_store: StoreSettings
    trust_store: StoreSettings
    client_auth: str
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    checks_host: bool
    principal_rules: str
    may_change_name: bool = False
    may_drop_hosts: bool = False


def tls_settings(config: BrokerConfig, listener: str) -> TlsSettings | None:
    """The settings of the listener; None if its security protocol is not one over TLS. Raises ConfigError for
    a text that cannot be used."""
    protocol = config.listener_protocols.get(listener)
    if protocol not in ENCRYPTED:
        return None

    def text(name: str) -> str | None:
        value = config.for_listener(listener, name)
        return value if isinstance(value, str) and value else None

    def items(name: str) -> tuple[str, ...]:
        value = config.for_listener(listener, name)
        return value if isinstance(value, tuple) else ()

    client_auth = text("ssl.client.auth") or "none"
    own_name = f"listener.name.{listener.lower()}.ssl.client.auth"
    has_own = config.is_set(own_name) or own_name in config.dynamic_broker
    if protocol == "SASL_SSL" and not has_own:
        client_auth = "none"  # KIP-684: SASL says who the client is, unless this listener is told otherwise
    suites = items("ssl.cipher.suites")
    settings = TlsSettings(
        listener=listener,
        key_store=StoreSettings(
            "ssl.keystore",
            _store_type("ssl.keystore.type", text("ssl.keystore.type")),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.keystore.key"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.key.password"),
        ),
        trust_store=StoreSettings(
            "ssl.truststore",
            _store_type("ssl.truststore.type", text("ssl.truststore.type")),
            text("ssl.truststore.location"),
            text("ssl.truststore.password"),
            certificates=text("ssl.truststore.certificates"),
        ),
        client_auth=client_auth,
        versions=_versions(items("ssl.enabled.protocols"), suites),
        cipher_suites=suites,
        checks_host=_checks_host(text("ssl.endpoint.identification.algorithm")),
        principal_rules=text("ssl.principal.mapping.rules") or "DEFAULT",
        may_change_name=config.for_listener(listener, "ssl.allow.dn.changes") is True,
        may_drop_hosts=config.for_listener(listener, "ssl.allow.san.changes") is True,
    )
    _check_store(settings.key_store)
    _check_store(settings.trust_store)
    PrincipalMapper(settings.principal_rules)
    return settings


def check_tls(config: BrokerConfig, listening: Iterable[str], connecting: Iterable[str]) -> None:
    """Checks the configs of TLS of the listeners that are opened, and of those that this node connects to.
    Raises ConfigError for the first that cannot be used."""
    for listener in listening:
        settings = tls_settings(config, listener)
        if settings is not None and not settings.key_store.is_set:
            raise ConfigError(
                f"listener {listener} asks for TLS and has no key: set ssl.keystore.location, or "
                "ssl.keystore.key and ssl.keystore.certificate.chain (for this listener alone with "
                f"listener.name.{listener.lower()}. in front)"
            )
    for listener in connecting:
        tls_settings(config, listener)


def _store_type(name: str, text: str | None) -> str:
    found = (text or "JKS").upper()
    if found not in STORE_TYPES:
        raise ConfigError(f"{name}: {one_line(str(text))} is not served: use {', '.join(STORE_TYPES)}")
    return found


def _check_store(store: StoreSettings) -> None:
    if store.type != "PEM":
        inline = "ssl.keystore.key" if store.key else None
        if inline is None and store.certificates:
            is_key_store = store.config == "ssl.keystore"
            inline = f"{store.config}.{'certificate.chain' if is_key_store else 'certificates'}"
        if inline is not None:
            raise ConfigError(f"{inline} is set: {store.config}.type must be PEM, and is {store.type}")
        return
    if store.location is not None and (store.key or store.certificates):
        raise ConfigError(f"{store.config}.location is set, and the PEM text too: leave one of the two out")
    if store.password is not None:
        hint = ": the password of a key is ssl.key.password" if store.config == "ssl.keystore" else ""
        raise ConfigError(f"{store.config}.password is set, but a PEM store has no password{hint}")
    if store.config == "ssl.keystore" and (store.key is None) != (store.certificates is None):
        raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain need each other: set both")


def _versions(named: tuple[str, ...], suites: tuple[str, ...]) -> tuple[str, ...]:
    """The versions to speak, oldest first: those that are named and for which there is a cipher suite."""
    name = "ssl.enabled.protocols"
    unknown = [each for each in named if each not in (*SERVED_VERSIONS, *_NEVER_NEGOTIATED)]
    if unknown:
        raise ConfigError(f"{name}: {one_line(unknown[0])} is not served: use {', '.join(SERVED_VERSIONS)}")
    found = [each for each in SERVED_VERSIONS if each in named]
    if not found:
        raise ConfigError(f"{name} names no version that is served: use {', '.join(SERVED_VERSIONS)}")
    newest = [each for each in suites if each in NEWEST_SUITES]
    if suites:
        found = [each for each in found if (newest if each == "TLSv1.3" else len(newest) < len(suites))]
        if not found:
            raise ConfigError("ssl.cipher.suites names no cipher suite of a version in ssl.enabled.protocols")
    if newest and "TLSv1.3" in found and set(newest) != set(NEWEST_SUITES[: len(newest)]):
        raise ConfigError(
            f"ssl.cipher.suites: of the suites of TLS 1.3 ({', '.join(NEWEST_SUITES)}) only the first, the "
            "first two or all three can be allowed"
        )
    return tuple(found)


def _checks_host(algorithm: str | None) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    if algorithm is not None and algorithm.lower() != "https":
        raise ConfigError(f"{name}: {one_line(algorithm)} is not served: use https, or leave it empty")
    return algorithm is not None
