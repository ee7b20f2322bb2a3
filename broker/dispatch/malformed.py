"""Peers that send what is no request, or one that is not served here.

Their connection is closed and they are counted. The log names each address once a minute at most, because a
port scanner or a browser that has found the port must not fill the disk. A request that can be read but is
not served tells an operator which client wants what. It is logged by itself, once a minute for each API and
client of an address. The client chooses its client id itself, so the number of such lines for one address is
bounded too.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.network.connection import Connection

_log = logging.getLogger("barnabas.dispatch")

_QUIET_NS: Final = 60 * 1_000_000_000
_HOSTS_REMEMBERED: Final = 1_000
_KINDS_PER_HOST: Final = 20


class _Host:
    """What was logged about an address: until when each kind is not logged again, and how often it was left
    out."""

    __slots__ = ("kept", "quiet_until_ns")

    def __init__(self) -> None:
        self.quiet_until_ns: dict[str, int] = {}
        self.kept = 0

    def is_new(self, kind: str, now_ns: int) -> bool:
        """Whether a line of this kind is to be logged. The oldest kinds are forgotten first, when their time
        is over."""
        quiet = self.quiet_until_ns
        if now_ns < quiet.get(kind, now_ns):
            return False
        quiet.pop(kind, None)
        if len(quiet) >= _KINDS_PER_HOST:
            oldest = next(iter(quiet))
            if now_ns < quiet[oldest]:
                return False
            del quiet[oldest]
        quiet[kind] = now_ns + _QUIET_NS
        return True


class MalformedLog:
    """Logs the first complaint of a kind about an address, and later how many it has left out."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    def complain(self, connection: Connection, reason: str, kind: str = "") -> None:
        """kind: the API that a client asks for and that is not served, with the name of the client; "" for
        what is no request."""
        session = connection.session
        host = self._hosts.get(session.host)
        if host is None:
            if len(self._hosts) >= _HOSTS_REMEMBERED:
                del self._hosts[next(iter(self._hosts))]
            host = self._hosts[session.host] = _Host()
        if not host.is_new(kind, connection.now_ns):
            host.kept += 1
            return
        kept, host.kept = host.kept, 0
        more = f" ({kept} more from this address since the last such line)" if kept else ""
        _log.warning("Closing %s on listener %s: %s%s", session.connection_id, session.listener, reason, more)
