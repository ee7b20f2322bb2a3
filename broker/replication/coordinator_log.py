"""The partitions of the coordinators' topics, as the coordinators write and read them.

A coordinator keeps its state in a partition that this broker leads: what it decides is appended with
acks=all and holds once it is replicated, and what it knows at the start is read back from the log, to its
end, as Kafka's CoordinatorLoaderImpl does. The end may not be replicated yet when a leader is new: the
coordinator answers nobody before it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeAlias

from broker.replication.appending import PartitionAppends, refused
from broker.replication.partition import Partition
from config.ports import Clock
from protocol.errors import ErrorCode, InvariantViolated
from protocol.records.errors import CorruptRecord
from storage.append import AppendResult
from storage.errors import AppendRefused, CorruptSegment, LogStorageError, OffsetOutOfRange
from storage.log_config import LogConfig
from storage.waiting_append import Outcome

__all__ = ["CoordinatorLog", "OnCommitted"]

OnCommitted: TypeAlias = Callable[["AppendResult | AppendRefused"], None]
"""Called with the place of a coordinator's batch when the high watermark has passed it, or with the error for
which it never will."""


class HostedPartitions(Protocol):
    """What this module needs of the replica manager."""

    @property
    def by_name(self) -> Mapping[tuple[str, int], Partition]: ...

    def why_not_hosted(self, topic: str, index: int) -> ErrorCode: ...


class CoordinatorLog:
    """Writes and reads for the coordinators, see `broker.coordinator.ports`."""

    def __init__(self, hosted: HostedPartitions, appends: PartitionAppends, clock: Clock) -> None:
        self._hosted = hosted
        self._appends = appends
        self._clock = clock

    def append_internal(
        self, topic: str, index: int, batch: bytes, on_result: OnCommitted, transaction_version: int = 0
    ) -> None:
        """Appends a coordinator's batch with acks=all. `on_result` is called once, at once or later, see
        `OnCommitted`. transaction_version: that of the transaction that a marker ends."""
        partition = self._hosted.by_name.get((topic, index))
        if partition is None:
            on_result(refused(self._hosted.why_not_hosted(topic, index)))
            return
        try:
            result = self._appends.append_own(partition, batch, self._clock.wall_ms(), transaction_version)
        except AppendRefused as error:
            on_result(error)
            return
        if isinstance(result, AppendResult):
            _answer_when_replicated(partition, on_result, result)
        else:
            result.then(partial(_answer_when_replicated, partition, on_result))

    def await_committed(self, topic: str, index: int, on_result: Callable[[ErrorCode], None]) -> None:
        """Calls `on_result` once, at once or later: with NONE when all that the log holds now is
        replicated."""
        partition = self._hosted.by_name.get((topic, index))
        if partition is None:
            on_result(self._hosted.why_not_hosted(topic, index))
            return
        end_offset = partition.log.log_end_offset
        if partition.log.high_watermark >= end_offset:
            on_result(ErrorCode.NONE)
        else:
            partition.wait_for_commit(end_offset, _OwnWait(on_result))

    def max_batch_bytes(self, topic: str, index: int) -> int:
        """The size of the largest batch that a partition takes. For one that is not hosted it is Kafka's
        default."""
        partition = self._hosted.by_name.get((topic, index))
        return (LogConfig() if partition is None else partition.log.config).max_message_bytes

    def read_batches(self, topic: str, index: int, from_offset: int, max_bytes: int) -> bytes:
        """Reads whole batches from the one with `from_offset` on, up to the log's end; `b""` at the end.

        It is at least one batch, otherwise at most `max_bytes`. Raises OSError if the disk fails, LookupError
        if the partition is not hosted, and CorruptRecord for bytes that are no batch and for an offset beyond
        the end.
        """
        partition = self._hosted.by_name.get((topic, index))
        if partition is None:
            raise LookupError(f"{topic}-{index} is not hosted by this broker")
        log = partition.log
        try:
            found = log.read(
                max(from_offset, log.log_start_offset),
                max_bytes=max_bytes,
                up_to_offset=log.log_end_offset,
                at_least_one_batch=True,
            )
            return b"" if found is None else found.read()
        except (OffsetOutOfRange, CorruptSegment) as error:
            raise CorruptRecord(str(error)) from error
        except LogStorageError as error:
            raise OSError(str(error)) from error


class InternalAppend:
    """A coordinator's batch that is not replicated yet."""

    __slots__ = ("_on_result", "_result")

    def __init__(self, on_result: OnCommitted, result: AppendResult) -> None:
        self._on_result = on_result
        self._result = result

    def replicated(self, partition: Partition, error: ErrorCode) -> None:
        """Implements `partition_listeners.CommitWaiter`."""
        self._on_result(refused(error) if error else self._result)


class _OwnWait:
    """Waits until the records that a coordinator has found in its log are replicated."""

    __slots__ = ("_on_result",)

    def __init__(self, on_result: Callable[[ErrorCode], None]) -> None:
        self._on_result = on_result

    def replicated(self, partition: Partition, error: ErrorCode) -> None:
        """Implements `partition_listeners.CommitWaiter`."""
        self._on_result(error)


def _answer_when_replicated(partition: Partition, on_result: OnCommitted, outcome: Outcome) -> None:
    if isinstance(outcome, LogStorageError):
        raise InvariantViolated(f"an append to {partition!r} ended with {outcome!r}, as nobody may see it")
    if isinstance(outcome, AppendResult) and partition.log.high_watermark <= outcome.last_offset:
        partition.wait_for_commit(outcome.last_offset + 1, InternalAppend(on_result, outcome))
    else:
        on_result(outcome)
