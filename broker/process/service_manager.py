"""Tells systemd that the process is ready, stopping or still alive, and what it does (sd_notify's protocol).

It sends a datagram of `KEY=value` lines to the socket that `NOTIFY_SOCKET` names; without that variable
nothing happens. A name that begins with @ is in the abstract namespace.

With `WatchdogSec=` in the unit, systemd kills and restarts a service from which nothing is heard for so long.
The sign of life comes from a timer on the loop, twice in that time, so a loop that hangs gives none.

The socket takes some ten datagrams until the service manager reads them. Whoever has one more to send waits
for that: with what is said once for a moment, and with a sign of life, which comes again, not at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

PATIENCE_SECONDS: Final = 2.0
"""How long a service manager that does not read its socket may hold the loop up at the start and the end."""

_log = logging.getLogger("barnabas.node")


def notify(*lines: str, patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Sends the lines to the service manager, if there is one. Returns whether they were sent.

    patience_seconds: how long to wait while it does not read what was sent before; 0 does not wait.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
            datagrams.settimeout(patience_seconds)
            datagrams.connect(address)
            datagrams.sendall("\n".join(lines).encode())
    except OSError as error:
        _log.warning("The service manager at NOTIFY_SOCKET could not be told: %s", error)
        return False
    return True


class Systemd:
    """`config.ports.ServiceManager` over the socket that the environment names."""

    def notify(self, *lines: str) -> bool:
        return notify(*lines)


def watchdog_timeout_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """The time for which systemd waits for a sign of life; None if it expects none of this process."""
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    try:
        timeout_us = int(environment.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return timeout_us / 1e6 if timeout_us > 0 else None


class SignsOfLife:
    """Sends `WATCHDOG=1` from the loop, at half the interval that systemd expects."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        timeout = watchdog_timeout_seconds(os.environ, os.getpid())
        self._interval_seconds = None if timeout is None else timeout / 2

    def start(self) -> None:
        """Sends the first sign of life now. Does nothing if systemd expects none."""
        if self._interval_seconds is None:
            return
        notify("WATCHDOG=1", patience_seconds=0)
        self._loop.call_later(self._interval_seconds, self.start)
