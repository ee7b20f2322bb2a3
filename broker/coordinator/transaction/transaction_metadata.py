"""What is known of one transactional id, and how each cause changes it.

A `TransactionMetadata` is a value: a function here takes the present one and makes the next. What it makes
goes into a record, and counts when the record is replayed.

Epochs. A producer writes with (producer id, epoch), and a higher epoch fences the lower ones. An epoch is an
int16. 32767 is never given to a producer, so that the coordinator can always fence one: an epoch of 32766 is
*exhausted*, and in place of the next epoch the producer gets a new producer id with epoch 0.

In version 2 of transactions (KIP-890) each end of a transaction raises the epoch: the markers carry the
raised one, so that a late write of the ended transaction cannot enter the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from broker.coordinator.transaction.transaction_states import TRANSITIONS, TransactionCause, TransactionState
from protocol.errors import ErrorCode, invariant

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LARGEST_EPOCH: Final = 2**15 - 1
LAST_EPOCH_OF_A_PRODUCER: Final = LARGEST_EPOCH - 1
EPOCH_BUMP_SINCE: Final = 2
"""The version of transactions (feature `transaction.version`) since which each end of a transaction raises
the epoch."""
NEVER_TIMES_OUT_MS: Final = 2**31 - 1
"""The timeout of a transaction in two phases, whose end another system decides (KIP-939)."""

TopicPartition: TypeAlias = tuple[str, int]


class TransactionMetadata(msgspec.Struct, frozen=True, gc=False):
    """The state of one transactional id. Times are wall time in ms.

    last_producer_epoch: the epoch before the present one, if its owner may repeat the request that raised it;
    it is not in the record, so a new coordinator does not know it. previous_producer_id: the producer id
    before the last change. next_producer_id: while a transaction ends, the id with which its producer goes
    on, if the epochs of the present one are exhausted. client_version: the version of transactions that the
    producer used last.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_TIME
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def identity(self) -> tuple[int, int]:
        """The producer id and the epoch."""
        return self.producer_id, self.producer_epoch

    def is_overdue(self, now_ms: int) -> bool:
        """Whether its transaction has been open for longer than the producer has asked for."""
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != NEVER_TIMES_OUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )


def is_exhausted(epoch: int) -> bool:
    return epoch >= LAST_EPOCH_OF_A_PRODUCER


def _changed(metadata: TransactionMetadata, cause: TransactionCause, **fields: Any) -> TransactionMetadata:
    """The next value: in the state to which the cause leads, with these fields changed."""
    state = TRANSITIONS.get((metadata.state, cause))
    if state is None:
        invariant(False, "a transaction changes as its table says", state=metadata.state, cause=cause)
    return msgspec.structs.replace(metadata, state=state, previous_producer_id=metadata.producer_id, **fields)


# InitProducerId


def new_id(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """A transactional id of which nothing is known. It has no epoch yet; `with_next_epoch` gives it 0."""
    return TransactionMetadata(producer_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY, now_ms)


def with_next_epoch(
    metadata: TransactionMetadata, timeout_ms: int, expected_epoch: int | None, now_ms: int
) -> TransactionMetadata | ErrorCode:
    """The next epoch, for a producer that begins (no expected epoch), or that goes on after an error and
    names the epoch that it had. A producer that names the epoch before the present one has not got the
    answer, and gets it again. Any other epoch is fenced."""
    epoch = metadata.producer_epoch + 1
    if expected_epoch is None:
        last_epoch = NO_EPOCH
    elif metadata.producer_epoch in (NO_EPOCH, expected_epoch):
        last_epoch = metadata.producer_epoch
    elif expected_epoch == metadata.last_producer_epoch:
        epoch, last_epoch = metadata.producer_epoch, expected_epoch
    else:
        return ErrorCode.PRODUCER_FENCED
    return _changed(
        metadata,
        TransactionCause.INITIALIZED,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )


def with_new_producer_id(
    metadata: TransactionMetadata, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
) -> TransactionMetadata:
    """A new producer id, because the epochs are exhausted. keep_last_epoch: the producer has named the id and
    epoch that it had."""
    return _changed(
        metadata,
        TransactionCause.INITIALIZED,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=metadata.producer_epoch if keep_last_epoch else NO_EPOCH,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )


# The transaction


def with_partitions(
    metadata: TransactionMetadata, partitions: Iterable[TopicPartition], client_version: int, now_ms: int
) -> TransactionMetadata:
    """A transaction with these partitions added; it begins if there was none."""
    return _changed(
        metadata,
        TransactionCause.PARTITIONS_ADDED,
        partitions=metadata.partitions.union(partitions),
        start_ms=metadata.start_ms if metadata.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    metadata: TransactionMetadata,
    cause: TransactionCause,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """The transaction with its outcome decided. In version 2 the epoch is raised; a producer that has broken
    the rules so far that there is no higher one may still abort."""
    epoch, last_epoch = metadata.producer_epoch, metadata.last_producer_epoch
    if client_version >= EPOCH_BUMP_SINCE:
        epoch, last_epoch = min(epoch + 1, LARGEST_EPOCH), epoch
    has_none = cause is TransactionCause.EMPTY_ABORT_ASKED
    return _changed(
        metadata,
        cause,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        start_ms=now_ms if has_none else metadata.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def fenced(
    metadata: TransactionMetadata,
    server_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """The transaction, aborted with an epoch that its producer does not have. That epoch is given to no
    producer: the next one gets a higher one."""
    if server_version < EPOCH_BUMP_SINCE:
        epoch = min(metadata.producer_epoch + 1, LARGEST_EPOCH)
        metadata = msgspec.structs.replace(metadata, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
        server_version = 0
    return prepared(metadata, TransactionCause.FENCED, server_version, now_ms, next_producer_id)


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The transaction after every partition has its marker. If the epochs were exhausted, the producer goes
    on with its next id."""
    producer_id, epoch = metadata.identity
    if metadata.client_version >= EPOCH_BUMP_SINCE and metadata.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = metadata.next_producer_id, 0
    return _changed(
        metadata,
        TransactionCause.MARKERS_WRITTEN,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
