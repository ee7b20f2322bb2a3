"""What a fetcher does to the log of one partition: it appends, truncates, and takes over offsets.

Batches are appended as the leader sent them; their headers and checksums are validated, and their records are
not. The high watermark is the leader's, at most the end of this log; it never falls, even if a new leader has
a lower one at first. The log start offset is the leader's.

A leader that sees by the last fetched epoch that the follower's log is not a part of its own answers with the
largest epoch that it has, at or below the follower's, and where that epoch ends (KIP-595). The follower looks
for the same epoch in its own log: KIP-101, KIP-279.

    leader     epoch 1 |0 … 9|  epoch 3 |10 … 19|
    follower   epoch 1 |0 … 12| epoch 2 |13 … 15|     asks at 16 with epoch 2; is answered (1, 10)

The follower has epoch 1 up to 13, and cuts at 10. Had it no epoch 1, it would cut at the end of what it has
of an earlier one, and learn more with its next fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.fetcher.fetch_transitions import FetchState
from broker.replication.fetcher.partition_fetch import PartitionFetch
from broker.replication.partition import Partition
from broker.replication.roles import NO_EPOCH
from protocol.records.errors import RecordsError
from protocol.records.header import ReadBuffer, headers
from storage.append import AppendResult
from storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs
from storage.waiting_append import WaitingAppend

__all__ = ["FollowedLog", "begin_fetch", "truncation_offset"]

_log = logging.getLogger("barnabas.replicas.fetcher")


def begin_fetch(partition: Partition) -> PartitionFetch:
    """A follower fetches from the end of its log. If the leader epochs of its records are not known, it
    truncates the log to the high watermark first, and fetches from there."""
    log = partition.log
    end, epoch = log.log_end_offset, log.leader_epochs.latest_epoch
    must_cut = epoch == NO_EPOCH and log.high_watermark < end
    return PartitionFetch(
        partition.topic,
        partition.topic_id,
        partition.index,
        leader_epoch=partition.leader_epoch,
        fetch_offset=log.high_watermark if must_cut else end,
        last_fetched_epoch=epoch,
        log_start_offset=log.log_start_offset,
        state=FetchState.TRUNCATING if must_cut else FetchState.FETCHING,
    )


class FollowedLog:
    """The log of a partition that this broker follows."""

    __slots__ = ("partition",)

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    @property
    def log_start_offset(self) -> int:
        return self.partition.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        return self.partition.log.leader_epochs.latest_epoch

    def follows(self, leader_epoch: int) -> bool:
        """Whether the partition still follows a leader in this epoch. If not, nothing may be done for it."""
        partition = self.partition
        return partition.leader_epoch == leader_epoch and not partition.is_leader and not partition.is_offline

    def append(self, records: ReadBuffer, leader_epoch: int, now_ms: int) -> AppendResult | WaitingAppend:
        """Appends as `PartitionLog.append_as_follower` does. An empty log may begin before the offset that it
        asked for: the leader's log start may lie within a batch, which comes as a whole."""
        log = self.partition.log
        if log.log_end_offset == log.log_start_offset and not log.appends.queue.prepared:
            first = _batch_around(records, log.log_end_offset)
            if first is not None:
                _log.info(
                    "%s is empty and begins at offset %d, with the batch in which its leader's log starts",
                    log.name, first,
                )  # fmt: skip
                log.truncate_fully_and_start_at(first, now_ms=now_ms)
        return log.append_as_follower(records, now_ms, leader_epoch)

    def follow_leader(self, high_watermark: int, log_start_offset: int) -> None:
        """Takes over the leader's high watermark and log start offset. Fetches that wait at this replica are
        told of what they can read now."""
        start = min(log_start_offset, self.partition.log.log_end_offset)
        self.partition.follow_leader(high_watermark, start)

    def when_quiet(self, call: Callable[[], None]) -> None:
        """Calls back when no append is under way, not even one from the time when this broker led. Only then
        may the log be truncated."""
        self.partition.log.appends.when_quiet(call)

    def truncate_to_common(self, fetch_offset: int, leader_epoch: int, end_offset: int, now_ms: int) -> None:
        """Truncates what is not in the leader's log, given the diverging epoch in its answer. Raises
        LogStorageError."""
        log = self.partition.log
        self.truncate_to(
            truncation_offset(
                log.leader_epochs,
                log.log_end_offset,
                fetch_offset,
                leader_epoch=leader_epoch,
                end_offset=end_offset,
            ),
            now_ms,
        )

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Removes everything from `offset` on. Raises LogStorageError."""
        log = self.partition.log
        end, high_watermark = log.log_end_offset, log.high_watermark
        if offset < high_watermark:
            _log.warning(
                "Truncating %s to offset %d below high watermark %d", log.name, offset, high_watermark
            )
        log.truncate_to(offset, now_ms=now_ms)
        _log.info(
            "Truncated %s from offset %d to %d; its leader epoch is %d", log.name, end, log.log_end_offset,
            self.partition.leader_epoch,
        )  # fmt: skip
        self.partition.tell_changed()

    def start_anew_at(self, offset: int, now_ms: int) -> None:
        """Removes everything; the next record gets `offset`. Raises LogStorageError."""
        log = self.partition.log
        end = log.log_end_offset
        log.truncate_fully_and_start_at(offset, now_ms=now_ms)
        _log.warning(
            "Truncated %s fully: it begins anew at offset %d, as its leader's log; it ended at %d",
            log.name, offset, end,
        )  # fmt: skip
        self.partition.tell_changed()


def _batch_around(records: ReadBuffer, offset: int) -> int | None:
    """The offset with which the first batch begins, if it begins before `offset` and ends there or later."""
    try:
        first = next(headers(records), None)
    except RecordsError:
        return None  # the append says what is wrong
    if first is None:
        return None
    _, header = first
    last_offset = header.base_offset + header.last_offset_delta
    return header.base_offset if header.base_offset < offset <= last_offset else None


def truncation_offset(
    epochs: LeaderEpochs, log_end_offset: int, fetch_offset: int, *, leader_epoch: int, end_offset: int
) -> int:
    """The offset to which the log must be truncated; its end if nothing is to be removed.

    epochs, log_end_offset, fetch_offset: those of this follower. leader_epoch, end_offset: the leader's
    answer.
    """
    if end_offset == UNDEFINED_OFFSET:
        return min(fetch_offset, log_end_offset)
    if leader_epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end_offset)
    own_epoch, own_end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    if own_epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end_offset, log_end_offset)
    return min(own_end_offset, end_offset, log_end_offset)
