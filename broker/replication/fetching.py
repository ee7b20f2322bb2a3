"""One Fetch request on its way: read what is there, and wait if that is too little.

A pass looks at the session's active partitions in order. It stops giving records when the request's budget
is spent, but the first batch found is given whole, however large (KIP-74): otherwise a consumer with a
small `max_bytes` would stand still before it for ever. What is given is a slice of the log's file; nobody
here reads a byte of it.

If a pass found less than `min_bytes`, and nothing that must be told at once (an error, a diverging epoch),
the request waits: it watches its partitions, an append subtracts its size from what is missing, and when
nothing is missing the purgatory runs a second pass, after the turn that appended has ended. So a turn with
many appends wakes a fetch once, and the answer holds them all. A deadline or a change of leadership answers
with what there is by then; a client that has gone takes the request with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from broker.replication.fetch_sessions import FetchSession, FetchSessions, WantedPartition
from broker.replication.partition import Partition
from broker.replication.partition_state import NO_BROKER_EPOCH
from config.limits import WAITING_REQUESTS
from config.ports import Clock, Timer, Timers
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from storage.errors import LogStorageError, OffsetOutOfRange
from storage.slices import LogSlice

if TYPE_CHECKING:
    from broker.services import BrokerServices

CONSUMER: Final = -1
"""The replica id of whoever is no replica; -2 is a consumer that debugs, smaller ones do not exist."""

COMPLETIONS_PER_TURN: Final = 64
"""Woken fetches that are answered in one turn of the loop; the rest in the next."""

PartitionData = FetchResponse.PartitionData
EpochEndOffset = FetchResponse.EpochEndOffset

FIRST_VERSION_WITH_LAST_EPOCH: Final = 12
"""A request may say with which epoch its reader read last, an answer where the two diverge. A session keeps
what its partitions said, and may go on in an older version."""

_NONE: Final = int(ErrorCode.NONE)
_OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)
_UNKNOWN_SERVER_ERROR: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)
_STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)
_INVALID_EPOCH: Final = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)

Find = Callable[["Fetch", WantedPartition], "Partition | ErrorCode"]
"""Finds the hosted partition of what is wanted, or says why this request may not have it."""

Refine = Callable[["Fetch", FetchResponse], FetchResponse]
"""Puts an answer with errors into the words of the request's version."""


class FetchLimits(msgspec.Struct, gc=False, frozen=True):
    """What the request said, within what the broker allows."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    replica_id: int = CONSUMER
    replica_epoch: int = NO_BROKER_EPOCH
    """Under which the replica's broker says that it is registered (since Fetch v15)."""
    leader_only: bool = True
    """Before Fetch v11 a consumer cannot say where it is, so only the leader answers it; replicas too ask
    the leader."""


class FetchPurgatory:
    """All fetches that wait, and the order in which the woken ones are answered."""

    def __init__(self, *, sessions: FetchSessions, max_bytes: int, clock: Clock, timers: Timers) -> None:
        self.sessions = sessions
        self.max_bytes = max_bytes
        """`fetch.max.bytes`: no answer is asked to hold more."""
        self.clock = clock
        self.timers = timers
        self.waiting: dict[Fetch, None] = {}
        """Fetches that wait now; their number is a metric and has a limit."""
        self._woken: list[Fetch] = []

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= WAITING_REQUESTS

    def wake(self, fetch: Fetch) -> None:
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
        """At a graceful stop: those who wait get what there is."""
        for fetch in list(self.waiting):
            fetch.finish()


