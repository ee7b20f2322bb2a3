"""Requests of a broker to the active controller, whichever node leads.

The metadata log is read from the node's own replica, which has all committed records whoever leads.
Everything else goes to the leader: over the loop if this node leads, over the network to the leader's address
if another one does. While no leader is known the own replica is asked. Where it belongs to a controller the
answer is NOT_CONTROLLER, as from a controller that has just lost the leadership; beside the replica of a
broker, which never leads, the request fails. In both cases the sender tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from config.ports import Timers
from controller.raft.identity import Address
from protocol.codec.message import Message
from protocol.messages.fetch import FetchRequest
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from protocol.peer_channel import PeerChannel, PeerError

__all__ = ["LeaderPeer"]

OF_THE_LOG: Final = (FetchRequest, FetchSnapshotRequest)


class ClosablePeer(PeerChannel, Protocol):
    def versions(self) -> Mapping[int, tuple[int, int]] | None: ...

    def close_channel(self) -> None: ...


class LeaderPeer:
    """Implements `protocol.peer_channel.PeerChannel`.

    elsewhere: returns the leader's address; None if it is this node, or unknown. may_lead: whether this node
    may be the leader.
    """

    def __init__(
        self,
        here: PeerChannel,
        elsewhere: Callable[[], Address | None],
        connect: Callable[[str, int], ClosablePeer],
        timers: Timers,
        *,
        may_lead: bool = True,
    ) -> None:
        self._may_lead = may_lead
        self._here = here
        self._elsewhere = elsewhere
        self._connect = connect
        self._timers = timers
        self._there: ClosablePeer | None = None
        self._address: tuple[str, int] | None = None

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        """Implements `protocol.peer_channel.PeerChannel`."""
        is_of_the_log = isinstance(request, OF_THE_LOG)
        endpoint = None if is_of_the_log else self._elsewhere()
        if endpoint is None and not is_of_the_log and not self._may_lead:
            error = PeerError("no active controller is known yet")
            self._timers.call_soon(partial(on_response, error))
        elif endpoint is None:
            self._here.send(request, on_response, timeout_ms=timeout_ms)
        else:
            self._to(endpoint.host, endpoint.port).send(request, on_response, timeout_ms=timeout_ms)

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """By API key, the first and the last version that the leader serves. None while no connection to it
        has told them, and if it is this node, whose two roles are of one release."""
        if self._there is None or self._elsewhere() != self._address:
            return None
        return self._there.versions()

    def leader_changed(self) -> None:
        """Gives up the connection to the former leader, because another one is known. It may be silent for
        ever, and what was sent to it must be sent again."""
        if self._there is not None and self._elsewhere() != self._address:
            self._timers.call_soon(self._there.close_channel)
            self._there, self._address = None, None

    def _to(self, host: str, port: int) -> ClosablePeer:
        """A connection to the present leader."""
        if self._there is None or self._address != (host, port):
            if self._there is not None:
                # Later, because the caller may be handling an answer of that channel.
                self._timers.call_soon(self._there.close_channel)
            self._there, self._address = self._connect(host, port), (host, port)
        return self._there
