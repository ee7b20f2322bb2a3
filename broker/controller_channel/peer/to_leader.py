"""Requests of a broker to the controller that leads, wherever that is, from a node that is a controller too.

The metadata log is fetched from this process's own controller, which has all that is committed whoever
leads. Everything else is for the leader: over the loop if it is this process, over TCP to where the quorum's
voters say it listens if it is another. While nobody is known to lead the own controller is asked, and says
NOT_CONTROLLER, as one that led until a moment ago does: who asks tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from config.ports import Timers
from controller.metadata.image.brokers import BrokerEndpoint
from protocol.codec.message import Message
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.peer_channel import PeerChannel, PeerError

__all__ = ["LeaderPeer"]

OF_THE_LOG: Final = (FetchRequest, FetchSnapshotRequest)


class ClosablePeer(PeerChannel, Protocol):
    def close_channel(self) -> None: ...


class LeaderPeer:
    """`protocol.peer_channel.PeerChannel`. elsewhere: where the leader listens; None if here, or unknown."""

    def __init__(
        self,
        here: PeerChannel,
        elsewhere: Callable[[], BrokerEndpoint | None],
        connect: Callable[[str, int], ClosablePeer],
        timers: Timers,
    ) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._connect = connect
        self._timers = timers
        self._there: ClosablePeer | None = None
        self._address: tuple[str, int] | None = None

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        """See `protocol.peer_channel.PeerChannel`."""
        endpoint = None if isinstance(request, OF_THE_LOG) else self._elsewhere()
        if endpoint is None:
            self._here.send(request, on_response, timeout_ms=timeout_ms)
        else:
            self._to(endpoint.host, endpoint.port).send(request, on_response, timeout_ms=timeout_ms)

    def _to(self, host: str, port: int) -> ClosablePeer:
        """One connection, to the latest leader."""
        if self._there is None or self._address != (host, port):
            if self._there is not None:
                self._timers.call_soon(self._there.close_channel)  # not within an answer of its own
            self._there, self._address = self._connect(host, port), (host, port)
        return self._there
