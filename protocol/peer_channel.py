"""The port through which a node asks another one, or the controller in its own process.

The broker asks the controller through it, and raft replicas ask each other. Its real sides are in
`broker.controller_channel.peer`; the simulator and the tests have their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from protocol.codec.message import Message


class PeerError(msgspec.Struct, frozen=True):
    """A request to another node that got no answer: disconnected or timed out.

    is_unsupported: it was not even sent, the other side knows no version that can say it.
    """

    reason: str
    is_unsupported: bool = False


class PeerChannel(Protocol):
    """Requests to another node, or to the controller in this very process.

    Encoded frames cross it in either case: two roles of one process share no
    object. ``on_response`` is called once, on the loop.
    """

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None: ...
