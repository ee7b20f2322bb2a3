"""The follower's side of a fetch session (KIP-227): what its leader remembers from request to request.

The first request names every partition. When the leader has given the session an id, a request names only
what is new, what has another offset or epoch than before, and what is not fetched any more; so a fetch of
ten thousand quiet partitions is a few bytes. In Kafka this is `FetchSessionHandler`.

    session id   epoch     the request
    0            0         names all; a session is wanted
    n            1, 2, …   names what has changed
    n            0         names all; session n is to be closed and a new one is wanted

An answer that the session does not allow is not used, and the next request names all partitions again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.replication.partition_state import TopicIdPartition
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest

__all__ = ["FollowerSession", "SessionRequest"]

Asked = FetchRequest.FetchPartition

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 0x7FFFFFFF


class SessionRequest(NamedTuple):
    """The parts of a fetch request that the session decides."""

    session_id: int
    session_epoch: int
    asked: list[tuple[TopicIdPartition, FetchRequest.FetchPartition]]
    """The partitions that the request names, in this order."""
    forgotten: list[TopicIdPartition]


class FollowerSession:
    """One session with one leader. Each request is built, and its answer taken in, before the next is
    built."""

    __slots__ = ("_epoch", "_id", "partitions")

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self.partitions: dict[TopicIdPartition, FetchRequest.FetchPartition] = {}
        """What the leader knows after the latest request: each partition of the session, as it was asked
        for."""

    @property
    def is_full(self) -> bool:
        """Whether the next request must name all partitions."""
        return self._epoch == INITIAL_EPOCH

    def build(self, wanted: Mapping[TopicIdPartition, FetchRequest.FetchPartition | None]) -> SessionRequest:
        """The next request. wanted: all partitions if the session `is_full`, otherwise at least those that
        have changed since the request before. The value is None for a partition that is not fetched now."""
        if self.is_full:
            self.partitions = {key: asked for key, asked in wanted.items() if asked is not None}
            return SessionRequest(self._id, INITIAL_EPOCH, list(self.partitions.items()), [])
        told: list[tuple[TopicIdPartition, FetchRequest.FetchPartition]] = []
        forgotten: list[TopicIdPartition] = []
        partitions = self.partitions
        for key, asked in wanted.items():
            before = partitions.get(key)
            if asked is None:
                if before is not None:
                    del partitions[key]
                    forgotten.append(key)
            elif asked != before:
                if before is not None:
                    del partitions[key]
                partitions[key] = asked
                told.append((key, asked))
        return SessionRequest(self._id, self._epoch, told, forgotten)

    def answered(self, error: int, session_id: int, keys: Iterable[TopicIdPartition]) -> str:
        """Takes in the answer: its error, its session id and the partitions in it. Returns the reason for
        which it cannot be used, or an empty text if it can."""
        if error != ErrorCode.NONE:
            if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION_ID
            self._epoch = INITIAL_EPOCH
            return f"error {error}"
        if not self.is_full:
            return self._continued(session_id, keys)
        named = set(keys)
        if named != self.partitions.keys():
            extra, missing = len(named - self.partitions.keys()), len(self.partitions.keys() - named)
            self._id = NO_SESSION_ID
            return f"a full answer with {extra} partitions that were not asked for and {missing} missing"
        self._begin(session_id)
        return ""

    def failed(self) -> None:
        """Takes in that there was no answer, so that it is not known what the leader remembers."""
        self._epoch = INITIAL_EPOCH

    def _continued(self, session_id: int, keys: Iterable[TopicIdPartition]) -> str:
        extra = sum(key not in self.partitions for key in keys)
        if extra:
            self._epoch = INITIAL_EPOCH
            return f"an incremental answer with {extra} partitions that are not in the session"
        if session_id == NO_SESSION_ID:
            self._begin(NO_SESSION_ID)
        else:
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1
        return ""

    def _begin(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = INITIAL_EPOCH if session_id == NO_SESSION_ID else INITIAL_EPOCH + 1
