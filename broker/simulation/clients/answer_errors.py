"""The error codes of an answer, and what Kafka's clients make of them.

The tables are written from Kafka's own list of errors and not taken from `protocol.errors`, so that a broker
which answers a wrong code is not understood by chance.
"""

from __future__ import annotations

from typing import Final

import msgspec

from protocol.errors import ErrorCode

__all__ = ["COORDINATOR_MOVED", "NOT_WRITTEN", "REFRESHES", "RETRIABLE", "codes_in"]

REFRESHES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The client's metadata is old: it asks for new metadata, and then tries again."""

RETRIABLE: Final = REFRESHES | frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""The same request may be sent again later."""

COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""The client looks for the coordinator again."""

NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""A Produce that is answered so has written nothing. All others may be answered after the append, when the
partition's leader changes while the answer waits for the other replicas."""


def codes_in(answer: msgspec.Struct) -> tuple[int, ...]:
    """All codes of an answer, wherever they stand in it, each once; 0 among them if some part is well."""
    found: dict[int, None] = {}
    _collect(answer, found)
    return tuple(sorted(found))


def _collect(struct: msgspec.Struct, found: dict[int, None]) -> None:
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, int):
            if name.endswith("error_code"):
                found[value] = None
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, msgspec.Struct):
                    _collect(each, found)
