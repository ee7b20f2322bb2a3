"""All partitions of one fetcher, and what its next fetch asks for.

The plan remembers which partitions have changed since the last fetch, so that a fetch is built from these
alone. A delayed partition is left out of the fetches until its time has come; the others go on.

A fetch compares at most `PARTITIONS_PER_FETCH` of them, because a leader takes no request of any length. So
the first fetch of very many partitions opens a session with some of them, and the next fetches add the
others. A leader that gives no session is asked for all of them by turns.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from typing import Final

from broker.replication.fetcher.fetch_transitions import FetchState
from broker.replication.fetcher.partition_fetch import PartitionFetch
from broker.replication.fetcher.session import FollowerSession, SessionRequest
from broker.replication.partition_state import TopicIdPartition
from protocol.messages.fetch import FetchRequest

__all__ = ["FetchPlan"]

PARTITIONS_PER_FETCH: Final = 10_000
"""A Fetch request that names them is within `FETCH_MEMORY_BYTES` of the leader, with one partition a topic
too."""


class FetchPlan:
    """max_bytes: the bytes that are asked for of each partition (`replica.fetch.max.bytes`)."""

    __slots__ = ("_changed", "_delayed", "_max_bytes", "partitions", "session")

    def __init__(self, max_bytes: int) -> None:
        self.partitions: dict[TopicIdPartition, PartitionFetch] = {}
        self.session = FollowerSession()
        self._max_bytes = max_bytes
        self._changed: dict[TopicIdPartition, None] = {}
        """Partitions whose entry in the fetch session may be out of date; the next fetch compares them."""
        self._delayed: list[tuple[int, TopicIdPartition]] = []
        """A heap of the times until which partitions are delayed. An entry is out of date if its partition is
        not followed any more, or is delayed until another time."""

    def add(self, fetch: PartitionFetch) -> bool:
        """Follows a partition. False if it is followed in this leader epoch already; then nothing changes."""
        known = self.partitions.get(fetch.key)
        if known is not None and known.leader_epoch == fetch.leader_epoch:
            return False
        self.partitions[fetch.key] = fetch
        self._changed[fetch.key] = None
        return True

    def remove(self, key: TopicIdPartition) -> PartitionFetch | None:
        """Stops following a partition. What an answer under way says of it is not used."""
        self._changed[key] = None
        return self.partitions.pop(key, None)

    def has(self, fetch: PartitionFetch) -> bool:
        """Whether the partition is still followed, in the same leader epoch."""
        return self.partitions.get((fetch.topic_id, fetch.index)) is fetch

    def changed(self, fetch: PartitionFetch) -> None:
        """Notes that the state or the offsets of the partition have changed since the last fetch."""
        self._changed[fetch.topic_id, fetch.index] = None

    def delay(self, fetch: PartitionFetch, due_ms: int) -> None:
        """Leaves the partition out of the fetches until then."""
        fetch.delay(due_ms)
        self._changed[fetch.key] = None
        heappush(self._delayed, (due_ms, fetch.key))

    def delay_all(self, due_ms: int) -> None:
        """Leaves all partitions that would be in the next fetch out until then."""
        for fetch in self.partitions.values():
            if fetch.state is FetchState.FETCHING and fetch.due_ms < due_ms:
                self.delay(fetch, due_ms)

    def next_due_ms(self) -> int | None:
        """The time at which the next delayed partition may be fetched again; None if none is delayed."""
        while self._delayed:
            due_ms, key = self._delayed[0]
            fetch = self.partitions.get(key)
            if fetch is not None and fetch.due_ms == due_ms:
                return due_ms
            heappop(self._delayed)
        return None

    def build(self, now_ms: int) -> SessionRequest | None:
        """The next fetch; None if there is nothing to fetch, and nothing for the leader to forget."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            self._changed[heappop(self._delayed)[1]] = None
        return self._build_full(now_ms) if self.session.is_full else self._build_incremental(now_ms)

    def _build_full(self, now_ms: int) -> SessionRequest | None:
        ready = (each for each in self.partitions.items() if each[1].is_ready(now_ms))
        named = {key: fetch.asked(self._max_bytes) for key, fetch in islice(ready, PARTITIONS_PER_FETCH)}
        if not named:
            return None
        self._changed.clear()
        if len(named) == PARTITIONS_PER_FETCH:
            self._changed.update((key, None) for key in self.partitions if key not in named)
            for key in named:  # the next full fetch names the others first
                self.partitions[key] = self.partitions.pop(key)
        return self.session.build(named)

    def _build_incremental(self, now_ms: int) -> SessionRequest | None:
        wanted: dict[TopicIdPartition, FetchRequest.FetchPartition | None] = {}
        for key in list(islice(self._changed, PARTITIONS_PER_FETCH)):
            del self._changed[key]
            fetch = self.partitions.get(key)
            ready = fetch is not None and fetch.is_ready(now_ms)
            wanted[key] = fetch.asked(self._max_bytes) if ready and fetch is not None else None
        built = self.session.build(wanted)
        return built if self.session.partitions or built.forgotten else None

    @property
    def may_wait(self) -> bool:
        """Whether the leader may let the fetch that was built last wait for records. It must not if others
        are to be added to the session, which would wait as long. A full fetch may, because it is not known
        whether there will be a session."""
        return self.session.is_full or not self._changed

    def count(self, state: FetchState) -> int:
        return sum(fetch.state is state for fetch in self.partitions.values())

    def max_lag(self) -> int:
        """The largest lag that is known; 0 if none is."""
        return max((0, *(fetch.lag for fetch in self.partitions.values())))
