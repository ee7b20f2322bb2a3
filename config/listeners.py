"""Listeners: `NAME://host:port`, what protocol each name speaks, and which of them clients are told.

A listener's name is not case-sensitive and is kept in capitals. Its security protocol comes from
listener.security.protocol.map; where that is not set, a name that is itself a protocol stands for it, and
names of controller listeners mean PLAINTEXT as long as nothing in the file speaks TLS or SASL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from config.errors import ConfigError, java_text
from config.values import split_map

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT: Final = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"


class Endpoint(Struct, frozen=True, gc=False):
    """The address of a listener, bound or advertised. An empty host is every interface; port 0 is any free
    one."""

    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{address_text(self.host, self.port)}"


def address_text(host: str, port: int) -> str:
    """The address as clients' configs have it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class QuorumVoter(Struct, frozen=True, gc=False):
    """One voter of controller.quorum.voters."""

    node_id: int
    host: str
    port: int


def parse_protocol_map(text: str, name: str = "listener.security.protocol.map") -> dict[str, str]:
    """The security protocol by listener name; of equal names the last one counts."""
    protocols: dict[str, str] = {}
    for listener, word in split_map(name, text, "NAME:PROTOCOL"):
        protocol = word.upper()
        if not listener:
            raise ConfigError(f"The provided listener name is null or empty string (in {name})")
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(f"Invalid security protocol `{protocol}` defined in {name}")
        protocols[listener.upper()] = protocol
    return protocols


def parse_endpoints(
    name: str, texts: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Endpoint, ...]:
    """The endpoints of the listeners config `name`; raises `ConfigError` with Kafka's sentence.

    Two listeners may share a port only if it is 0, or if one has an IPv4 and the other an IPv6 address. A
    number that is no port is refused here; Kafka meets most of them when it binds or is asked for an address.
    """
    shown = java_text(tuple(texts))
    failed = f"Error creating broker listeners from '{shown}': "
    endpoints = []
    for text in texts:
        match = re.fullmatch(_ENDPOINT, text)
        if match is None:
            raise ConfigError(f"{failed}Unable to parse {text} to a broker endpoint")
        listener = match[1].upper()
        if listener not in protocols:
            raise ConfigError(f"{failed}No security protocol defined for listener {listener}")
        if not _is_port(match[3]):
            raise ConfigError(f"{failed}{name}: the port of {text} is not between 0 and 65535")
        endpoints.append(Endpoint(listener, protocols[listener], match[2], int(match[3])))
    if len({endpoint.listener for endpoint in endpoints}) != len(endpoints):
        raise ConfigError(f"{failed}Each listener must have a different name, listeners: {shown}")
    if distinct_ports:
        _check_ports(endpoints, shown, failed)
    return tuple(endpoints)


def parse_voters(texts: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """The voters of controller.quorum.voters, whose form the config's validator has checked."""
    voters = []
    for text in texts:
        node_id, _, address = text.partition("@")
        host, _, port = address.rpartition(":")
        voters.append(QuorumVoter(int(node_id), host.strip("[]"), int(port)))
    return tuple(voters)


def parse_host_port(name: str, text: str) -> tuple[str, int] | None:
    """The host and port of a config of the form `host:port`; None for an empty text."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not _is_port(port):
        raise ConfigError(f"{name}={text}: expected host:port, for example 127.0.0.1:9644")
    return host.strip("[]"), int(port)


def _is_port(digits: str) -> bool:
    return len(digits) <= 20 and 0 <= int(digits) <= 65535


def _check_ports(endpoints: Sequence[Endpoint], shown: str, failed: str) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port != 0:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        if len(sharing) == 1:
            continue
        versions = [_ip_version(endpoint.host) for endpoint in sharing]
        if versions in ([4, 6], [6, 4]):
            continue
        if len(versions) == 2 and None not in versions:
            raise ConfigError(
                f"{failed}If you have two listeners on the same port then one needs to be IPv4 and the "
                f"other IPv6, listeners: {shown}, port: {port}"
            )
        raise ConfigError(f"{failed}Each listener must have a different port, listeners: {shown}")


def _ip_version(host: str) -> int | None:
    import ipaddress  # the import takes 3 ms, and only two listeners on one port need it

    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return None
