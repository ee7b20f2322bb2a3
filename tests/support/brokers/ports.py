"""Ports for what cannot be told to take any: nodes of a quorum know each other's, a client comes back to one.

A port that nobody listens on is given to the next process that asks the kernel for one, and then the former
node's peers and clients, which try it again and again, send their requests to a stranger. So each port that
is given out here stays bound, without listening, for as long as the tests' process lives: the kernel gives it
to nobody else, and a node may listen on it, stop and come again, because both sides set SO_REUSEADDR.
"""

from __future__ import annotations

import socket
from functools import cache


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that are nobody else's."""
    return [_held_port() for _ in range(count)]


def _held_port() -> int:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _holders().append(holder)
    return int(holder.getsockname()[1])


@cache
def _holders() -> list[socket.socket]:
    """Those of this process."""
    return []
