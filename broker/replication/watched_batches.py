"""Which batches are looked at record by record, although their header says all that the log must know.

A batch's header and checksum tell its size, offsets, timestamps and producer; walking the records of each
batch would cost more than all else together. But a client that writes its records wrongly does so from its
first batch on. So the first batches of a connection on a partition are walked record by record, and later
ones are taken by their header. How many that are goes by their bytes, since a megabyte of small records takes
5 ms: eight small ones or one large one. The first one is always walked; those behind it only while the node
has walked less than its share of the second, so that many connections at once do not hold up everybody.

The counts belong to the connection and end with it, so nothing that others do has its batches walked again.
They know a partition by its topic's id, so that a deleted partition is not kept in memory. A connection that
has written to very many partitions has shown enough: its batches are not walked on any partition any more.
"""

from __future__ import annotations

from typing import Final

from config.limits import (
    WALKED_BATCHES_PER_CONNECTION,
    WALKED_BYTES_PER_CONNECTION,
    WALKED_ON_NODE_BYTES,
    WALKED_PARTITIONS_PER_CONNECTION,
)
from protocol.serving.session import WalkedBytes

__all__ = ["WatchedBatches", "is_trusted"]

_LEAST_BYTES: Final = WALKED_BYTES_PER_CONNECTION // WALKED_BATCHES_PER_CONNECTION
"""The number of bytes that the smallest batch counts for."""
_SECOND_MS: Final = 1000


def is_trusted(walked: WalkedBytes, partition: tuple[bytes, int]) -> bool:
    """Whether batches of a connection are taken on a partition on the word of their headers. Once they are,
    they are as long as the connection lasts. walked: see `Session`."""
    return (
        walked.get(partition, 0) >= WALKED_BYTES_PER_CONNECTION
        or len(walked) >= WALKED_PARTITIONS_PER_CONNECTION
    )


class WatchedBatches:
    """Counts the bytes of each connection on each partition, up to those that are walked.

    `always` is the setting that walks every batch, as Kafka does.
    """

    __slots__ = ("_node_bytes", "_second", "always")

    def __init__(self, *, always: bool) -> None:
        self.always = always
        self._second = 0
        self._node_bytes = 0
        """The number of bytes that were walked in this second, of all connections."""

    def next_is_walked(
        self, walked: WalkedBytes, partition: tuple[bytes, int], size_bytes: int, now_ms: int
    ) -> bool:
        """Whether the next batch of a connection on a partition, of this size, is walked; counts it. Once it
        is not, no later one is. walked: see `Session`."""
        if self.always:
            return True
        if is_trusted(walked, partition):
            return False
        before = walked.get(partition, 0)
        second = now_ms // _SECOND_MS
        if second != self._second:
            self._second, self._node_bytes = second, 0
        if before and self._node_bytes >= WALKED_ON_NODE_BYTES:
            walked[partition] = WALKED_BYTES_PER_CONNECTION
            return False
        walked[partition] = before + max(size_bytes, _LEAST_BYTES)
        self._node_bytes += size_bytes
        return True
