"""The transactions of a partition: which may begin, and which are undecided, so that consumers that read
committed records stop before them.

    ongoing        begun, no marker yet
    unreplicated   decided, but the marker is not below the high watermark yet: a new leader may not have it

The first unstable offset is the smallest first offset of both kinds; the last stable offset is that, or the
high watermark where there is none. KIP-98.

A batch that begins a transaction on a partition is appended only if the coordinator knows that the partition
belongs to the transaction (KIP-890). Otherwise a batch that comes after the marker would open a transaction
that nobody ends, and read_committed would stop there for ever. `Verifications` says which may begin:

    `begin`     a batch is there, and the coordinator is about to be asked
    `confirm`   the coordinator has said yes
    `check`     at the append; a transaction that is open in the log needs no confirmation
    `forget`    at a marker, and once a transaction has begun, whoever led the partition then: the next one
                is to be asked for anew
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from protocol.errors import ErrorCode
from protocol.records.header import BatchHeader
from storage.errors import AppendRefused

if TYPE_CHECKING:
    from storage.producer_state import ProducerEntry


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
        """First offset by producer id, ascending by offset, because a transaction begins at the log's end."""
        self._unreplicated: list[CompletedTransaction] = []

    def __len__(self) -> int:
        return len(self._ongoing)

    def began(self, producer_id: int, first_offset: int) -> None:
        """Notes a transaction. Later batches of it change nothing."""
        self._ongoing.setdefault(producer_id, first_offset)

    def ended(self, producer_id: int, marker_offset: int) -> CompletedTransaction | None:
        """Notes the end of a transaction, and returns it. None if the producer had no transaction open."""
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
        """The first offset of an undecided or unreplicated transaction. None if there is none."""
        if not self._ongoing and not self._unreplicated:
            return None
        if self._unreplicated:
            self._unreplicated = [each for each in self._unreplicated if each.last_offset >= high_watermark]
        first = next(iter(self._ongoing.values()), None)
        for each in self._unreplicated:
            if first is None or each.first_offset < first:
                first = each.first_offset
        return first


class Verification(msgspec.Struct, eq=False):
    """The question of one producer to its transaction coordinator."""

    epoch: int
    lowest_sequence: int
    """The lowest sequence of the batches that wait for the answer. No later batch may come first."""
    raises_epoch: bool
    """Whether the producer uses version 2 of transactions, in which each of them begins with sequence 0."""
    began_ms: int
    is_confirmed: bool = False
    is_forgotten: bool = False
    """Whether a marker has come since. An answer that was under way then may be about the transaction before
    it."""


class Verifications:
    """The verifications of one partition, by producer id.

    A broker requires them of each log that it hosts. Of other logs nothing is checked: they take every
    transaction.
    """

    __slots__ = ("_by_producer", "is_required")

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self.is_required = False

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, *, raises_epoch: bool, now_ms: int
    ) -> Verification:
        """The verification for which a batch waits. Batches of one epoch share one. A batch of an older epoch
        gets none of its own, because the log will refuse it."""
        known = self._by_producer.get(producer_id)
        if known is None or epoch > known.epoch:
            known = Verification(epoch, sequence, raises_epoch, now_ms)
            self._by_producer[producer_id] = known
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known

    def forget(self, producer_id: int) -> None:
        forgotten = self._by_producer.pop(producer_id, None)
        if forgotten is not None:
            forgotten.is_forgotten = True

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets the verifications whose batch was never appended."""
        by_producer = self._by_producer
        for producer_id in [
            each for each, asked in by_producer.items() if now_ms - asked.began_ms >= expiration_ms
        ]:
            del by_producer[producer_id]

    def check(self, entry: ProducerEntry | None, header: BatchHeader) -> None:
        """Raises AppendRefused for a transactional batch of a transaction that is neither open in the log nor
        confirmed, and for one that is not the first."""
        epoch, first = header.producer_epoch, header.base_sequence
        asked = self._by_producer.get(header.producer_id)
        if entry is not None and entry.has_open_transaction(epoch):
            if asked is not None:
                self.forget(header.producer_id)
            return
        if asked is None or not asked.is_confirmed or asked.epoch != epoch:
            raise AppendRefused(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if first < 0 or (entry is not None and epoch < entry.epoch):
            return
        if first > asked.lowest_sequence:
            raise AppendRefused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: {first} "
                f"(incoming), {asked.lowest_sequence} (earliest seen)",
            )
        if asked.raises_epoch and first and (entry is None or not entry.batches):
            raise AppendRefused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for producer {header.producer_id}: {first} (incoming), "
                "0 was expected of a producer of version 2 of transactions that is not known here",
            )
