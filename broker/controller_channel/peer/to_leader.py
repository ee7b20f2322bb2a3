"""Requests of a broker to the active controller, from a node that is a controller too.

The metadata log is fetched from the node's own controller, which has all committed records whoever leads.
Everything else goes to the leader: over the loop if this node leads, over the network to the leader's address
if another one does. While no leader is known the own controller is asked; it answers NOT_CONTROLLER, as a
controller does that has just lost the leadership, and the sender tries again.
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
                # Later, because the caller may be handling an answer of that channel.
                self._timers.call_soon(self._there.close_channel)
            self._there, self._address = self._connect(host, port), (host, port)
        return self._there
