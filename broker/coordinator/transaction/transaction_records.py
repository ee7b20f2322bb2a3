"""How a transactional id lies in `__transaction_state`.

    key    int16 0 | transactional id
    value  int16 version | producer id, epoch, timeout, state, partitions by topic (null in state Empty), time
           of the last change, time of the start; version 1 adds, as tagged fields, the previous and the next
           producer id and the version of transactions of the client

Version 1 is written where the cluster's `transaction.version` is at least 1. A value of null is a tombstone:
the id is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final

from broker.coordinator.runtime.result import CoordinatorRecord
from broker.coordinator.transaction.transaction_metadata import TopicPartition, TransactionMetadata
from broker.coordinator.transaction.transaction_states import TransactionState
from protocol.codec.compiler import decode, encode
from protocol.errors import ProtocolError
from protocol.transaction_log import TransactionLogKey, TransactionLogValue

KIND: Final = 0
TAGGED_SINCE: Final = 1
"""The `transaction.version` since which the value has tagged fields, which is also the version of that
value."""
_SHORT: Final = Struct(">h")
_NEVER_RECORDED: Final = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})


def transaction_key(transactional_id: str) -> bytes:
    return _SHORT.pack(KIND) + encode(TransactionLogKey(transactional_id=transactional_id), 0)


def transaction_record(
    transactional_id: str, metadata: TransactionMetadata, server_version: int
) -> CoordinatorRecord:
    """The record of an id in its present state. Raises EncodeError for an id that is too long for a key."""
    version = min(server_version, TAGGED_SINCE)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [
            TransactionLogValue.PartitionsSchema(topic, indexes)
            for topic, indexes in partitions_by_topic(metadata.partitions).items()
        ],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version >= TAGGED_SINCE:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_version
    return CoordinatorRecord(transaction_key(transactional_id), _SHORT.pack(version) + encode(value, version))


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(transaction_key(transactional_id), None)


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The topics and their partitions, in order."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return by_topic


def read_transactional_id(key: bytes) -> str:
    """Decodes a key. Raises ProtocolError for bytes that are no key, or of an unknown type."""
    kind = _number(key, "the key of a transaction")
    if kind != KIND:
        raise ProtocolError(f"a key of kind {kind} is newer than this broker, which knows {KIND}")
    return decode(TransactionLogKey, 0, key[_SHORT.size :]).transactional_id


def read_transaction(value: bytes) -> TransactionMetadata:
    """Decodes a value. Raises ProtocolError for bytes that are no transaction, or of an unknown version."""
    version = _number(value, "a transaction")
    newest = TransactionLogValue.declaration.versions.last
    if not 0 <= version <= newest:
        raise ProtocolError(
            f"a transaction of version {version} is newer than this broker, which knows 0 to {newest}"
        )
    stored = decode(TransactionLogValue, version, value[_SHORT.size :])
    try:
        state = TransactionState(stored.transaction_status)
    except ValueError:
        state = TransactionState.DEAD
    if state in _NEVER_RECORDED:
        raise ProtocolError(f"a transaction of state {stored.transaction_status}, which is never recorded")
    return TransactionMetadata(
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=state,
        last_update_ms=stored.transaction_last_update_timestamp_ms,
        start_ms=stored.transaction_start_timestamp_ms,
        partitions=frozenset(
            (entry.topic, index)
            for entry in stored.transaction_partitions or ()
            for index in entry.partition_ids
        ),
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_version=stored.client_transaction_version,
    )


def _number(data: bytes, what: str) -> int:
    try:
        (number,) = _SHORT.unpack_from(data)
    except struct_error:
        raise ProtocolError(f"{what} of {len(data)} bytes has no version") from None
    return int(number)
