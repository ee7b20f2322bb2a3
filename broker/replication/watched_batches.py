"""Which batches are looked at record by record, although their header says all that the log must know.

A batch's header and checksum tell its size, offsets, timestamps and producer; walking the records of each
batch would cost more than all else together. But a client that writes its records wrongly does so from its
first batch on. So the first batches of a connection on a partition are walked record by record, and later
ones are taken by their header. How many that are goes by their bytes, since a megabyte of small records takes
5 ms: eight small ones or one large one. The first one is always walked; those behind it only while the node
has walked less than its share of the second, so that many connections at once do not hold up everybody.

Nobody tells this module when a connection or a partition is gone. Partitions are known by their topic's id,
so that a deleted partition is not kept in memory. The counts live in two generations: when the younger one is
full it becomes the older one, and a count that was not needed since the last change is forgotten. The first
batches of a forgotten connection are walked again, which costs time and nothing else.
"""

from __future__ import annotations

from typing import Final

from config.limits import (
    WALKED_BATCHES_PER_CONNECTION,
    WALKED_BYTES_PER_CONNECTION,
    WALKED_ON_NODE_BYTES,
)

_LEAST_BYTES: Final = WALKED_BYTES_PER_CONNECTION // WALKED_BATCHES_PER_CONNECTION
"""The number of bytes that the smallest batch counts for."""
_SECOND_MS: Final = 1000

GENERATION_SIZE: Final = 8192
"""The number of pairs of connection and partition that a generation remembers. Two generations take some
three MiB."""


class WatchedBatches:
    """Counts the bytes of each connection on each partition, up to those that are walked.

    `always` is the setting that walks every batch, as Kafka does.
    """

    __slots__ = ("_node_bytes", "_older", "_second", "_younger", "always")

    def __init__(self, *, always: bool) -> None:
        self.always = always
        self._second = 0
        self._node_bytes = 0
        """The number of bytes that were walked in this second, of all connections."""
        self._younger: dict[tuple[str, bytes, int], int] = {}
        self._older: dict[tuple[str, bytes, int], int] = {}

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def next_is_walked(
        self, connection_id: str, topic_id: bytes, index: int, size_bytes: int, now_ms: int
    ) -> bool:
        """Whether the next batch of the connection on the partition, of this size, is walked; counts it. Once
        it is not, no later one is."""
        if self.always:
            return True
        key = (connection_id, topic_id, index)
        walked = self._younger.get(key)
        if walked is None:
            walked = self._older.get(key, 0)
            if len(self._younger) >= GENERATION_SIZE:
                self._older = self._younger
                self._younger = {}
            self._younger[key] = walked
        if walked >= WALKED_BYTES_PER_CONNECTION:
            return False
        second = now_ms // _SECOND_MS
        if second != self._second:
            self._second, self._node_bytes = second, 0
        if walked and self._node_bytes >= WALKED_ON_NODE_BYTES:
            self._younger[key] = WALKED_BYTES_PER_CONNECTION
            return False
        self._younger[key] = walked + max(size_bytes, _LEAST_BYTES)
        self._node_bytes += size_bytes
        return True
