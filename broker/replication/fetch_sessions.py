"""Fetch sessions (KIP-227): a reader names its partitions once, and afterwards only what changes.

::

    request (id, epoch)     meaning                                           answer
    (0, 0) or (id, 0)       all partitions; closes `id`, tries to open one    all partitions, the new id or 0
    (0, -1) or (id, -1)     all partitions, no session; closes `id`           all partitions, id 0
    (id, n)                 what changed since request n - 1                  what is new, the same id

An epoch counts the requests of a session: 1, 2, … 2147483647, 1. If a request names another epoch than the
expected one, a request or an answer was lost; the client is told so and begins a new session. A follower
finds no session of a consumer, nor a consumer one of a follower: their partitions have other ends.

A session remembers what it told of each partition, so that an answer names only partitions with records, with
an error, or with another high watermark or log start than it told last. Kafka walks all partitions of a
session for each request. Here a session keeps its *active* partitions, which may have something to tell,
apart from those that were read to their end and told in full. The latter are watched, and an append or a
change of leadership makes them active again. So a consumer's request costs what has changed, and not what the
session holds. A follower's says of each partition that it does not name that the follower is still there;
that is noted once in a while for all of them (`reading.note_unnamed_partitions`). Active partitions are read
in order, and one that gave records goes to the end of the order, so that small answers reach every partition
in turn. Who may read is asked for each active partition. When access control entries change, all partitions
are active for one request, so that a reader who lost its right is told so of a partition that is idle.

The cache has a fixed number of places. When all are taken, a newcomer gets the place of a session that was
idle for two minutes, or of one that is worth less: a follower's session is worth more than a consumer's, and
a larger one more than a smaller. A session keeps its place for two minutes against others of its kind.

Pure: times are arguments, in milliseconds of any clock that does not go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from broker.replication.partition import Partition
from broker.replication.partition_state import NO_BROKER_EPOCH
from broker.replication.roles import NO_EPOCH
from config.ports import RandomSource
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
"""The epoch of a request for all partitions that asks for a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request for all partitions that asks for no session."""
EPOCH_MAX: Final = 2**31 - 1
UNTOLD: Final = -1
"""Stands in place of a high watermark if none was told, so that the next answer names the partition."""

EVICTION_MS: Final = 120_000
"""After this time an idle session may lose its place. A session also keeps its place for so long against
sessions of the same kind."""

PartitionKey = tuple[str | bytes, int]
"""The name of a topic, or its id since version 13 of Fetch, and the index of a partition."""


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`: after the largest comes 1, because 0 opens a session."""
    return 1 if epoch >= EPOCH_MAX else epoch + 1


class FollowerFetch(msgspec.Struct, gc=False, frozen=True):
    """What a fetch of another broker tells the leader as a whole.

    broker_epoch: the epoch in which the broker says that it is registered, -1 if it does not say so (before
    version 15 of Fetch). registered_epoch: the one in which it is registered, as far as this broker knows.
    now_ms: the monotonic time at which the request came. brokers: what this broker knows of all brokers then,
    another object after each change.
    """

    now_ms: int
    broker_epoch: int = NO_BROKER_EPOCH
    registered_epoch: int = NO_BROKER_EPOCH
    brokers: object = None

    def says_as_much_as(self, earlier: FollowerFetch, within_ms: int) -> bool:
        """Whether nothing but the time has changed since an earlier fetch, and not much of that."""
        return (
            self.now_ms - earlier.now_ms < within_ms
            and self.brokers is earlier.brokers
            and self.broker_epoch == earlier.broker_epoch
        )


class WantedPartition(msgspec.Struct, eq=False):
    """What a reader wants of one partition, and what it was told last."""

    key: PartitionKey
    topic: str
    """The name of the topic; empty while the cluster does not know the topic id."""
    topic_id: bytes
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    partition: Partition | None = None
    """The hosted partition, once it was found; it is looked up again when this broker does not lead it. When
    the partition is hosted no longer, a session with an id forgets it at once, and does not wait for its
    client's next request."""
    high_watermark: int = UNTOLD
    log_start_offset: int = UNTOLD
    replica_log_start_offset: int = UNTOLD
    """The log start offset of the follower, if a follower fetches."""

    def name_topic(self, topic: str) -> None:
        """Sets the name of the topic when it becomes known."""
        self.topic = topic


