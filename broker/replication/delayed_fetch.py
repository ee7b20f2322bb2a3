"""Fetch requests that wait for more to read.

If a first look found less than `min_bytes`, and nothing that must be told at once (an error, a diverging
epoch), the request waits: it watches its partitions, what becomes readable there is subtracted from what is
missing, and when nothing is missing the purgatory lets the request look again, after the turn that appended
has ended. So a turn with many appends wakes a fetch once, and the answer holds them all. When the time is
over, or the leadership of a partition changes, the answer is made of what there is by then. A client that has
gone takes its request with it.

A request that need not wait never comes here.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Protocol, TypeVar

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication_quota import ReplicationQuota
from broker.replication.fetch_sessions import FetchSession, FetchSessions, WantedPartition
from broker.replication.leader_replication import LeaderReplication, ReplicaReader
from broker.replication.replica_selector import RackAwareReplicaSelector
from config.limits import WAITING_REQUESTS
from config.ports import Clock, Timer, Timers
from protocol.serving.pending import Pending

__all__ = ["DelayedFetch", "FetchPurgatory", "WaitingFetch"]

COMPLETIONS_PER_TURN: Final = 64
"""The number of fetches that are answered in one turn of the loop. The other ones that were woken are
answered in the next turns."""

UNNAMED_EVERY_MS: Final = 1_000
UNNAMED_IN_LAG: Final = 16
"""What a follower does not name is noted after this time, or after this part of replica.lag.time.max.ms if
that is shorter: by so much a follower that says nothing new may seem to have caught up too early."""

Response = TypeVar("Response")
MadeResponse = TypeVar("MadeResponse", covariant=True)


class WaitingFetch(Protocol[MadeResponse]):
    """Reads the partitions for a fetch, and makes its answer."""

    def look_again(self) -> MadeResponse:
        """Reads what there is now, and returns the answer."""
        ...

    def overtaken(self) -> MadeResponse:
        """The answer to a request whose session has gone on with another request."""
        ...


class FetchPurgatory:
    """All fetches that wait, and the order in which those are answered that were woken."""

    def __init__(
        self,
        *,
        sessions: FetchSessions,
        max_bytes: int,
        clock: Clock,
        timers: Timers,
        selector: RackAwareReplicaSelector | None = None,
        leader_quota: ReplicationQuota | None = None,
        max_lag_ms: int = 30_000,
    ) -> None:
        """selector: chooses a replica near the consumer; without one all read from the leader. leader_quota:
        for what throttled replicas read here; without one it has no limit. max_lag_ms:
        replica.lag.time.max.ms."""
        self.sessions = sessions
        self.selector = selector
        self.replication = LeaderReplication(leader_quota or ReplicationQuota(), clock)
        self.unnamed_every_ms = min(UNNAMED_EVERY_MS, max_lag_ms // UNNAMED_IN_LAG)
        """See `reading.note_unnamed_partitions`."""
        self.max_bytes = max_bytes
        """`fetch.max.bytes`: no answer holds more, whatever the request says."""
        self.client_quotas: ClientQuotas | None = None
        """The quotas of clients, while any of them concerns a fetch."""
        self.clock = clock
        self.timers = timers
        self.waiting: dict[DelayedFetch[Any], None] = {}
        """The number of fetches that wait now. It is a metric, and has a limit."""
        self._woken: list[DelayedFetch[Any]] = []

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= WAITING_REQUESTS

    @property
    def watched_partitions(self) -> int:
        """The number of partitions of all fetches that wait, for metrics."""
        return sum(fetch.partition_count for fetch in self.waiting)

    def wake(self, fetch: DelayedFetch[Any]) -> None:
        self._woken.append(fetch)
        if len(self._woken) == 1:
            self.timers.call_soon(self._answer_woken)

    def _answer_woken(self) -> None:
        woken, self._woken = self._woken[:COMPLETIONS_PER_TURN], self._woken[COMPLETIONS_PER_TURN:]
        if self._woken:
            self.timers.call_soon(self._answer_woken)
        for fetch in woken:
            fetch.finish()

    def answer_all(self) -> None:
        """Answers all waiting fetches with what there is, because the broker shuts down."""
        for fetch in list(self.waiting):
            fetch.finish()


class DelayedFetch(Generic[Response]):
    """One request that waits, from its first look to its answer."""

    __slots__ = (
        "_fetch",
        "_is_woken",
        "_missing_bytes",
        "_pending",
        "_purgatory",
        "_read_committed",
        "_replica",
        "_session",
        "_timer",
        "_was_held_back",
    )

    def __init__(
        self,
        fetch: WaitingFetch[Response],
        session: FetchSession,
        purgatory: FetchPurgatory,
        *,
        missing_bytes: int,
        read_committed: bool,
        replica: ReplicaReader | None = None,
    ) -> None:
        """missing_bytes: the number of bytes that must become readable before the request is answered ahead
        of its time. replica: the replica that reads, None for a consumer. What is held back from it does not
        count."""
        self._fetch = fetch
        self._session = session
        self._purgatory = purgatory
        self._missing_bytes = missing_bytes
        self._read_committed = read_committed
        self._replica = replica
        self._is_woken = False
        self._was_held_back = False
        """Whether records were appended that consumers of committed records may not read, because a
        transaction is open before them."""
        self._pending: Pending[Response] | None = None
        self._timer: Timer | None = None

    def start(self, max_wait_ms: int) -> Pending[Response]:
        pending: Pending[Response] = Pending()
        self._pending = pending
        self._session.begin_wait(self)
        purgatory = self._purgatory
        purgatory.waiting[self] = None
        self._timer = purgatory.timers.call_at(purgatory.clock.monotonic_ms() + max_wait_ms, self.finish)
        pending.on_cancel(self._abandon)
        return pending

    @property
    def partition_count(self) -> int:
        """The number of partitions for whose records the request waits."""
        return len(self._session.wanted)

    def session_grew(self, wanted: WantedPartition, size_bytes: int) -> None:
        partition = wanted.partition
        replica = self._replica
        if replica is not None and partition is not None and replica.is_held_back(partition):
            self._session.watch(wanted)
            return
        if self._read_committed and partition is not None:
            if partition.log.last_stable_offset <= wanted.fetch_offset:
                self._was_held_back = True
                self._session.watch(wanted)
                return
            if self._was_held_back:  # a decision made more readable than what came last
                self.session_changed()
                return
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.session_changed()
        else:
            self._session.watch(wanted)

    def session_changed(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._purgatory.wake(self)

    def session_taken_over(self) -> None:
        pending = self._leave()
        if pending is not None:
            pending.complete(self._fetch.overtaken())

    def finish(self) -> None:
        """Answers now, with what there is. Once it is answered or given up, later calls do nothing."""
        pending = self._leave()
        if pending is not None:
            pending.complete_by(self._look_again)

    def _look_again(self) -> Response:
        """Reads again. It runs in a turn of other code, which must not get exceptions from here; only
        `complete_by` may raise."""
        try:
            return self._fetch.look_again()
        finally:
            if not self._session.is_kept:  # a session that is kept goes on watching for its next request
                self._session.unwatch_all()

    def _abandon(self) -> None:
        """Gives the fetch up, because the client has disconnected."""
        self._leave()
        if not self._session.is_kept:
            self._session.unwatch_all()

    def _leave(self) -> Pending[Response] | None:
        """Removes the fetch from the purgatory. Returns its pending answer if it was not complete."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        del self._purgatory.waiting[self]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._session.end_wait()
        return pending
