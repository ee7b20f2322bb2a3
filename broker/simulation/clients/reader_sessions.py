"""A reader's half of a fetch session with one broker (KIP-227).

    session id  epoch        request
    0           -1           all partitions; no session is wanted
    0           0            all partitions; a new session is wanted
    id          1, 2, …      what has changed since the last request, and what is not read any more
    id          0            all partitions; a new session in the place of this one

An answer in a session names only the partitions of which there is something to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.simulation.clients.outgoing_batches import Place
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse

__all__ = ["ReaderSession", "WantedPart"]

NO_SESSION: Final = 0
NEW: Final = 0
NONE_WANTED: Final = -1
FETCH_BYTES: Final = 200_000
LAST_EPOCH: Final = 0x7FFFFFFF


class WantedPart(NamedTuple):
    """From where a partition is to be read. last_epoch: of the record before the offset, or -1 if that is
    not to be checked by the leader."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_epoch: int = -1


class ReaderSession:
    """is_wanted: whether there is to be a session at all."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._id = NO_SESSION
        self._epoch = NEW
        self._asked: dict[Place, WantedPart] = {}

    def request(
        self,
        wanted: Mapping[Place, WantedPart],
        *,
        isolation_level: int,
        max_wait_ms: int,
        rack: str = "",
    ) -> FetchRequest:
        """The next one, that reads these partitions. rack: where the reader is, empty if it does not say."""
        is_full = not self._is_wanted or self._epoch == NEW
        changed = {
            place: asked for place, asked in wanted.items() if is_full or self._asked.get(place) != asked
        }
        gone = {
            place: asked
            for place, asked in self._asked.items()
            if not is_full and (place not in wanted or wanted[place].topic_id != asked.topic_id)
        }
        self._asked = dict(wanted)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=isolation_level,
            session_id=self._id,
            session_epoch=self._epoch if self._is_wanted else NONE_WANTED,
            topics=_topics(changed),
            forgotten_topics_data=_forgotten(gone),
            rack_id=rack,
        )

    def answered(self, answer: FetchResponse) -> bool:
        """Whether what the answer says of partitions counts."""
        if answer.error_code != ErrorCode.NONE:
            if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = NEW
            return False
        if self._is_wanted:
            self._id = answer.session_id
            is_there = answer.session_id != NO_SESSION
            self._epoch = (self._epoch % LAST_EPOCH) + 1 if is_there else NEW
        return True

    def unanswered(self) -> None:
        """Nobody knows whether the broker has gone on, so the session begins again."""
        self._epoch = NEW


def _topics(asked: Mapping[Place, WantedPart]) -> list[FetchRequest.FetchTopic]:
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for (name, partition), each in asked.items():
        topic = topics.setdefault(name, FetchRequest.FetchTopic(name, each.topic_id, []))
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition,
                each.leader_epoch,
                each.offset,
                last_fetched_epoch=each.last_epoch,
                partition_max_bytes=FETCH_BYTES,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[Place, WantedPart]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[str, FetchRequest.ForgottenTopic] = {}
    for (name, partition), each in gone.items():
        topic = topics.setdefault(name, FetchRequest.ForgottenTopic(name, each.topic_id, []))
        topic.partitions.append(partition)
    return list(topics.values())
