"""Which batches are looked at record by record, although their header says all that the log must know.

A batch's header and checksum decide (size, offsets, timestamps, producer); walking the records of each
batch would cost more than all else together. But a client that frames its records wrongly does so from its
first batch on. So the first batches of a connection on a partition are walked whole, and what follows is
taken by its header.

Connections come and go without word here, and so do partitions (known by their topic's id, so that nothing
keeps one that is gone). So the counts live in two generations: when the younger one is full it becomes the
older one, and what was not asked for since is forgotten. A forgotten connection is merely watched anew.
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
