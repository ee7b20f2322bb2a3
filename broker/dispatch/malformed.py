"""Peers that send what is no request.

Their connection is closed and they are counted. The log names each address once a minute at most: a port
scanner or a browser that found the port must not fill the disk.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.network.connection import Connection

_log = logging.getLogger("barnabas.dispatch")

_QUIET_NS: Final = 60 * 1_000_000_000
_HOSTS_REMEMBERED: Final = 1_000


class MalformedLog:
    """Says the first complaint about an address, and later how many it kept to itself."""

    def __init__(self) -> None:
        self._quiet_until_ns: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def complain(self, connection: Connection, reason: str) -> None:
        session = connection.session
        now_ns = connection.now_ns
        if now_ns < self._quiet_until_ns.get(session.host, now_ns):
            self._kept[session.host] = self._kept.get(session.host, 0) + 1
            return
        if len(self._quiet_until_ns) >= _HOSTS_REMEMBERED:
            self._quiet_until_ns.clear()
            self._kept.clear()
        self._quiet_until_ns[session.host] = now_ns + _QUIET_NS
        kept = self._kept.pop(session.host, 0)
        more = f" ({kept} more from this address since the last such line)" if kept else ""
        _log.warning("Closing %s on listener %s: %s%s", session.connection_id, session.listener, reason, more)
