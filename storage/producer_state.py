"""Who wrote last: what an idempotent producer is checked against.

A producer numbers its records per partition (sequence numbers, from 0, wrapping from 2147483647 to 0). If
an answer is lost it sends the batch again; the log then must not take it twice, nor take a later one
first:

    batch known among the producer's last five     duplicate: success again, with the first answer's offset
    epoch below the producer's                     INVALID_PRODUCER_EPOCH: somebody took over its id
    known with epoch -1                            any sequence will do, of that epoch or a higher one
    epoch above, first sequence not 0              OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, not the next sequence              OUT_OF_ORDER_SEQUENCE_NUMBER
    a producer that is not known (any more)        any sequence will do
    no transaction, while one of its is open       INVALID_TXN_STATE

A transaction begins with the first transactional batch and ends with a marker, a control batch that the
transaction coordinator has appended. A marker of an older coordinator than the last one's is refused.

An entry is immutable and replaced by the next one, so a prepared append carries its successor along, and
dropping it is all that a rollback does. Entries expire `producer.id.expiration.ms` after their last batch's
timestamp. KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Iterable, ValuesView
from typing import Final

import msgspec

from config.limits import PRODUCER_BATCHES_REMEMBERED
from protocol.errors import ErrorCode
from protocol.records.control import TransactionMarker
from protocol.records.header import TRANSACTIONAL_BIT, BatchHeader
from storage.errors import AppendRefused
from storage.transactions import CompletedTransaction, OpenTransactions, Verifications

NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

LAST_SEQUENCE: Final = 2147483647
_KEPT_BEFORE_NEW: Final = PRODUCER_BATCHES_REMEMBERED - 1


class ProducerBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch of a producer that was appended."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int
    """The largest timestamp of the batch, which the first answer held if the topic uses LogAppendTime."""


class ProducerEntry(msgspec.Struct, frozen=True, gc=False):
    """The state of one producer on one partition."""

    producer_id: int
    epoch: int
    batches: tuple[ProducerBatch, ...]
    """The last five batches of this epoch, the oldest first. Empty after a marker that has raised the
    epoch."""
    last_timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    """The coordinator epoch of the last transaction marker."""
    transaction_first_offset: int = NO_OFFSET
    """The first offset of the open transaction, or -1."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def has_open_transaction(self, epoch: int) -> bool:
        """Whether a transaction of this epoch is open."""
        return self.transaction_first_offset != NO_OFFSET and self.epoch == epoch

    def followed_by(
        self, header: BatchHeader, base_offset: int, last_offset: int, timestamp: int
    ) -> ProducerEntry | None:
        """The entry after a batch that is the next one in sequence of the same epoch, outside a transaction;
        None for any other batch. It does what `successor` does in short, and serves nearly all batches."""
        first = header.base_sequence
        if (
            header.producer_epoch != self.epoch
            or not self.batches
            or first != self.batches[-1].last_sequence + 1
            or header.attributes & TRANSACTIONAL_BIT
            or self.transaction_first_offset >= 0
        ):
            return None
        last = (first + header.last_offset_delta) & LAST_SEQUENCE
        batch = ProducerBatch(first, last, base_offset, last_offset, timestamp)
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            (*self.batches[-_KEPT_BEFORE_NEW:], batch),
            timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    def sequence_after(self, epoch: int) -> int:
        """The first sequence of the batch that is next in this epoch, if it can be appended without further
        checks; -1 if it cannot."""
        if epoch != self.epoch or not self.batches or self.transaction_first_offset >= 0:
            return -1
        return self.batches[-1].last_sequence + 1

    def followed_by_all(self, batches: list[ProducerBatch]) -> ProducerEntry:
        """Does as `followed_by`, for several consecutive batches of this epoch outside a transaction."""
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            (*self.batches, *batches)[-PRODUCER_BATCHES_REMEMBERED:],
            batches[-1].timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    def duplicate_of(self, epoch: int, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        """The remembered batch that has the same sequences, if there is one."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None


class ProducerState:
    """The producers of one partition, by producer id."""

    __slots__ = ("_entries", "transactions", "verifications")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        """The transactions that are open in the entries, and the decided ones that are not replicated yet."""
        self.verifications = Verifications()
        """Verifications of transactions that are about to begin. Only the leader has them, and they are in no
        snapshot."""
        if entries:
            self.replace_all(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def entries(self) -> ValuesView[ProducerEntry]:
        return self._entries.values()

    def put(self, entry: ProducerEntry) -> None:
        self._entries[entry.producer_id] = entry
        if entry.transaction_first_offset >= 0:
            self.transactions.began(entry.producer_id, entry.transaction_first_offset)

    def replace_all(self, entries: Iterable[ProducerEntry]) -> None:
        """Forgets all producers and takes over those of a snapshot."""
        self._entries.clear()
        self.transactions = OpenTransactions()
        for entry in sorted(entries, key=lambda entry: entry.transaction_first_offset):
            self.put(entry)

    def replace_by(self, other: ProducerState) -> None:
        """Takes over the state of another object, which is not used any more."""
        self._entries, self.transactions = other._entries, other.transactions

    def update(
        self, header: BatchHeader, marker: TransactionMarker | None = None
    ) -> CompletedTransaction | None:
        """Takes in a batch that is in the log already. Returns the transaction that it has ended, if it
        has."""
        if header.producer_id < 0:
            return None
        self.put(successor(self._entries.get(header.producer_id), header, marker))
        return None if marker is None else self.transactions.ended(header.producer_id, header.base_offset)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that have written nothing for so long and have no transaction open. Returns their
        number."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        self.verifications.remove_expired(now_ms, expiration_ms)
        return len(expired)


def check_sequence(
    entry: ProducerEntry | None, producer_id: int, epoch: int, first_sequence: int, last_sequence: int
) -> ProducerBatch | None:
    """None if the batch may follow, the earlier batch if it is a duplicate. Raises AppendRefused."""
    if entry is None:
        if epoch < NO_EPOCH:
            raise AppendRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than {NO_EPOCH}",
            )
        return None
    duplicate = entry.duplicate_of(epoch, first_sequence, last_sequence)
    if duplicate is not None:
        return duplicate
    check_epoch(entry, producer_id, epoch)
    expected = 0 if epoch > entry.epoch else _next_sequence(entry.last_sequence)
    if first_sequence != expected and entry.epoch != NO_EPOCH:
        raise AppendRefused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {producer_id}: {first_sequence} (incoming), "
            f"{entry.last_sequence} (last in the log), epoch {epoch} after {entry.epoch}",
        )
    return None


def check_epoch(entry: ProducerEntry | None, producer_id: int, epoch: int) -> None:
    """Raises AppendRefused if another producer has taken over the producer id."""
    if entry is not None and epoch < entry.epoch:
        raise AppendRefused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch "
            f"{entry.epoch}",
        )


def check_transaction(entry: ProducerEntry | None, header: BatchHeader, name: str) -> None:
    """Raises AppendRefused for a non-transactional batch while its producer has a transaction open."""
    if entry is not None and entry.transaction_first_offset != NO_OFFSET and not header.is_transactional:
        raise AppendRefused(
            ErrorCode.INVALID_TXN_STATE,
            f"Expected transactional write from producer {header.producer_id} in {name}: its transaction "
            f"that began at offset {entry.transaction_first_offset} is open",
        )


def check_marker(
    entry: ProducerEntry | None,
    header: BatchHeader,
    marker: TransactionMarker,
    name: str,
    transaction_version: int,
) -> None:
    """Raises AppendRefused for a marker of an older epoch of its producer, or of an older coordinator.

    From transaction version 2 on each transaction has an epoch of its own, and its marker the next one. So
    the same epoch is right only if the marker is a repeated one, when no transaction is open any more.
    KIP-890.
    """
    if entry is None:
        return
    epoch = header.producer_epoch
    is_open = entry.transaction_first_offset != NO_OFFSET
    if epoch < entry.epoch or (transaction_version >= 2 and epoch == entry.epoch and is_open):
        raise AppendRefused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {header.producer_id} in {name} is {epoch}, which is smaller than the last "
            f"seen epoch {entry.epoch}"
            if epoch < entry.epoch
            else f"Epoch of the marker for producer {header.producer_id} in {name} is {epoch}: it must be "
            f"greater than that of the transaction",
        )
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise AppendRefused(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Invalid coordinator epoch for producerId {header.producer_id} in {name}: "
            f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
        )


def successor(
    entry: ProducerEntry | None, header: BatchHeader, marker: TransactionMarker | None = None
) -> ProducerEntry:
    """The producer's entry after this batch, whose offsets are final. marker: the transaction marker of a
    control batch."""
    epoch = header.producer_epoch
    if header.is_control:
        kept = entry.batches if entry is not None and entry.epoch == epoch else ()
        coordinator = NO_COORDINATOR_EPOCH if entry is None else entry.coordinator_epoch
        transaction = NO_OFFSET if entry is None else entry.transaction_first_offset
        if marker is not None:
            coordinator, transaction = marker.coordinator_epoch, NO_OFFSET
        return ProducerEntry(header.producer_id, epoch, kept, header.max_timestamp, coordinator, transaction)
    batch = ProducerBatch(
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
    )
    transaction = NO_OFFSET if entry is None else entry.transaction_first_offset
    if header.is_transactional and transaction == NO_OFFSET:
        transaction = header.base_offset
    if entry is None or entry.epoch != epoch:
        coordinator = NO_COORDINATOR_EPOCH if entry is None else entry.coordinator_epoch
        return ProducerEntry(
            header.producer_id, epoch, (batch,), header.max_timestamp, coordinator, transaction
        )
    batches = (*entry.batches[-_KEPT_BEFORE_NEW:], batch)
    return ProducerEntry(
        header.producer_id, epoch, batches, header.max_timestamp, entry.coordinator_epoch, transaction
    )


def _next_sequence(last_sequence: int) -> int:
    return 0 if last_sequence == LAST_SEQUENCE else last_sequence + 1
