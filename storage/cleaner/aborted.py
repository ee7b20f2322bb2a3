"""What becomes of transactions in a pass of the cleaner.

Data of an aborted transaction goes at once. A marker goes when nothing of its transaction is left before it
(aborted data went in an earlier pass, committed data was replaced), and only after its delete horizon: a
reader in the middle of the transaction must still meet it. An aborted transaction of which data was met in
this pass keeps its entry in the index.
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
    """Batches are shown in the order of the log. kept: aborted transactions whose entries stay."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(set(aborted), key=lambda each: each.first_offset))
        self._aborted: dict[int, list[AbortedTransaction | bool]] = {}
        """Producer id to [its aborted transaction that we are in, whether data of it was met]."""
        self._committed: dict[int, None] = {}
        """Producers of which data was met that is not aborted."""
        self.kept: list[AbortedTransaction] = []

    def data(self, header: BatchHeader) -> bool:
        """Whether a data batch can go for its transaction's sake."""
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
        """Whether a control batch can go; one without a record (cleaned before) always can."""
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
