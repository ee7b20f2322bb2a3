"""One partition that a fetcher copies: its state, what it asks for, and what an answer to that means.

Nothing here does input or output. An answer becomes a verdict; `replica_fetcher` carries it out, and reports
the result with one of the methods that change the state. Offsets and epochs change together with the state:
`fetch_offset` of a partition in FETCHING is always the end of its log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from broker.replication.fetcher.fetch_transitions import (
    STARTING_STATES,
    TRANSITIONS,
    FetchCause,
    FetchState,
)
from broker.replication.partition_state import TopicIdPartition
from broker.replication.roles import NO_EPOCH
from protocol.errors import ErrorCode, invariant
from protocol.messages.fetch import FetchRequest, FetchResponse

__all__ = ["LOG_LEVELS", "PartitionFetch", "Verdict"]

NOT_DELAYED: Final = 0
FIRST_PAUSE_MS: Final = 50
UNKNOWN_LAG: Final = -1


class Verdict(Enum):
    """What is to be done with the answer for one partition."""

    IGNORE = "the partition has moved on since it was asked for"
    APPEND = "append the records, and follow the leader's high watermark and log start"
    TRUNCATE = "cut the log to what it has in common with the leader's"
    FIND_OFFSET = "ask the leader where its log begins and ends"
    RETRY = "ask again after a pause"
    FAIL = "ask no more in this leader epoch"


LOG_LEVELS: Final[Mapping[int, int]] = MappingProxyType(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER: logging.DEBUG,
        ErrorCode.UNKNOWN_LEADER_EPOCH: logging.DEBUG,
        ErrorCode.OFFSET_OUT_OF_RANGE: logging.INFO,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: logging.WARNING,
        ErrorCode.UNKNOWN_TOPIC_ID: logging.WARNING,
        ErrorCode.INCONSISTENT_TOPIC_ID: logging.WARNING,
    }
)
"""The level at which an error of a partition is logged; any other error is logged as an error. Those at DEBUG
occur with every change of a leader, while only one of leader and follower has replayed it."""

NEWS_IS_LATE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH)
"""What a leader answers that has not heard yet that it leads."""


class PartitionFetch:
    """A partition in one leader epoch. A later epoch is followed with a new object.

    fetch_offset: the end of its log. last_fetched_epoch: the leader epoch of its last record, NO_EPOCH if
    none is known. due_ms: the partition is not fetched before this time. lag: how far the log's end was
    behind the leader's high watermark, UNKNOWN_LAG before the first answer.
    """

    __slots__ = (
        "due_ms",
        "fetch_offset",
        "index",
        "lag",
        "last_error",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "pause_ms",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        *,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        state: FetchState = FetchState.FETCHING,
    ) -> None:
        invariant(state in STARTING_STATES, "a partition begins to be fetched as the table says", state=state)
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.state = state
        self.due_ms = NOT_DELAYED
        self.pause_ms = FIRST_PAUSE_MS
        """The pause after the next answer of a leader that has not heard yet that it leads."""
        self.lag = UNKNOWN_LAG
        self.last_error: object = ErrorCode.NONE
        """The error in the latest answer, so that a lasting error is logged once."""

    def __repr__(self) -> str:
        return f"{self.name} ({self.state.value} at {self.fetch_offset} in epoch {self.leader_epoch})"

    @property
    def key(self) -> TopicIdPartition:
        return self.topic_id, self.index

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_in_sync(self) -> bool:
        """Whether it had everything that was committed when the leader answered last."""
        return self.lag == 0

    def is_ready(self, now_ms: int) -> bool:
        """Whether it is in the next fetch."""
        return self.state is FetchState.FETCHING and self.due_ms <= now_ms

    def asked(self, max_bytes: int) -> FetchRequest.FetchPartition:
        """The partition's entry in a fetch request."""
        return FetchRequest.FetchPartition(
            partition=self.index,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.fetch_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=self.log_start_offset,
            partition_max_bytes=max_bytes,
        )

    def judge(
        self, asked: FetchRequest.FetchPartition, answer: FetchResponse.PartitionData, now_ms: int
    ) -> Verdict:
        """What is to be done with an answer to what was `asked`."""
        if (
            not self.is_ready(now_ms)
            or asked.fetch_offset != self.fetch_offset
            or asked.current_leader_epoch != self.leader_epoch
        ):
            return Verdict.IGNORE
        error = answer.error_code
        if error == ErrorCode.NONE:
            diverging = answer.diverging_epoch
            return Verdict.APPEND if diverging is None or diverging.epoch < 0 else Verdict.TRUNCATE
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            return Verdict.FIND_OFFSET
        return Verdict.FAIL if error == ErrorCode.FENCED_LEADER_EPOCH else Verdict.RETRY

    # Results.

    def append_waits(self) -> None:
        self._enter(FetchState.APPENDING, FetchCause.APPEND_WAITS)

    def appended(
        self, fetch_offset: int, last_fetched_epoch: int, *, high_watermark: int, log_start_offset: int
    ) -> None:
        """Takes in that the answer's records, if there were any, are in the log. high_watermark: the
        leader's."""
        invariant(
            fetch_offset >= self.fetch_offset,
            "an append does not shorten the log",
            partition=self,
            log_end_offset=fetch_offset,
        )
        self._enter(FetchState.FETCHING, FetchCause.APPENDED)
        self.fetch_offset = fetch_offset
        if last_fetched_epoch != NO_EPOCH:
            self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.lag = max(0, high_watermark - fetch_offset)
        self.last_error = ErrorCode.NONE

    def append_failed(self, fetch_offset: int, last_fetched_epoch: int) -> None:
        """Takes in that the records, or those behind `fetch_offset`, are not in the log. The caller delays
        the partition, too."""
        if self.state is FetchState.APPENDING:
            self._enter(FetchState.FETCHING, FetchCause.APPEND_FAILED)
        self.fetch_offset = fetch_offset
        if last_fetched_epoch != NO_EPOCH:
            self.last_fetched_epoch = last_fetched_epoch

    def diverged(self) -> None:
        self._enter(FetchState.TRUNCATING, FetchCause.DIVERGED)

    def is_out_of_range(self) -> None:
        self._enter(FetchState.FINDING_OFFSET, FetchCause.OUT_OF_RANGE)

    def must_truncate(self) -> None:
        """Takes in that the leader has told its log start and log end, and that this log must be truncated,
        or begin anew."""
        self._enter(FetchState.TRUNCATING, FetchCause.OFFSET_FOUND)

    def may_go_on(self) -> None:
        """Takes in that the leader has told its log start and log end, and that this log may stay as it
        is."""
        self._enter(FetchState.FETCHING, FetchCause.OFFSET_FOUND)

    def no_offset_found(self) -> None:
        """Takes in that the leader has not told its log start and log end. The caller delays the partition,
        too."""
        self._enter(FetchState.FETCHING, FetchCause.NO_OFFSET_FOUND)

    def truncated(self, fetch_offset: int, last_fetched_epoch: int, log_start_offset: int) -> None:
        """Takes in that the log was truncated, and ends at `fetch_offset` now."""
        self._enter(FetchState.FETCHING, FetchCause.TRUNCATED)
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset

    def fail(self, cause: FetchCause) -> None:
        self._enter(FetchState.FAILED, cause)

    def pause_after(self, error: int, backoff_ms: int) -> int:
        """How long to wait before this partition is fetched again. backoff_ms: replica.fetch.backoff.ms.

        A leader that has not heard yet that it leads hears of it in some milliseconds as a rule, and
        producers with acks=all wait for this follower meanwhile. So the first pauses are short, and each is
        twice as long as the one before. Apache Kafka waits for the whole time at once.
        """
        if error not in NEWS_IS_LATE:
            return backoff_ms
        pause_ms, self.pause_ms = min(self.pause_ms, backoff_ms), 2 * self.pause_ms
        return pause_ms

    def delay(self, due_ms: int) -> None:
        self.due_ms = due_ms

    def _enter(self, state: FetchState, cause: FetchCause) -> None:
        """Changes the state. This is the only place where it changes."""
        if cause not in TRANSITIONS.get((self.state, state), ()):
            invariant(
                False,
                "a partition is fetched as the table says",
                partition=self,
                old=self.state,
                new=state,
                cause=cause,
            )
        self.state = state