class Told(Protocol):
    """What an answer says about one partition, as far as its session remembers it."""

    @property
    def error_code(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def records(self) -> object: ...

    @property
    def diverging_epoch(self) -> object | None: ...


class SessionFetch(Protocol):
    """The request of a session that waits for more to read."""

    def session_grew(self, wanted: WantedPartition, size_bytes: int) -> None: ...

    def session_changed(self) -> None: ...

    def session_taken_over(self) -> None:
        """Called when another request of the same session has come. This one is answered with
        INVALID_FETCH_SESSION_EPOCH."""
        ...


class FetchSession:
    """The partitions of one reader. A fetch without a session has one too, with id 0, for its one answer."""

    __slots__ = (
        "active",
        "created_ms",
        "epoch",
        "id",
        "is_kept",
        "isolation_level",
        "last_used_ms",
        "may_stay",
        "noted",
        "privileged",
        "uses_topic_ids",
        "waiting",
        "wanted",
    )

    def __init__(self, *, uses_topic_ids: bool, privileged: bool, may_stay: bool, now_ms: int) -> None:
        self.id = NO_SESSION_ID
        self.is_kept = False
        """Whether it has a place among the sessions. One that is closed keeps its id for the answer to the
        request that waits."""
        self.epoch = INITIAL_EPOCH
        """The epoch that the next request must name."""
        self.isolation_level: int | None = 0
        """That of the last request. What was read to its end on one level may have more on another. None:
        the next request looks at all partitions, whatever its level."""
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        """Whether a follower fetches. It reads to the log's end, and its session is worth more than a
        consumer's."""
        self.may_stay = may_stay
        """Whether the client has asked for a session, so that it may be remembered."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.noted: FollowerFetch | None = None
        """The fetch of the follower that was noted for the partitions which it did not name, too."""
        self.wanted: dict[PartitionKey, WantedPartition] = {}
        self.active: dict[PartitionKey, WantedPartition] = {}
        """Those of the wanted partitions at which the next answer must look. All others are watched."""
        self.waiting: SessionFetch | None = None

    def update(self, request: FetchRequest) -> None:
        """Takes over what the request adds, changes and forgets."""
        wanted, active = self.wanted, self.active
        if request.isolation_level != self.isolation_level:
            self.isolation_level = request.isolation_level
            active.update(wanted)
        by_id = self.uses_topic_ids
        for topic in request.topics:
            name = topic.topic_id if by_id else topic.topic
            for asked in topic.partitions:
                key = (name, asked.partition)
                known = wanted.get(key)
                epoch = asked.current_leader_epoch
                if epoch < NO_EPOCH:  # to a fetch, as to no other request, every negative number is none
                    epoch = NO_EPOCH
                if known is None:
                    known = wanted[key] = WantedPartition(
                        key,
                        topic.topic,
                        topic.topic_id,
                        asked.partition,
                        asked.fetch_offset,
                        asked.partition_max_bytes,
                        epoch,
                        asked.last_fetched_epoch,
                    )
                else:
                    known.fetch_offset = asked.fetch_offset
                    known.max_bytes = asked.partition_max_bytes
                    known.current_leader_epoch = epoch
                    known.last_fetched_epoch = asked.last_fetched_epoch
                known.replica_log_start_offset = asked.log_start_offset
                active[key] = known
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                self._forget((name, index))

    def _forget(self, key: PartitionKey) -> None:
        known = self.wanted.pop(key, None)
        self.active.pop(key, None)
        if known is not None and known.partition is not None:
            known.partition.unwatch(self)
            known.partition.holders.pop(self, None)

    def found(self, wanted: WantedPartition, partition: Partition) -> None:
        """Remembers the hosted partition for later requests."""
        wanted.partition = partition
        if self.is_kept:
            self._hold(wanted)

    def hold_all(self) -> None:
        for wanted in self.wanted.values():
            self._hold(wanted)

    def _hold(self, wanted: WantedPartition) -> None:
        if wanted.partition is not None:
            wanted.partition.holders[self] = wanted

    def let_go_of_all(self) -> None:
        for wanted in self.wanted.values():
            if wanted.partition is not None:
                wanted.partition.holders.pop(self, None)

    def partition_gone(self, token: WantedPartition) -> None:
        token.partition = None

    def begin_wait(self, fetch: SessionFetch) -> None:
        """A request of this session begins to wait. It is told of every change about which it may have
        something to answer."""
        self.waiting = fetch
        for wanted in self.active.values():
            self.watch(wanted)

    def end_wait(self) -> None:
        self.waiting = None

    def settle(self, told: Iterable[tuple[WantedPartition, Told]]) -> None:
        """Notes what an answer says. A partition about which all is told is watched from now on."""
        active = self.active
        for wanted, data in told:
            if data.error_code or data.diverging_epoch is not None:
                wanted.high_watermark = UNTOLD  # who has to cut its log takes over nothing else
                continue
            if data.records:
                self.told_records(wanted, data.high_watermark, data.log_start_offset)
                continue
            wanted.high_watermark = data.high_watermark
            wanted.log_start_offset = data.log_start_offset
            end, partition = data.high_watermark, wanted.partition
            if partition is not None:
                if partition.log.high_watermark != end:
                    continue  # this very fetch, a follower's, has moved it: the next answer tells
                if self.privileged:
                    end = partition.log.log_end_offset
            if wanted.fetch_offset >= end:
                del active[wanted.key]
                self.watch(wanted)

    def told_records(self, wanted: WantedPartition, high_watermark: int, log_start_offset: int) -> None:
        """Notes that an answer holds records of the partition, which goes to the end of the order because
        there may be more."""
        wanted.high_watermark = high_watermark
        wanted.log_start_offset = log_start_offset
        active = self.active
        del active[wanted.key]
        active[wanted.key] = wanted

    def rest(self, wanted: WantedPartition) -> None:
        """Notes that there is nothing to tell about the partition. It is watched until there is."""
        del self.active[wanted.key]
        self.watch(wanted)

    def watch(self, wanted: WantedPartition) -> None:
        """Has the partition tell the session of its next change."""
        partition = wanted.partition
        if partition is not None:
            if self.privileged:
                partition.watch(self, wanted, to_log_end=True)
            else:
                partition.watchers[self] = wanted

    def unwatch_all(self) -> None:
        for wanted in self.wanted.values():
            if wanted.partition is not None:
                wanted.partition.unwatch(self)

    def partition_grew(self, token: WantedPartition, size_bytes: int) -> None:
        self.active[token.key] = token
        if self.waiting is not None:
            self.waiting.session_grew(token, size_bytes)

    def partition_changed(self, token: WantedPartition) -> None:
        self.active[token.key] = token
        if self.waiting is not None:
            self.waiting.session_changed()


class FetchSessions:
    """The sessions of a broker, the least recently used first."""

    def __init__(self, *, slots: int, random_source: RandomSource) -> None:
        self._slots = slots
        self._random_source = random_source
        self._by_id: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._by_id.values())

    @property
    def partition_count(self) -> int:
        """Partitions remembered by all sessions together, for metrics."""
        return sum(len(session.wanted) for session in self._by_id.values())

    def get(self, session_id: int) -> FetchSession | None:
        return self._by_id.get(session_id)

    def rights_changed(self) -> None:
        """Has the next request of each session look at all its partitions."""
        for session in self._by_id.values():
            session.isolation_level = None

    def begin(
        self, request: FetchRequest, *, uses_topic_ids: bool, from_follower: bool, now_ms: int
    ) -> FetchSession | ErrorCode:
        """The session that serves a request, updated by it; or the error for the whole response.

        A full fetch, and an incremental one that leaves no partition, get a session with id 0. That of a full
        fetch is given to `remember` when it is answered.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION_ID:
                self.close(request.session_id)
            fresh = FetchSession(
                uses_topic_ids=uses_topic_ids,
                privileged=from_follower,
                may_stay=request.session_epoch == INITIAL_EPOCH,
                now_ms=now_ms,
            )
            fresh.update(request)
            return fresh
        session = self._by_id.get(request.session_id)
        if session is None or session.privileged != from_follower:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session.waiting is not None:
            session.waiting.session_taken_over()
        session.update(request)
        if not session.wanted:
            self.close(session.id)
            session.id = NO_SESSION_ID
            return session
        self.advance(session, now_ms=now_ms)
        return session

    def advance(self, session: FetchSession, *, now_ms: int) -> None:
        """Notes that a request of the session was accepted."""
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        del self._by_id[session.id]
        self._by_id[session.id] = session

    def remember(self, session: FetchSession, *, now_ms: int) -> bool:
        """Gives the session of a full fetch a place and an id. False if there is no place for it."""
        if not session.may_stay or not self._make_room(session, now_ms):
            return False
        session.id = self._new_id()
        session.is_kept = True
        session.epoch = next_epoch(INITIAL_EPOCH)
        session.created_ms = session.last_used_ms = now_ms
        self._by_id[session.id] = session
        session.hold_all()
        return True

    def close(self, session_id: int) -> None:
        """Forgets a session. Nothing happens if there is none with this id."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            return
        session.is_kept = False
        session.may_stay = False
        session.let_go_of_all()
        if session.waiting is None:
            session.unwatch_all()

    def _make_room(self, newcomer: FetchSession, now_ms: int) -> bool:
        if len(self._by_id) < self._slots:
            return True
        oldest = next(iter(self._by_id.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._evict(oldest)
            return True
        candidates = [session for session in self._by_id.values() if _may_yield(session, newcomer)]
        if not candidates:
            return False
        least = min(candidates, key=_worth)
        if (newcomer.privileged, len(newcomer.wanted), 0) < _worth(least):
            return False
        self._evict(least)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.evictions += 1
        self.close(session.id)

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._random_source.below(EPOCH_MAX - 1)
            if session_id not in self._by_id:
                return session_id


def _may_yield(session: FetchSession, newcomer: FetchSession) -> bool:
    """Whether a new session may get the place of this one: this one is old, or it is a consumer's and the new
    one a follower's."""
    grown_up = session.last_used_ms - session.created_ms > EVICTION_MS
    return grown_up or (newcomer.privileged and not session.privileged)


def _worth(session: FetchSession) -> tuple[bool, int, int]:
    return (session.privileged, len(session.wanted), session.id)
