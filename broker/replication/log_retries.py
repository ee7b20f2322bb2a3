"""Partitions whose log could not be made or opened because a disk was full, tried again until there is room.

Apache Kafka takes the whole directory offline then, until a restart. Here only the partitions that found no
room wait, and their clients are told KAFKA_STORAGE_ERROR, which makes them try again. The pause between two
attempts doubles from one second to one minute, as long as any partition waits. An attempt does one partition
at a time and gives the loop back every ten milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from broker.replication.partition import Partition
from broker.replication.replica_manager import LeaderChange
from config.ports import Clock, Timer, Timers

FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000
TURN_NS: Final = 10_000_000

_log = logging.getLogger("barnabas.replicas")


class RetriedReplicas(Protocol):
    """What this module needs of the replica manager."""

    @property
    def by_name(self) -> Mapping[tuple[str, int], Partition]: ...

    @property
    def without_space(self) -> Mapping[tuple[str, int], None]: ...

    def when_without_space(self, told: Callable[[], None] | None) -> None: ...

    def try_again_in_steps(self, changes: list[LeaderChange]) -> Iterator[None]: ...


class LogRetries:
    """Tries the partitions again whose log had no space on the disk. If there are none, no timer is set."""

    def __init__(
        self,
        replicas: RetriedReplicas,
        clock: Clock,
        timers: Timers,
        *,
        on_leader_change: Callable[[LeaderChange], None],
        on_made: Callable[[tuple[str, int]], None],
    ) -> None:
        """on_leader_change: called for each change of leadership, as by the publisher of replicas. on_made:
        called when a partition has its log."""
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._on_leader_change = on_leader_change
        self._on_made = on_made
        self._pause_ms = FIRST_PAUSE_MS
        self._timer: Timer | None = None
        self._changes: list[LeaderChange] = []
        self._waiting: tuple[tuple[str, int], ...] = ()
        """The partitions that had no space when the attempt began."""
        self._steps: Iterator[None] | None = None
        replicas.when_without_space(self._arm)

    def stop(self) -> None:
        self._replicas.when_without_space(None)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._steps = None

    def _arm(self) -> None:
        if self._timer is None and self._steps is None:
            deadline_ms = self._clock.monotonic_ms() + self._pause_ms
            self._timer = self._timers.call_at(deadline_ms, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._waiting = tuple(self._replicas.without_space)
        self._steps = self._replicas.try_again_in_steps(self._changes)
        self._go_on()

    def _go_on(self) -> None:
        """Goes on with the attempt for one turn of the loop."""
        if self._steps is None:
            return
        deadline_ns = self._clock.monotonic_ns() + TURN_NS
        for _ in self._steps:
            self._tell()
            if self._clock.monotonic_ns() > deadline_ns:
                self._timers.call_soon(self._go_on)
                return
        self._tell()
        self._end()

    def _tell(self) -> None:
        changes, self._changes[:] = list(self._changes), []
        for change in changes:
            self._on_leader_change(change)

    def _end(self) -> None:
        self._steps = None
        replicas = self._replicas
        for key in self._waiting:
            if key in replicas.by_name:
                self._on_made(key)
        left = len(replicas.without_space)
        if not left:
            self._pause_ms = FIRST_PAUSE_MS
            return
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        _log.warning(
            "%d partitions wait for space on a disk; the next look is in %d s", left, self._pause_ms // 1000
        )
        self._arm()
