"""The session of a connection: who is connected, and how."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, TypeAlias

import msgspec

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def is_software_name(text: str) -> bool:
    """Whether a client's software may have this name, or this version: it becomes a label of a metric, cut if
    it is long. KIP-511."""
    return _SOFTWARE.fullmatch(text) is not None


class Principal(msgspec.Struct, frozen=True, gc=False):
    """The principal of a client: ``User:alice``; before any authentication ``User:ANONYMOUS``."""

    name: str = "ANONYMOUS"
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


WalkedBytes: TypeAlias = dict[tuple[bytes, int], int]


class Session(msgspec.Struct, gc=False):
    """What is true of a whole connection. Only network and dispatch write here, but for `walked_bytes`.

    host: the peer's address without port, as Kafka shows it without the slash. is_in_process: the peer is
    this process's other role. is_authenticated: False on a listener with SASL until SaslAuthenticate has
    succeeded (`broker.security.sasl_gate`). authentication: belongs to the gate: the exchange that is going
    on, or that of a session that will end; None without SASL, and in a session without an end. walked_bytes:
    by topic id and partition, the bytes of the batches whose records were looked at one by one
    (`broker.replication.watched_batches`).
    """

    connection_id: str
    listener: str
    host: str
    principal: Principal = Principal()
    security_protocol: str = "PLAINTEXT"
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    is_in_process: bool = False
    is_authenticated: bool = True
    authentication: Any = None
    walked_bytes: WalkedBytes = {}


def is_address(text: str) -> bool:
    """Whether this is an address, and not the name of a host. It may have a zone (`fe80::1%eth0`)."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def plain_host(text: str) -> str:
    """An address as Kafka shows it: IPv4 behind IPv6 as IPv4, IPv6 in eight groups without leading zeros."""
    if ":" not in text:
        return text
    address = ip_address(text.partition("%")[0])
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
