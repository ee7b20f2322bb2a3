"""The requests that are under way: at most one to each peer, each with its deadline, and pauses after
failures.

A request that is not needed any more, because its epoch is over, is forgotten. Its answer is then ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from config.ports import RandomSource
from controller.raft.identity import Peer
from controller.raft.roles import NEVER
from protocol.codec.message import Message

__all__ = ["Connections", "Sent"]


class Sent(msgspec.Struct, gc=False):
    """A request that is under way. kind: the class of its message. offset: the offset from which a fetch
    reads."""

    peer: Peer
    kind: type[Message]
    deadline_ms: int
    offset: int


class Connections:
    """The requests by the id of the peer. Request ids count from 1, and none is used twice by one process."""

    __slots__ = ("_busy", "_paused_until_ms", "_sent", "next_request_id", "retry_backoff_ms")

    def __init__(self, retry_backoff_ms: int) -> None:
        self.retry_backoff_ms = retry_backoff_ms
        self.next_request_id = 1
        self._sent: dict[int, Sent] = {}
        self._busy: dict[int, int] = {}
        self._paused_until_ms: dict[int, int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no request to any peer waits for its response."""
        return not self._sent

    def is_free(self, peer_id: int, now_ms: int) -> bool:
        return peer_id not in self._busy and self._paused_until_ms.get(peer_id, 0) <= now_ms

    def is_paused(self, peer_id: int, now_ms: int) -> bool:
        return self._paused_until_ms.get(peer_id, 0) > now_ms

    def add(self, sent: Sent) -> int:
        request_id = self.next_request_id
        self.next_request_id = request_id + 1
        self._sent[request_id] = sent
        self._busy[sent.peer.id] = request_id
        return request_id

    def end(self, request_id: int) -> Sent | None:
        """Removes a request that was answered or never will be, and returns it. None if it is not known, or
        not any more."""
        sent = self._sent.pop(request_id, None)
        if sent is not None:
            del self._busy[sent.peer.id]
        return sent

    def pause(self, peer_id: int, now_ms: int) -> None:
        """Sends the peer no requests for a moment, because one has failed."""
        self._paused_until_ms[peer_id] = now_ms + self.retry_backoff_ms

    def forget_all(self) -> None:
        """Forgets all requests, because their answers mean nothing to a new role or epoch."""
        self._sent.clear()
        self._busy.clear()
        self._paused_until_ms.clear()

    def overdue(self, now_ms: int) -> list[int]:
        """The requests that were not answered in time, the oldest first."""
        return [request_id for request_id, sent in self._sent.items() if sent.deadline_ms <= now_ms]

    def any_free(self, peers: Sequence[Peer], now_ms: int, random_source: RandomSource) -> Peer | None:
        """A random one of the peers that may be sent a request now; None if there is none."""
        if not peers:
            return None
        first = random_source.below(len(peers))
        for number in range(len(peers)):
            peer = peers[(first + number) % len(peers)]
            if self.is_free(peer.id, now_ms):
                return peer
        return None

    def next_wake_ms(self, peer_ids: Iterable[int], now_ms: int) -> int:
        """The time at which the next request is overdue, or the pause of one of these peers ends."""
        wake_ms = NEVER
        for sent in self._sent.values():
            if sent.deadline_ms < wake_ms:
                wake_ms = sent.deadline_ms
        if self._paused_until_ms:
            for peer_id in peer_ids:
                until_ms = self._paused_until_ms.get(peer_id, 0)
                if now_ms < until_ms < wake_ms:
                    wake_ms = until_ms
        return wake_ms