class Fetch:
    """One request, from the first pass to its answer."""

    __slots__ = (
        "_find",
        "_found",
        "_has_errors",
        "_is_first_pass",
        "_is_woken",
        "_missing_bytes",
        "_pending",
        "_purgatory",
        "_refine",
        "_timer",
        "_was_held_back",
        "bytes_found",
        "context",
        "epoch",
        "is_incremental",
        "limits",
        "must_answer",
        "services",
        "session",
    )

    def __init__(
        self,
        session: FetchSession,
        limits: FetchLimits,
        services: BrokerServices,
        context: RequestContext,
        find: Find,
        refine: Refine,
    ) -> None:
        self.session = session
        self.epoch = session.epoch
        """The session's epoch when this request was accepted; another by the end means that it was
        overtaken."""
        self.is_incremental = session.id != 0
        self.limits = limits
        self.services = services
        self.context = context
        self.must_answer = False
        """Something was found that is told at once, however few the bytes."""
        self._has_errors = False
        self._is_first_pass = True
        """The first pass follows the request at once, so it says how far a follower is now."""
        self.bytes_found = 0
        self._found: list[tuple[WantedPartition, FetchResponse.PartitionData]] = []
        self._purgatory = services.fetches
        self._find = find
        self._refine = refine
        self._pending: Pending[FetchResponse] | None = None
        self._missing_bytes = 0
        self._is_woken = False
        self._was_held_back = False
        """Something came that read_committed may not see, since a transaction is open before it."""
        self._timer: Timer | None = None

    def start(self) -> FetchResponse | Pending[FetchResponse]:
        """The answer, or the promise of one."""
        limits = self.limits
        if limits.replica_id >= 0:
            self._note_watched()
        self._pass()
        if (
            self.must_answer
            or self.bytes_found >= limits.min_bytes
            or limits.max_wait_ms <= 0
            or not self.session.wanted
            or self._purgatory.is_full
        ):
            return self._answer()
        return self._wait()

    # One pass over the active partitions.

    def _pass(self) -> None:
        """Fill `_found` with what an answer would tell now."""
        found = self._found = []
        quiet: list[WantedPartition] = []
        budget = self.limits.max_bytes
        total = 0
        for wanted in self.session.active.values():
            partition = self._find(self, wanted)
            if not isinstance(partition, Partition):
                self._has_errors = True
                found.append((wanted, refused_data(wanted.index, int(partition))))
                continue
            data = self._look(wanted, partition, budget, not total)
            if budget < 0:
                budget = 0  # a negative limit spoils the first partition only
            if data is None:
                quiet.append(wanted)
                continue
            found.append((wanted, data))
            if data.records:
                size_bytes = data.records.size_bytes  # type: ignore[union-attr]
                total += size_bytes  # type: ignore[operator]
                budget = budget - size_bytes if size_bytes < budget else 0  # type: ignore[operator]
        self.bytes_found = total
        for wanted in quiet:
            del self.session.active[wanted.key]
            self.session.watch(wanted)

    def _look(
        self, wanted: WantedPartition, partition: Partition, budget: int, is_first: bool
    ) -> FetchResponse.PartitionData | None:
        """What one partition has to tell; None where an incremental answer would tell nothing."""
        limits = self.limits
        log = partition.log
        partition.counters.total_fetch_requests += 1
        high_watermark = log.high_watermark
        offset = wanted.fetch_offset
        start = log.log_start_offset
        if (
            offset < start
            or offset > log.log_end_offset
            or wanted.last_fetched_epoch >= 0
            or partition.refusal(wanted.current_leader_epoch, leader_only=limits.leader_only)
        ):
            exception = self._exception(wanted, partition)
            if exception is not None:
                return exception
        if limits.replica_id >= 0:
            readable = log.log_end_offset
            refusal = self._note_follower(wanted, partition) if self._is_first_pass else _NONE
            if refusal:
                return self._error(wanted, refusal)
        else:
            readable = log.last_stable_offset if limits.read_committed else high_watermark
        records: LogSlice | None = None
        aborted: list[FetchResponse.AbortedTransaction] | None = [] if limits.read_committed else None
        if offset < readable:
            max_bytes = min(budget, wanted.max_bytes)
            if max_bytes < 0:  # Kafka fails on it where it has something to read
                return self._error(wanted, _UNKNOWN_SERVER_ERROR)
            if budget > 0 or is_first:
                try:
                    records = log.read(
                        offset,
                        max_bytes=max_bytes,
                        up_to_offset=readable,
                        at_least_one_batch=is_first,
                    )
                    if records is not None and limits.read_committed:
                        aborted = [
                            FetchResponse.AbortedTransaction(producer_id, first_offset)
                            for producer_id, first_offset in log.aborted_transactions(offset, records)
                        ]
                except (OSError, LogStorageError, OffsetOutOfRange) as error:
                    return self._failed_read(wanted, error)
        elif (
            self.is_incremental
            and wanted.high_watermark == high_watermark
            and wanted.log_start_offset == start
        ):
            return None
        return PartitionData(
            wanted.index,
            _NONE,
            high_watermark,
            log.last_stable_offset,
            start,
            None,
            None,
            None,
            aborted,
            -1,
            b"" if records is None else records,
        )

    def _note_follower(self, wanted: WantedPartition, partition: Partition) -> int:
        """The leader learns how far a follower is; the error code to answer. Only once nothing stands in the
        way of reading: the position of a follower that is fenced, or whose log diverges, says nothing of
        what it has of this log."""
        limits = self.limits
        return partition.follower_fetched(
            limits.replica_id,
            wanted.fetch_offset,
            wanted.replica_log_start_offset,
            now_ms=self._purgatory.clock.monotonic_ms(),
            broker_epoch=limits.replica_epoch,
            registered_epoch=self.services.metadata.broker_epoch(limits.replica_id),
        )

    def _note_watched(self) -> None:
        """A follower's partitions that are not looked at, because nothing has changed since its last request:
        it still asks for each of them, from where it asked then, and was refused nothing."""
        session = self.session
        for wanted in session.wanted.values():
            partition = wanted.partition
            if partition is None or wanted.key in session.active:
                continue
            if self._note_follower(wanted, partition):
                session.active[wanted.key] = wanted  # the pass looks at it, and tells the error

    def _exception(self, wanted: WantedPartition, partition: Partition) -> FetchResponse.PartitionData | None:
        """What stands in the way of reading, in Kafka's order; None if nothing does after all."""
        refusal = partition.refusal(wanted.current_leader_epoch, leader_only=self.limits.leader_only)
        if refusal:
            return self._error(wanted, refusal)
        log = partition.log
        offset = wanted.fetch_offset
        if wanted.last_fetched_epoch >= 0 and self.context.version >= FIRST_VERSION_WITH_LAST_EPOCH:
            epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if end_offset < 0 or epoch < 0 or offset < log.log_start_offset:
                return self._error(wanted, _OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end_offset < offset:
                self.must_answer = True
                data = PartitionData(
                    wanted.index, _NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset
                )
                data.diverging_epoch = EpochEndOffset(epoch, end_offset)
                data.aborted_transactions = None
                data.records = b""
                return data
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return self._error(wanted, _OFFSET_OUT_OF_RANGE)
        return None

    def _failed_read(self, wanted: WantedPartition, error: Exception) -> FetchResponse.PartitionData:
        if wanted.partition is not None and not isinstance(error, OffsetOutOfRange):
            self.services.replicas.read_failed(wanted.partition, error)
        return self._error(
            wanted, _OFFSET_OUT_OF_RANGE if isinstance(error, OffsetOutOfRange) else _STORAGE_ERROR
        )

    def _error(self, wanted: WantedPartition, code: int) -> FetchResponse.PartitionData:
        """An error that came up while reading is told at once."""
        self.must_answer = self._has_errors = True
        if wanted.partition is not None:
            wanted.partition.counters.failed_fetch_requests += 1
        return PartitionData(wanted.index, code, -1, -1, -1, None, None, None, None, -1, b"")

    # The answer.

    def _answer(self) -> FetchResponse:
        """The response for what the last pass found; the session remembers what it was told."""
        session = self.session
        found = self._found
        if not self.is_incremental:
            if session.may_stay:
                self._purgatory.sessions.remember(session, now_ms=self._purgatory.clock.monotonic_ms())
        elif session.epoch != self.epoch:
            return FetchResponse(0, _INVALID_EPOCH, session.id)
        topics: list[FetchResponse.FetchableTopicResponse] = []
        append: Callable[[FetchResponse.PartitionData], None] | None = None
        name: str | bytes | None = None
        for wanted, data in found:
            records = data.records
            if self.is_incremental and not (
                records
                or data.error_code
                or data.high_watermark != wanted.high_watermark
                or data.log_start_offset != wanted.log_start_offset
                or data.diverging_epoch is not None
            ):
                continue
            if wanted.key[0] != name:
                name = wanted.key[0]
                partitions: list[FetchResponse.PartitionData] = []
                append = partitions.append
                topics.append(FetchResponse.FetchableTopicResponse(wanted.topic, wanted.topic_id, partitions))
            append(data)  # type: ignore[misc]
            if records:
                records.retain()  # type: ignore[union-attr]
                counters = wanted.partition.counters  # type: ignore[union-attr]
                counters.bytes_out += records.size_bytes  # type: ignore[union-attr, operator]
        if session.id:
            self._settle()
        response = FetchResponse(0, _NONE, session.id, topics)
        return self._refine(self, response) if self._has_errors else response

    def _settle(self) -> None:
        """Note in the session what was told; what was told in full is watched from now on."""
        session = self.session
        active = session.active
        for wanted, data in self._found:
            if data.error_code:
                wanted.high_watermark = -1
                continue
            wanted.high_watermark = data.high_watermark
            wanted.log_start_offset = data.log_start_offset
            if data.records:
                del active[wanted.key]
                active[wanted.key] = wanted
            elif data.diverging_epoch is None and wanted.fetch_offset >= data.high_watermark:
                del active[wanted.key]
                session.watch(wanted)

    # Waiting.

    def _wait(self) -> Pending[FetchResponse]:
        pending: Pending[FetchResponse] = Pending()
        self._pending = pending
        self._missing_bytes = self.limits.min_bytes - self.bytes_found
        self._found = []
        session = self.session
        session.waiting = self
        for wanted in session.active.values():
            session.watch(wanted)
        purgatory = self._purgatory
        purgatory.waiting[self] = None
        deadline_ms = purgatory.clock.monotonic_ms() + self.limits.max_wait_ms
        self._timer = purgatory.timers.call_at(deadline_ms, self.finish)
        pending.on_cancel(self._abandon)
        return pending

    def session_grew(self, wanted: WantedPartition, size_bytes: int) -> None:
        partition = wanted.partition
        if self.limits.read_committed and partition is not None:
            if partition.log.last_stable_offset <= wanted.fetch_offset:
                self._was_held_back = True
                self.session.watch(wanted)
                return
            if self._was_held_back:  # a decision made more readable than what came last
                self.session_changed()
                return
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.session_changed()
        else:
            self.session.watch(wanted)

    def session_changed(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._purgatory.wake(self)

    def session_taken_over(self) -> None:
        pending = self._leave()
        if pending is not None:
            pending.complete(FetchResponse(0, _INVALID_EPOCH, self.session.id))

    def finish(self) -> None:
        """Answer now, with whatever there is. Once answered or given up, later calls do nothing."""
        pending = self._leave()
        if pending is not None:
            pending.complete_by(self._look_again)

    def _look_again(self) -> FetchResponse:
        """The second pass. It runs in a turn of somebody else, where nothing may be raised but by
        `complete_by`."""
        try:
            self._has_errors = self._is_first_pass = False
            self._pass()
            return self._answer()
        finally:
            if not self.session.id:
                self.session.unwatch_all()

    def _abandon(self) -> None:
        """The client has gone."""
        self._leave()
        if not self.session.id:
            self.session.unwatch_all()

    def _leave(self) -> Pending[FetchResponse] | None:
        """Out of the purgatory; the promise, if it was still open."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        del self._purgatory.waiting[self]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.session.waiting = None
        return pending


def refused_data(index: int, code: int) -> FetchResponse.PartitionData:
    """A partition that was not even looked at: not allowed, or not there."""
    return PartitionData(index, code, -1, -1, -1, None, None, None, [], -1, b"")
