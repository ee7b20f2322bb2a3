"""Which batches of transactions can be removed in a pass of the cleaner.

Data of an aborted transaction is removed at once. A marker is removed when no data of its transaction is left
before it (the data of an aborted one was removed in an earlier pass, that of a committed one was replaced by
later records), and only after its delete horizon, because a consumer that is in the middle of the transaction
must still read it. An aborted transaction of which this pass has met data keeps its entry in the transaction
index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from protocol.records.control import TransactionMarker
from protocol.records.header import BatchHeader
from storage.transaction_index import AbortedTransaction

CAN_GO: Final = True
STAYS: Final = False


class CleanedTransactions:
    """Is shown the batches in the order of the log. kept: the aborted transactions whose index entries
    stay."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(set(aborted), key=lambda each: each.first_offset))
        self._aborted: dict[int, list[AbortedTransaction | bool]] = {}
        """For each producer id, the aborted transaction whose range of offsets the pass is in, and whether
        data of it was met."""
        self._committed: dict[int, None] = {}
        """The producers of which data was met that is not aborted."""
        self.kept: list[AbortedTransaction] = []

    def data(self, header: BatchHeader) -> bool:
        """Whether a data batch can be removed because its transaction was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return STAYS
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed[header.producer_id] = None
            return STAYS
        found[1] = True
        return CAN_GO

    def marker(self, header: BatchHeader, marker: TransactionMarker | None) -> bool:
        """Whether a control batch can be removed. One without a record, which an earlier pass has emptied,
        always can."""
        self._advance(header.last_offset)
        if header.record_count == 0:
            return CAN_GO
        if marker is None:
            return STAYS
        if marker.committed:
            return self._committed.pop(header.producer_id, 0) is not None
        found = self._aborted.pop(header.producer_id, None)
        if found is None or not found[1]:
            return CAN_GO
        if isinstance(found[0], AbortedTransaction):
            self.kept.append(found[0])
        return STAYS

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            begun = self._coming.popleft()
            self._aborted.setdefault(begun.producer_id, [begun, False])
