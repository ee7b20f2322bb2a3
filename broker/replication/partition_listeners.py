"""Who is told of changes of a partition, and who changes its ISR.

All are told in the turn of the loop that made the change, so they only note it, and act on it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from protocol.errors import ErrorCode, InvariantViolated

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from broker.replication.roles import ReplicaState

__all__ = [
    "ENOUGH_BYTES",
    "NO_KEEPER",
    "CommitWaiter",
    "DeletionWaiter",
    "IsrKeeper",
    "PartitionWatcher",
    "Watched",
    "Watcher",
]


ENOUGH_BYTES: Final = 2**31 - 1
"""A size that satisfies every fetch, told where it is not known how much more there is to read."""


class Watcher(Protocol):
    """Waits for the next change. `token` is the value that it gave when it began to watch."""

    def partition_grew(self, token: Any, size_bytes: int) -> None:
        """`size_bytes` more can be read than before; 0 if only the high watermark has moved."""
        ...

    def partition_changed(self, token: Any) -> None:
        """The role, the leader epoch or the log start changed, so an answer may be due."""
        ...


class PartitionWatcher(Protocol):
    """Keeps a reference to a partition while nothing happens. `token` is the value that it gave with it."""

    def partition_gone(self, token: Any) -> None:
        """The partition is not hosted any more; drop the reference."""
        ...


class CommitWaiter(Protocol):
    """An acknowledgement that waits until everything before an offset is replicated."""

    def replicated(self, partition: Partition, error: ErrorCode) -> None: ...


class DeletionWaiter(Protocol):
    """Waits until no live replica has a record below an offset."""

    def low_watermark_moved(self, partition: Partition) -> None:
        """`Partition.low_watermark` may have moved, or this broker may not lead any more."""
        ...


class IsrKeeper(Protocol):
    """Asks the controller for another ISR, and knows which brokers may be in one."""

    def may_join(self, replica_id: int, replica: ReplicaState) -> bool:
        """Whether the controller would take the replica in: its broker is neither fenced nor shutting down
        (KIP-841), and fetched in the epoch in which it is registered (KIP-903)."""
        ...

    def is_joining(self, replica_id: int, replica: ReplicaState, leader_end_offset: int) -> bool:
        """Whether the replica may join and has caught up, now or within replica.lag.time.max.ms."""
        ...

    def caught_up(self, partition: Partition, replica_id: int) -> None:
        """The replica should be in the ISR; called by the leader, whose ISR is committed."""
        ...


class _NoKeeper:
    """The `IsrKeeper` of partitions whose ISR nobody changes."""

    def may_join(self, replica_id: int, replica: ReplicaState) -> bool:
        return False

    def is_joining(self, replica_id: int, replica: ReplicaState, leader_end_offset: int) -> bool:
        return False

    def caught_up(self, partition: Partition, replica_id: int) -> None:
        raise InvariantViolated(f"nobody asks for another ISR of {partition!r}")


NO_KEEPER: Final = _NoKeeper()


class Watched:
    """Those who watch a partition: readers wait for more, and holders keep a reference."""

    __slots__ = ("holders", "log_end_watchers", "watchers")

    def __init__(self) -> None:
        self.watchers: dict[Watcher, Any] = {}
        """Readers up to the high watermark."""
        self.log_end_watchers: dict[Watcher, Any] = {}
        """Readers up to the log's end, which are followers."""
        self.holders: dict[PartitionWatcher, Any] = {}

    def watch(self, watcher: Watcher, token: Any, *, to_log_end: bool = False) -> None:
        """Has `watcher` told of the next change, once. to_log_end: it reads beyond the high watermark, as
        followers do."""
        (self.log_end_watchers if to_log_end else self.watchers)[watcher] = token

    def unwatch(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)
        self.log_end_watchers.pop(watcher, None)

    def tell_grew(self, size_bytes: int) -> None:
        watchers, self.watchers = self.watchers, {}
        for watcher, token in watchers.items():
            watcher.partition_grew(token, size_bytes)

    def tell_log_end_moved(self, size_bytes: int) -> None:
        """Tells the followers that there is something to copy. A follower learns with its next request that
        the high watermark has moved, as in Kafka."""
        watchers, self.log_end_watchers = self.log_end_watchers, {}
        for watcher, token in watchers.items():
            watcher.partition_grew(token, size_bytes)

    def tell_changed(self) -> None:
        watchers = self.watchers | self.log_end_watchers
        self.watchers, self.log_end_watchers = {}, {}
        for watcher, token in watchers.items():
            watcher.partition_changed(token)

    def tell_gone(self) -> None:
        holders, self.holders = self.holders, {}
        for holder, token in holders.items():
            holder.partition_gone(token)
