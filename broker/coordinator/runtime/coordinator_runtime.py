"""The runtime of a coordinator: one shard per partition of its internal topic that this broker leads.

Requests name a partition and bring an operation. What the operation does, and what becomes of its records, is
told in `coordinator_context`.

A shard that raised and cannot be mended is thrown away: all who wait for it are told to look for the
coordinator, and the partition is read back from its log, as by a new leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

from broker.coordinator.ports import (
    CoordinatorPorts,
    CurrentTime,
    MetadataUpdate,
    PartitionReader,
    PartitionWriter,
    RuntimeSettings,
)
from broker.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorState,
    nobody_waits,
)
from broker.coordinator.runtime.coordinator_loader import CoordinatorLoader
from broker.coordinator.runtime.coordinator_shard import CoordinatorShard
from broker.coordinator.runtime.pending_writes import Transaction
from broker.coordinator.runtime.result import CoordinatorResult
from config.ports import Clock, Timers
from protocol.errors import EndsProcess, ErrorCode
from protocol.serving.pending import Pending

LOG: Final = logging.getLogger("barnabas.coordinator")

R = TypeVar("R")
S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorRuntime(Generic[S]):
    """All partitions of one coordinator that this broker leads."""

    def __init__(
        self,
        topic: str,
        make_shard: Callable[[int], S],
        *,
        writer: PartitionWriter,
        reader: PartitionReader,
        clock: Clock,
        timers: Timers,
        settings: RuntimeSettings,
    ) -> None:
        self._make_shard = make_shard
        self._ports = CoordinatorPorts(topic, writer, reader, clock, timers, settings)
        self._contexts: dict[int, CoordinatorContext[S]] = {}
        self._loader = CoordinatorLoader(self._ports)
        self.failures = 0
        """The number of exceptions of the broker: those that a shard could mend, and those for which it was
        replaced."""

    @property
    def contexts(self) -> Mapping[int, CoordinatorContext[S]]:
        """All partitions that this broker leads, in whatever state they are; for those who watch."""
        return self._contexts

    # Leadership

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Loads the partition, because this broker leads it now. A later epoch of a led one changes nothing,
        unless its log made no sense the last time."""
        context = self._contexts.get(partition)
        if context is None:
            self._loader.start(self._new_context(partition, leader_epoch))
        elif context.leader_continues(leader_epoch):
            self._loader.start(context)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Gives the partition up, because this broker does not lead it any more, or (None) it is deleted. An
        epoch older than that of the election is ignored."""
        context = self._contexts.get(partition)
        if context is None or (leader_epoch is not None and leader_epoch < context.leader_epoch):
            return
        del self._contexts[partition]
        context.close()

    def close(self) -> None:
        """Gives all partitions up, because the broker stops."""
        for partition in list(self._contexts):
            self.resigned(partition)

    def shards(self) -> Iterator[tuple[int, S | None]]:
        """Every led partition with its shard, or None while that is loading. Those that were given up are
        left out."""
        for partition in sorted(self._contexts):
            context = self._contexts[partition]
            if context.state is not CoordinatorState.FAILED:
                yield partition, context.shard if context.state is CoordinatorState.ACTIVE else None

    # Operations

    def write(
        self,
        partition: int,
        operation: Callable[[S, CurrentTime], CoordinatorResult[R]],
        failed: Callable[[ErrorCode], R],
        *,
        waiting: Pending[R] | None = None,
        transaction: Transaction | None = None,
    ) -> R | Pending[R]:
        """Run `operation` on the partition's shard, and answer when its records are committed.

        `failed` makes the response for an error: not the coordinator, still loading, or what the log
        answered. `waiting` is given by operations that answer it themselves later (they return no response).
        With `transaction` the records belong to the transaction of that producer and count when it is
        completed; they are in one batch.
        """
        context = self._contexts.get(partition)
        refusal = ErrorCode.NOT_COORDINATOR if context is None else context.refusal()
        if context is None or refusal is not ErrorCode.NONE:
            return failed(refusal)
        return context.write(operation, failed, waiting, transaction)

    def read(
        self, partition: int, operation: Callable[[S, CurrentTime], R], failed: Callable[[ErrorCode], R]
    ) -> R:
        """Runs an operation without records, and answers without waiting for earlier writes."""
        context = self._contexts.get(partition)
        refusal = ErrorCode.NOT_COORDINATOR if context is None else context.refusal()
        if context is None or refusal is not ErrorCode.NONE:
            return failed(refusal)
        return context.read(operation, failed)

    def max_batch_bytes(self, partition: int) -> int:
        """The largest batch that the partition's log takes. An operation whose records would be larger need
        not make them all."""
        return self._ports.writer.max_batch_bytes(self._ports.topic, partition)

    def metadata_updated(self, update: MetadataUpdate) -> None:
        """Tells all active shards of a change in the cluster's metadata."""
        for context in list(self._contexts.values()):
            if context.state is CoordinatorState.ACTIVE:
                context.write(partial(_metadata_updated, update), nobody_waits)

    # Errors of ours, see ContextOwner

    def shard_failed(self) -> None:
        self.failures += 1

    def restart(self, context: CoordinatorContext[S]) -> None:
        self.failures += 1
        topic, partition = self._ports.topic, context.partition
        LOG.exception("%s-%d failed; this is our fault. It is read back", topic, partition)
        if self._contexts.get(partition) is not context:
            return
        try:
            self.resigned(partition)
        except EndsProcess:
            raise
        except Exception:
            LOG.exception("%s-%d could not set everybody free", topic, partition)
        context.answer_parked(ErrorCode.NOT_COORDINATOR)
        self._loader.start_later(self._new_context(partition, context.leader_epoch))

    def _new_context(self, partition: int, leader_epoch: int) -> CoordinatorContext[S]:
        context = CoordinatorContext(partition, leader_epoch, self._make_shard, self._ports, self)
        self._contexts[partition] = context
        return context


def _metadata_updated(
    update: MetadataUpdate, shard: CoordinatorShard, now: CurrentTime
) -> CoordinatorResult[Any]:
    return shard.metadata_updated(update, now)
