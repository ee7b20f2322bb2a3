"""The keys and values of the records of `__transaction_state`, and the marker that ends a transaction in a
partition.
"""

from typing import Annotated

from protocol.codec.message import Message, Struct, Tag, coordinator_key, coordinator_value, data
from protocol.primitives import i8, i16, i32, i64


@coordinator_key(key=0, versions="0", flexible="none")
class TransactionLogKey(Message):
    """Says which transactional id the record belongs to."""

    transactional_id: str = ""


@coordinator_value(key=0, versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    """A transaction's state. Version 1 adds the producer ids and epochs around a bump (KIP-890)."""

    class PartitionsSchema(Struct):
        """The partitions of one topic."""

        topic: str = ""
        partition_ids: list[i32] = []

    producer_id: i64 = 0
    previous_producer_id: Annotated[i64, Tag(0, since=1)] = -1
    next_producer_id: Annotated[i64, Tag(1, since=1)] = -1
    producer_epoch: i16 = 0
    next_producer_epoch: Annotated[i16, Tag(3, since=1)] = -1
    transaction_timeout_ms: i32 = 0
    transaction_status: i8 = 0
    transaction_partitions: list[PartitionsSchema] | None = []
    transaction_last_update_timestamp_ms: i64 = 0
    transaction_start_timestamp_ms: i64 = 0
    client_transaction_version: Annotated[i16, Tag(2, since=1)] = 0


@data(versions="0", flexible="none")
class EndTxnMarker(Message):
    """The value of a COMMIT or ABORT control record: which coordinator epoch ended the transaction."""

    coordinator_epoch: i32 = 0
