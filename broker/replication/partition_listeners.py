"""Who is told when a partition changes, and of what.

Everybody is told in the turn of the loop that made the change, so nobody does more than to note it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.replication.partition import Partition

__all__ = ["CommitWaiter", "DeletionWaiter", "PartitionWatcher", "Watcher"]


class Watcher(Protocol):
    """Wants to know of the next change; `token` is what it gave when it began to watch."""

    def partition_grew(self, token: Any, size_bytes: int) -> None:
        """`size_bytes` more can be read than before; 0 if only the high watermark has moved."""
        ...

    def partition_changed(self, token: Any) -> None:
        """The role, the leader epoch or the log start changed, so an answer may be due."""
        ...


class PartitionWatcher(Protocol):
    """Keeps a reference to a partition while nothing happens; `token` is what it gave with it."""

    def partition_gone(self, token: Any) -> None:
        """The partition is hosted no longer; drop the reference."""
        ...


class CommitWaiter(Protocol):
    """An acknowledgement that waits until everything before an offset is replicated."""

    def replicated(self, partition: Partition, error: ErrorCode) -> None: ...


class DeletionWaiter(Protocol):
    """Waits until no live replica has a record below an offset."""

    def low_watermark_moved(self, partition: Partition) -> None:
        """`Partition.low_watermark` may have moved, or this broker may not lead any more."""
        ...
