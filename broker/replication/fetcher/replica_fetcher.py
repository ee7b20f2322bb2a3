"""One connection to one leader, over which this broker copies the partitions that it follows there.

One fetch is under way at a time: the records in its answer are appended, and the next fetch tells the leader
the new ends of the logs. What concerns a single partition (a truncation, an append that waits for a slow
disk, the question where the leader's log begins) goes on beside the fetches of the others, and an error of
one partition delays only that one. In Kafka this is `ReplicaFetcherThread`.

    answer ──▶ verdict for each partition ──▶ append, cut, ask for offsets, delay, fail ──▶ next fetch

Everything happens on the loop. An answer for a partition that is no longer followed, or is followed in
another leader epoch by then, is dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.replication.fetcher.fetch_plan import FetchPlan
from broker.replication.fetcher.fetch_transitions import FetchCause, FetchState
from broker.replication.fetcher.fetcher_surroundings import FetcherChannel, FetcherSurroundings
from broker.replication.fetcher.followed_log import FollowedLog, begin_fetch
from broker.replication.fetcher.leader_requests import (
    EARLIEST,
    LATEST,
    OffsetAnswer,
    answers_by_partition,
    fetch_request,
    list_offsets_request,
    offsets_by_partition,
)
from broker.replication.fetcher.partition_fetch import LOG_LEVELS, PartitionFetch, Verdict
from broker.replication.partition import Partition
from broker.replication.partition_state import NO_BROKER_EPOCH, TopicIdPartition
from config.ports import Timer
from protocol.codec.message import Message
from protocol.errors import EndsProcess, ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsResponse
from protocol.peer_channel import PeerError
from storage.append import AppendResult
from storage.errors import AppendRefused, LogStorageError, is_out_of_space
from storage.waiting_append import Outcome, WaitingAppend

__all__ = ["ReplicaFetcher"]

_log = logging.getLogger("barnabas.replicas.fetcher")

SLICE_NS: Final = 4_000_000
"""After this time the loop serves others before the next partition of an answer is appended."""

REGISTRATION_LOOK_MS: Final = 50
"""Until this broker has registered it fetches nothing: a leader could take its fetches for those of its
registration before, and count on records that have been lost since (KIP-903)."""

QUIET_BETWEEN_LOOKS: Final = 64
"""The clock is read once for so many partitions without records."""

THROTTLED_MS: Final = 100
"""The time for which throttled partitions wait until the rate is looked at again."""

RATE_WINDOW_MS: Final = 30_000

LOG_START_LOOK_MS: Final = 1_000
"""How often the log starts of this broker's own logs are compared with what the leader was told."""


