"""Appends of the controller that wait to be written: those that may go together become one batch.

    decision   41 42 │ 43 │ 44 45 46 │ 47           what the controller appends, each whole or not at all
    batch     [41 42   43   44 45 46]  [47 …        what lies in the log

A batch has a header and a checksum, is committed, read and replayed as one: thirty small decisions in one
cost followers a third of what they cost in thirty. All of a batch is committed, or nothing, so each decision
is. The controller's own state goes from decision to decision; where a batch ends matters to it only when it
writes a snapshot, which must end where a batch does.

Decisions that begin, end or abort a metadata transaction stay alone, and batches have bounds, because readers
take them whole. All records of a batch have the time at which it was begun: Kafka's readers of the metadata
log end their process over a record that differs from its batch by a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from protocol.codec.message import Message
from protocol.metadata_log.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from protocol.records.builder import BatchBuilder

__all__ = ["AccumulatedBatch", "says_something", "stays_alone"]

SHARED_BYTES: Final = 64 << 10
SHARED_RECORDS: Final = 1_000

_MARKERS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


def stays_alone(records: Sequence[Message]) -> bool:
    """Whether these records must have a batch of their own."""
    return isinstance(records[0], _MARKERS) or isinstance(records[-1], _MARKERS)


def says_something(records: Sequence[Message]) -> bool:
    """Whether records change something. Some only show that the leader is alive (KIP-835)."""
    return not all(isinstance(record, NoOpRecord) for record in records)


class AccumulatedBatch:
    """A batch to which records are added until it is closed.

    timestamp_ms: the timestamp of all its records. is_open: records may still be added. is_news: at least one
    of the records changes something.
    """

    __slots__ = ("_builder", "base_offset", "end_offset", "epoch", "is_news", "is_open", "timestamp_ms")

    def __init__(self, epoch: int, base_offset: int, timestamp_ms: int) -> None:
        self.epoch = epoch
        self.timestamp_ms = timestamp_ms
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.is_open = True
        self.is_news = False
        self._builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)

    def takes(self, epoch: int, values: Sequence[bytes]) -> bool:
        """Whether records of that epoch may be added to this batch."""
        return (
            self.is_open
            and epoch == self.epoch
            and self.end_offset - self.base_offset + len(values) <= SHARED_RECORDS
            and self._builder.estimated_size_bytes + sum(map(len, values)) <= SHARED_BYTES
        )

    def add(self, values: Sequence[bytes], *, is_news: bool) -> None:
        for value in values:
            self._builder.append(None, value, self.timestamp_ms)
        self.end_offset += len(values)
        self.is_news |= is_news

    @property
    def size_bytes(self) -> int:
        return self._builder.estimated_size_bytes

    def close(self) -> bytearray:
        """Builds the batch. No more records can be added to it."""
        self.is_open = False
        return self._builder.build()
