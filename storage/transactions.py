"""Which transactions are undecided on a partition, and so up to where read_committed may read.

    ongoing        begun, no marker yet
    unreplicated   decided, but the marker is not below the high watermark yet: a new leader may not have it

The first unstable offset is the smallest first offset of both kinds; the last stable offset is that, or the
high watermark where there is none. KIP-98.
"""

from __future__ import annotations

from typing import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended. The last offset is that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class OpenTransactions:
    """The transactions of one partition that are open, or decided and not replicated yet."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}
        """Producer id to first offset, ascending by offset: a transaction begins at the log's end."""
        self._unreplicated: list[CompletedTransaction] = []

    def __len__(self) -> int:
        return len(self._ongoing)

    def began(self, producer_id: int, first_offset: int) -> None:
        """Noted once per transaction; later batches of it change nothing."""
        self._ongoing.setdefault(producer_id, first_offset)

    def ended(self, producer_id: int, marker_offset: int) -> CompletedTransaction | None:
        """None if the producer had no transaction open."""
        first_offset = self._ongoing.pop(producer_id, None)
        if first_offset is None:
            return None
        completed = CompletedTransaction(producer_id, first_offset, marker_offset)
        self._unreplicated.append(completed)
        return completed

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once the marker is replicated."""
        for first_offset in self._ongoing.values():
            return first_offset
        return completed.last_offset + 1

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """None if every transaction is decided and replicated."""
        if not self._ongoing and not self._unreplicated:
            return None
        if self._unreplicated:
            self._unreplicated = [each for each in self._unreplicated if each.last_offset >= high_watermark]
        first = next(iter(self._ongoing.values()), None)
        for each in self._unreplicated:
            if first is None or each.first_offset < first:
                first = each.first_offset
        return first