class ReplicaFetcher:
    """name: the name of the fetcher and its leader, for the log and the metrics."""

    def __init__(self, name: str, channel: FetcherChannel, surroundings: FetcherSurroundings) -> None:
        self.name = name
        self.plan = FetchPlan(surroundings.settings.max_bytes)
        self.bytes_fetched = 0
        self.requests_sent = 0
        self._channel = channel
        self._node = surroundings
        self._settings = surroundings.settings
        self._clock = surroundings.clock
        self._rate_windows = deque(((surroundings.clock.monotonic_ms(), 0),), 2)
        """When the last two windows of the fetch rate began, and how many fetches had been sent then."""
        self._timers = surroundings.timers
        self._logs: dict[TopicIdPartition, FollowedLog] = {}
        self._to_find: dict[TopicIdPartition, PartitionFetch] = {}
        """The partitions whose leader is to be asked for its log start and log end."""
        self._is_fetching = False
        self._is_armed = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._next_look_ms = 0
        self._says_epoch = True
        """Whether the leader's broker understands a follower's broker epoch (KIP-903, version 15 of
        Fetch)."""
        self._trouble = ""
        """The reason for which the last fetch has failed as a whole, so that it is logged once."""

    def __len__(self) -> int:
        """The number of partitions that are followed here, those that have failed included."""
        return len(self._logs)

    def fetch_rate(self, now_ms: int) -> float:
        """The number of fetches a second over the last one to two windows, or since it was made."""
        self._turn_rate_window(now_ms)
        began_ms, sent_before = self._rate_windows[0]
        return 1_000 * (self.requests_sent - sent_before) / max(1, now_ms - began_ms)

    def _turn_rate_window(self, now_ms: int) -> None:
        """Called with each fetch and each question, so that a fetcher that has fallen silent shows it."""
        if now_ms - self._rate_windows[-1][0] >= RATE_WINDOW_MS:
            self._rate_windows.append((now_ms, self.requests_sent))

    # What is followed.

    def follow(self, partition: Partition) -> None:
        """Copies a partition from now on, or in its new leader epoch."""
        fetch = begin_fetch(partition)
        if not self.plan.add(fetch):
            return
        followed = self._logs[fetch.key] = FollowedLog(partition)
        if fetch.state is FetchState.TRUNCATING:
            self._truncate(fetch, partial(followed.truncate_to, fetch.fetch_offset))
        self._soon()

    def leave(self, key: TopicIdPartition) -> None:
        """Stops copying a partition."""
        self._logs.pop(key, None)
        self._to_find.pop(key, None)
        if self.plan.remove(key) is not None:
            self._soon()

    def followed(self) -> list[Partition]:
        return [each.partition for each in self._logs.values()]

    def close(self) -> None:
        """Stops copying, and closes the connection when the code that runs now has returned, because that may
        be handling an answer."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._timers.call_soon(self._channel.close_channel)

    # Fetches.

    def _soon(self) -> None:
        """Goes on in the next turn of the loop, or with the answer if a fetch is under way."""
        if not self._is_armed and not self._is_closed and not self._is_fetching:
            self._is_armed = True
            self._timers.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Asks for log starts and log ends, and fetches what is to be fetched now."""
        self._is_armed = False
        if self._is_closed:
            return
        if self._to_find:
            self._find_offsets()
        if self._is_fetching:
            return
        now_ms = self._clock.monotonic_ms()
        broker_epoch = self._node.broker_epoch()
        if broker_epoch == NO_BROKER_EPOCH:
            self._wait_until(now_ms + REGISTRATION_LOOK_MS)
            return
        if now_ms >= self._next_look_ms:
            self._next_look_ms = now_ms + LOG_START_LOOK_MS
            self._look_at_log_starts()
        if self._node.quota.is_exceeded(now_ms):
            self._hold_back_throttled(now_ms)
        built = self.plan.build(now_ms)
        if built is None:
            self._wait_until(self.plan.next_due_ms())
            return
        self._is_fetching = True
        self._turn_rate_window(now_ms)
        self.requests_sent += 1
        request = fetch_request(
            self._node.node_id,
            broker_epoch if self._says_epoch else None,
            self._settings,
            built,
            may_wait=self.plan.may_wait,
        )
        self._channel.send(request, self._fetched, timeout_ms=self._settings.timeout_ms)

    def _wait_until(self, due_ms: int | None) -> None:
        """Goes on at this time; with None, when a partition changes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            self._timer = self._timers.call_at(due_ms, self._soon)

    def _look_at_log_starts(self) -> None:
        """Notes the log start offsets that have changed here, by retention. The next fetch tells them to the
        leader, where DeleteRecords may wait for them."""
        for fetch in self.plan.partitions.values():
            start = self._logs[fetch.key].log_start_offset
            if start != fetch.log_start_offset:
                fetch.log_start_offset = start
                self.plan.changed(fetch)

    def _hold_back_throttled(self, now_ms: int) -> None:
        """Leaves the throttled partitions that have not caught up out of the next fetches."""
        quota = self._node.quota
        for fetch in self.plan.partitions.values():
            if (
                not fetch.is_in_sync
                and fetch.is_ready(now_ms)
                and quota.is_throttled(fetch.topic, fetch.index)
            ):
                self.plan.delay(fetch, now_ms + THROTTLED_MS)

    def _fetched(self, response: Message | PeerError) -> None:
        self._is_fetching = False
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        session = self.plan.session
        if not isinstance(response, FetchResponse):
            session.failed()
            if isinstance(response, PeerError) and response.is_unsupported:
                self._says_epoch = not self._says_epoch
            self._all_failed(response.reason if isinstance(response, PeerError) else "no answer", now_ms)
            return
        answers = answers_by_partition(response)
        trouble = session.answered(response.error_code, response.session_id, answers)
        if trouble:
            self._session_ended(trouble, response.error_code, now_ms)
            return
        self._trouble = ""
        self._is_fetching = True
        self._take_all(deque(answers.items()), is_view=True)

    def _take_all(
        self, answers: deque[tuple[TopicIdPartition, FetchResponse.PartitionData]], *, is_view: bool
    ) -> None:
        """Handles some of the partitions of an answer; the others follow when the loop has served others.

        is_view: the records lie in the buffer of the network, which holds another answer after this turn.
        """
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        end_ns = self._clock.monotonic_ns() + SLICE_NS
        while answers:
            key, answer = answers.popleft()
            fetch = self.plan.partitions.get(key)
            if fetch is None:
                continue
            asked = self.plan.session.partitions[key]
            self._contained(fetch, partial(self._take, fetch, asked, answer, now_ms))
            is_time_to_look = answer.records or not len(answers) % QUIET_BETWEEN_LOOKS
            if answers and is_time_to_look and self._clock.monotonic_ns() >= end_ns:
                if is_view:
                    for _, each in answers:
                        each.records = bytes(each.records or b"")  # type: ignore[arg-type]
                self._timers.call_soon(partial(self._take_all, answers, is_view=False))
                return
        self._is_fetching = False
        self._go_on()  # at once: the leader waits for it to acknowledge what was appended

    def _session_ended(self, trouble: str, error: int, now_ms: int) -> None:
        """The answer cannot be used, so the next fetch names all partitions. The first time it is sent at
        once, because a leader forgets sessions when it needs their places."""
        is_new = not self._trouble
        if not is_new or error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
            self._all_failed(trouble, now_ms)
            return
        self._trouble = trouble
        _log.info("%s: the fetch session begins anew: %s", self.name, trouble)
        self._soon()

    def _all_failed(self, reason: str, now_ms: int) -> None:
        if reason != self._trouble:
            self._trouble = reason
            _log.warning(
                "%s: a fetch of %d partitions failed: %s", self.name, len(self.plan.partitions), reason
            )
        self.plan.delay_all(now_ms + self._settings.backoff_ms)
        self._soon()

    def _contained(self, fetch: PartitionFetch, deed: Callable[[], None]) -> None:
        """Calls `deed`. An unexpected error makes this partition fail, and no other."""
        try:
            deed()
        except EndsProcess:
            raise
        except Exception:
            _log.exception("%s: %s fails at offset %d", self.name, fetch.name, fetch.fetch_offset)
            if self.plan.has(fetch) and fetch.state is not FetchState.FAILED:
                self._fail(fetch, FetchCause.LOG_FAILED)

    # One partition's answer.

    def _take(
        self,
        fetch: PartitionFetch,
        asked: FetchRequest.FetchPartition,
        answer: FetchResponse.PartitionData,
        now_ms: int,
    ) -> None:
        verdict = fetch.judge(asked, answer, now_ms)
        if verdict is Verdict.APPEND:
            self._append(fetch, answer)
            return
        if verdict is Verdict.IGNORE:
            return
        if verdict is Verdict.TRUNCATE and answer.diverging_epoch is not None:
            self._diverged(fetch, answer.diverging_epoch)
            return
        if verdict is Verdict.FAIL:
            self._fail(fetch, FetchCause.FENCED)
            return
        self._tell(fetch, answer.error_code)
        if verdict is Verdict.FIND_OFFSET:
            fetch.is_out_of_range()
            self.plan.changed(fetch)
            self._to_find[fetch.key] = fetch
        else:
            self._delay(fetch, answer.error_code)

    def _tell(self, fetch: PartitionFetch, error: int) -> None:
        """Logs an error of a partition once while it lasts."""
        if error != fetch.last_error:
            fetch.last_error = error
            _log.log(
                LOG_LEVELS.get(error, logging.ERROR),
                "%s: %s at offset %d in epoch %d: %s",
                self.name, fetch.name, fetch.fetch_offset, fetch.leader_epoch, _name_of(error),
            )  # fmt: skip

    def _delay(self, fetch: PartitionFetch, error: int = ErrorCode.NONE) -> None:
        pause_ms = fetch.pause_after(error, self._settings.backoff_ms)
        self.plan.delay(fetch, self._clock.monotonic_ms() + pause_ms)
        self._soon()

    def _fail(self, fetch: PartitionFetch, cause: FetchCause) -> None:
        """Stops fetching the partition in this epoch. News of a leader come by the metadata log and by its
        answers in either order, so it is no fault that the leader knows a later epoch."""
        _log.log(
            logging.INFO if cause is FetchCause.FENCED else logging.ERROR,
            "%s: %s is fetched no more in epoch %d: %s",
            self.name, fetch.name, fetch.leader_epoch, cause.value,
        )  # fmt: skip
        fetch.fail(cause)
        self.plan.changed(fetch)
        self._soon()

    def _append(self, fetch: PartitionFetch, answer: FetchResponse.PartitionData) -> None:
        followed = self._logs[fetch.key]
        if not followed.follows(fetch.leader_epoch):
            return
        records = answer.records
        size_bytes = 0 if records is None else len(records)  # type: ignore[arg-type]
        if not size_bytes:
            self._appended(fetch, followed, answer.high_watermark, answer.log_start_offset, 0)
            return
        done = partial(self._append_ended, fetch, answer.high_watermark, answer.log_start_offset, size_bytes)
        outcome: Outcome | WaitingAppend
        try:
            outcome = followed.append(records, fetch.leader_epoch, self._clock.wall_ms())  # type: ignore[arg-type]
        except (AppendRefused, LogStorageError) as error:
            outcome = error
        if isinstance(outcome, WaitingAppend):
            fetch.append_waits()
            self.plan.changed(fetch)
            outcome.then(done)
        else:
            done(outcome)

    def _append_ended(
        self,
        fetch: PartitionFetch,
        high_watermark: int,
        log_start_offset: int,
        size_bytes: int,
        outcome: Outcome,
    ) -> None:
        """Called when the records are in the log, or cannot be. This may be much later than the answer."""
        if not self.plan.has(fetch):
            return
        followed = self._logs[fetch.key]
        if not followed.follows(fetch.leader_epoch):
            return
        if isinstance(outcome, AppendResult):
            self._appended(fetch, followed, high_watermark, log_start_offset, size_bytes)
            return
        if str(outcome) != fetch.last_error:
            fetch.last_error = str(outcome)
            _log.error(
                "%s: what came for %s at offset %d is not in the log: %s",
                self.name, fetch.name, fetch.fetch_offset, outcome,
            )  # fmt: skip
        fetch.append_failed(followed.log_end_offset, followed.latest_epoch)
        self._delay(fetch)
        if isinstance(outcome, LogStorageError):
            self._node.suspect(followed.partition.log.directory, outcome.__cause__)

    def _appended(
        self,
        fetch: PartitionFetch,
        followed: FollowedLog,
        high_watermark: int,
        log_start_offset: int,
        size_bytes: int,
    ) -> None:
        followed.follow_leader(high_watermark, log_start_offset)
        self.bytes_fetched += size_bytes
        if size_bytes:
            self._node.copied(followed.partition, size_bytes)
        fetch.appended(
            followed.log_end_offset,
            followed.latest_epoch,
            high_watermark=high_watermark,
            log_start_offset=followed.log_start_offset,
        )
        self.plan.changed(fetch)
        self._soon()

    # Cuts.

    def _diverged(self, fetch: PartitionFetch, diverging: FetchResponse.EpochEndOffset) -> None:
        _log.info(
            "%s: %s differs from its leader's log: epoch %d ends at offset %d there, this log at %d",
            self.name, fetch.name, diverging.epoch, diverging.end_offset, fetch.fetch_offset,
        )  # fmt: skip
        fetch.diverged()
        self.plan.changed(fetch)
        cut = partial(
            self._logs[fetch.key].truncate_to_common,
            fetch.fetch_offset,
            diverging.epoch,
            diverging.end_offset,
        )
        self._truncate(fetch, cut)

    def _truncate(self, fetch: PartitionFetch, cut: Callable[[int], None]) -> None:
        """Truncates the log. cut: the function that does it, which is given the wall clock's time."""
        self._logs[fetch.key].when_quiet(partial(self._cut, fetch, cut))

    def _cut(self, fetch: PartitionFetch, cut: Callable[[int], None]) -> None:
        if self._is_closed or not self.plan.has(fetch):
            return
        followed = self._logs[fetch.key]
        if not followed.follows(fetch.leader_epoch):
            return
        try:
            cut(self._clock.wall_ms())
        except LogStorageError as error:
            _log.error("%s: %s cannot be cut: %s", self.name, fetch.name, error)
            if is_out_of_space(error):
                later_ms = self._clock.monotonic_ms() + self._settings.backoff_ms
                self._timers.call_at(later_ms, partial(self._truncate_again, fetch, cut))
                return
            self._fail(fetch, FetchCause.LOG_FAILED)
            self._node.suspect(followed.partition.log.directory, error.__cause__)
            return
        fetch.truncated(followed.log_end_offset, followed.latest_epoch, followed.log_start_offset)
        self.plan.changed(fetch)
        self._soon()

    def _truncate_again(self, fetch: PartitionFetch, cut: Callable[[int], None]) -> None:
        if self.plan.has(fetch):
            self._truncate(fetch, cut)

    # Where the leader's log begins and ends.

    def _find_offsets(self) -> None:
        """Asks for log start and log end at once. The answers come in the order of the requests."""
        asked, self._to_find = list(self._to_find.values()), {}
        ends: dict[tuple[str, int], OffsetAnswer] = {}
        node_id, timeout_ms = self._node.node_id, self._settings.timeout_ms

        def end_told(response: Message | PeerError) -> None:
            if isinstance(response, ListOffsetsResponse):
                ends.update(offsets_by_partition(response))

        def start_told(response: Message | PeerError) -> None:
            starts = offsets_by_partition(response) if isinstance(response, ListOffsetsResponse) else {}
            for fetch in asked:
                if self.plan.has(fetch) and not self._is_closed:
                    place = (fetch.topic, fetch.index)
                    end, start = ends.get(place), starts.get(place)
                    self._contained(fetch, partial(self._offsets_told, fetch, end, start))

        self._channel.send(list_offsets_request(node_id, asked, LATEST), end_told, timeout_ms=timeout_ms)
        self._channel.send(list_offsets_request(node_id, asked, EARLIEST), start_told, timeout_ms=timeout_ms)

    def _offsets_told(
        self, fetch: PartitionFetch, end: OffsetAnswer | None, start: OffsetAnswer | None
    ) -> None:
        """Goes on where the leader's log and this one have a common offset.

        If the leader's log ends before this one (after an unclean election), this one is truncated to that
        end. If it begins after this one's end (retention has removed records), this one begins anew there.
        Otherwise the leader's log has changed meanwhile, and the fetch is tried again, after a pause in case
        that goes on.
        """
        followed = self._logs[fetch.key]
        if end is None or start is None or end.error_code or start.error_code:
            error = next(
                (each.error_code for each in (end, start) if each is not None and each.error_code), 0
            )
            if error == ErrorCode.FENCED_LEADER_EPOCH:
                self._fail(fetch, FetchCause.FENCED)
                return
            _log.info("%s: no offset is found for %s: %s", self.name, fetch.name, _name_of(error))
            fetch.no_offset_found()
            self._delay(fetch)
            return
        own_end = followed.log_end_offset
        if end.offset < own_end:
            goal, cut = end.offset, partial(followed.truncate_to, end.offset)
        elif start.offset > own_end:
            goal, cut = start.offset, partial(followed.start_anew_at, start.offset)
        else:
            fetch.may_go_on()
            self._delay(fetch)
            return
        _log.warning(
            "%s: offset %d of %s is out of range, its leader has %d to %d: this log goes on at %d",
            self.name, fetch.fetch_offset, fetch.name, start.offset, end.offset, goal,
        )  # fmt: skip
        fetch.must_truncate()
        self._truncate(fetch, cut)


def _name_of(error: int) -> str:
    try:
        return ErrorCode(error).name if error else "no answer"
    except ValueError:
        return f"error {error}"
