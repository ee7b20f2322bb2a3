"""Which batches are looked at record by record, although their header says all that the log must know.

A batch's header and checksum tell its size, offsets, timestamps and producer; walking the records of each
batch would cost more than all else together. But a client that writes its records wrongly does so from its
first batch on. So the first batches of a connection on a partition are walked record by record, and later
ones are taken by their header.

Nobody tells this module when a connection or a partition is gone. Partitions are known by their topic's id,
so that a deleted partition is not kept in memory. The counts live in two generations: when the younger one is
full it becomes the older one, and a count that was not needed since the last change is forgotten. The first
batches of a forgotten connection are walked again, which costs time and nothing else.
"""

from __future__ import annotations

from typing import Final

from config.limits import WALKED_BATCHES_PER_CONNECTION

GENERATION_SIZE: Final = 8192
"""Connections times partitions remembered per generation; two generations take some three MiB."""


class WatchedBatches:
    """Counts the batches of each connection on each partition, up to the number that is walked.

    `always` is the setting that walks every batch, as Kafka does.
    """

    __slots__ = ("_older", "_younger", "always", "walked")

    def __init__(self, *, always: bool) -> None:
        self.always = always
        self.walked = WALKED_BATCHES_PER_CONNECTION
        self._younger: dict[tuple[str, bytes, int], int] = {}
        self._older: dict[tuple[str, bytes, int], int] = {}

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def next_is_walked(self, connection_id: str, topic_id: bytes, index: int) -> bool:
        """Whether the next batch of the connection on the partition is one of the first; counts it."""
        if self.always:
            return True
        key = (connection_id, topic_id, index)
        count = self._younger.get(key)
        if count is None:
            count = self._older.get(key, 0)
            if len(self._younger) >= GENERATION_SIZE:
                self._older = self._younger
                self._younger = {}
            self._younger[key] = count
        if count >= self.walked:
            return False
        self._younger[key] = count + 1
        return True
