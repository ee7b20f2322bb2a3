"""What systemd is told: ready, stopping, and a word on what is going on (sd_notify's protocol).

A datagram of `KEY=value` lines to the socket that `NOTIFY_SOCKET` names; without that variable nothing
happens. A name that begins with @ is in the abstract namespace.
"""

from __future__ import annotations

import logging
import os
import socket

_log = logging.getLogger("barnabas.node")


def notify(*lines: str) -> bool:
    """Tells the service manager, if there is one; whether it was told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
            datagrams.connect(address)
            datagrams.sendall("\n".join(lines).encode())
    except OSError as error:
        _log.warning("The service manager at NOTIFY_SOCKET could not be told: %s", error)
        return False
    return True
