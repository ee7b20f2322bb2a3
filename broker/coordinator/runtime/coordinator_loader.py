"""Which partition is loaded next, and what happens when its log cannot be read.

Partitions are loaded in turns: one slice of the first in line, then it goes to the end of the line, and the
loop's other work comes in between.

A log that cannot be read now (the disk fails) is tried again after a pause. A log that makes no sense is
given up, alone: what its partition coordinates gets NOT_COORDINATOR, as from Kafka, until an election or the
next start loads it again.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

from broker.coordinator.ports import CoordinatorPorts
from broker.coordinator.runtime.coordinator_context import CoordinatorContext, CoordinatorState
from broker.coordinator.runtime.partition_load import LogOutOfReach, PartitionLoad
from protocol.errors import EndsProcess
from protocol.records.errors import RecordsError

LOG: Final = logging.getLogger("barnabas.coordinator")
LOAD_RETRY_MS: Final = 1000
"""The pause before a partition is loaded again whose log could not be read, or whose shard has failed."""

Context = CoordinatorContext[Any]


class CoordinatorLoader:
    """Loads the partitions of one coordinator."""

    def __init__(self, ports: CoordinatorPorts) -> None:
        self._ports = ports
        self._line: deque[Context] = deque()
        self._troubles: dict[int, str] = {}
        """The reason for which the last load of each partition has ended early."""

    def start(self, context: Context) -> None:
        """Loads a partition that is in state LOADING."""
        self._line.append(context)
        if len(self._line) == 1:
            self._ports.timers.call_soon(self._next_slice)

    def start_later(self, context: Context) -> None:
        """Loads a partition after a pause, with a new shard."""
        load = context.load

        def start_again() -> None:
            if context.state is CoordinatorState.LOADING and context.load is load:
                context.load_again()
                self.start(context)

        self._ports.timers.call_at(self._ports.clock.monotonic_ms() + LOAD_RETRY_MS, start_again)

    def _next_slice(self) -> None:
        context = self._line.popleft()
        try:
            if context.state is CoordinatorState.LOADING and context.load is not None:
                self._load_on(context, context.load)
        finally:
            if self._line:
                self._ports.timers.call_soon(self._next_slice)

    def _load_on(self, context: Context, load: PartitionLoad) -> None:
        topic, partition = self._ports.topic, context.partition
        try:
            if not load.step(self._ports.settings.slice_records):
                self._line.append(context)
                return
            context.loaded()
        except LogOutOfReach as problem:
            if str(problem) != self._troubles.get(partition):
                LOG.error("cannot load %s-%d, trying again: %s", topic, partition, problem)
            self._troubles[partition] = str(problem)
            self.start_later(context)
            return
        except RecordsError as problem:
            self._give_up(context, problem.message)
        except EndsProcess:
            raise
        except Exception as problem:
            LOG.exception("%s-%d: loading failed", topic, partition)
            self._give_up(context, repr(problem))
        else:
            if load.records:
                LOG.info("loaded %s-%d: %d records", topic, partition, load.records)
        self._troubles.pop(partition, None)

    def _give_up(self, context: Context, problem: str) -> None:
        context.failed()
        LOG.error(
            "%s-%d cannot be loaded, and what it coordinates gets NOT_COORDINATOR: %s. All other partitions "
            "go on; it is loaded again when it is elected anew or the broker starts",
            self._ports.topic, context.partition, problem,
        )  # fmt: skip
