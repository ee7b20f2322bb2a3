"""A log as a list in memory, too dumb to be wrong.

`batches` are those that lie in the log, with their bytes; `history` is one `Event` for each batch that was
taken and not cut off, also when retention or compaction has removed it since. Whatever else a log knows
(producers, transactions, leader epochs, places) is worked out from these two lists from the beginning, each
time that somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.records.control import read_marker
from protocol.records.header import BatchHeader, read_header
from protocol.records.reader import Record, records


class Event(NamedTuple):
    """What a batch did to its producer and to the log's epochs."""

    base: int
    last: int
    leader_epoch: int
    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    committed: bool | None
    """For a marker."""
    coordinator_epoch: int


class Batch:
    """One batch as it lies in the log."""

    __slots__ = ("_records", "base", "data", "header", "last")

    def __init__(self, data: bytes) -> None:
        self.header: BatchHeader = read_header(data)
        self.base = self.header.base_offset
        self.last = self.header.last_offset
        self.data = data
        self._records: list[Record] | None = None

    @property
    def records(self) -> list[Record]:
        if self._records is None:
            self._records = list(records(self.data, check_crc=True))
        return self._records

    def event(self) -> Event:
        header = self.header
        committed, coordinator = None, -1
        if header.is_control and header.producer_id >= 0 and self.records:
            marker = read_marker(self.records[0].key, self.records[0].value)
            if marker is not None:
                committed, coordinator = marker
        return Event(
            self.base, self.last, header.partition_leader_epoch, header.producer_id, header.producer_epoch,
            header.base_sequence, header.is_transactional, committed, coordinator,
        )  # fmt: skip


@dataclass
class Producer:
    """What the history says of one producer."""

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, base offset, last offset) of all of this epoch."""
    transaction: int = -1
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        if not self.batches:
            return -1
        sequence, base, last = self.batches[-1]
        return sequence + last - base

    @property
    def last_offset(self) -> int:
        return self.batches[-1][2] if self.batches else -1


class Aborted(NamedTuple):
    producer_id: int
    first: int
    marker: int


class Told(NamedTuple):
    """All that the history tells."""

    producers: dict[int, Producer]
    completed: list[tuple[int, int, int, bool]]
    """(producer, first offset, marker's offset, committed)"""


def tell(history: list[Event]) -> Told:
    producers: dict[int, Producer] = {}
    completed: list[tuple[int, int, int, bool]] = []
    for event in history:
        if event.producer_id < 0:
            continue
        found = producers.setdefault(event.producer_id, Producer())
        if found.epoch != event.epoch:
            found.batches = []
            found.epoch = event.epoch
        if event.committed is not None:
            found.coordinator_epoch = event.coordinator_epoch
            if found.transaction >= 0:
                completed.append((event.producer_id, found.transaction, event.base, event.committed))
            found.transaction = -1
            continue
        found.batches.append((event.sequence, event.base, event.last))
        if event.is_transactional and found.transaction < 0:
            found.transaction = event.base
    return Told(producers, completed)


class LogModel:
    """One partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.history: list[Event] = []
        self._told: tuple[list[Event], int, Told] = ([], -1, Told({}, []))
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.durable = 0
        """Below it everything was synced, as somebody was told."""
        self.was_compacted = False
        self.has_gaps = False
        """A power cut took the end of a segment that was not synced, and left the next one."""
        self.reloaded_at = 0
        """What producers did below was read from a file: of each only the last batch is known for sure."""
        self.cleaned_to = 0
        self.ends_bare = False
        """The end is that of a cut; compaction has emptied the log right before it."""
        self.removal_failed = False
        """Segments that went may be there again after the next start."""
        self.epochs_known_from = 0
        """What lies below had gone once: nobody has to know its leader epochs, if it is there again."""
        self.forgotten: set[Event] = set()
        """Of the history what the engine did not know any more; the disk may bring it back."""
        self.aborted_once: set[Aborted] = set()
        """Of transactions that the history tells no more."""
        self.former: dict[bytes, Batch] = {}
        """What compaction changed and retention removed: a power cut may bring it back, since nobody waits
        for the names of what goes to reach the disk."""

    # What happens

    def replace_batches(self, batches: list[Batch]) -> None:
        """By compaction or retention: the others are remembered."""
        there = {batch.data for batch in batches}
        self.former |= {batch.data: batch for batch in self.batches if batch.data not in there}
        self.batches = batches

    def take(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.ends_bare = False
        self.history.append(batch.event())
        self.end = batch.last + 1

    def cut(self, offset: int) -> None:
        """Whole batches from the one that contains `offset` on."""
        if offset >= self.end:
            return
        end = offset
        while self.batches and self.batches[-1].last >= offset:
            end = min(end, self.batches.pop().base)
        self.history = [event for event in self.history if event.last < offset]
        self.forgotten = {event for event in self.forgotten if event.last < offset}
        self._ends_at(end)
        self.former = {data: batch for data, batch in self.former.items() if batch.last < end}
        self.ends_bare = bool(self.was_compacted or self.has_gaps)

    def start_anew(self, offset: int) -> None:
        self.batches = []
        self.history = []
        self.former = {}
        self.aborted_once = set()
        self.forgotten = set()
        self._ends_at(offset)
        self.start = self.high_watermark = offset

    def _ends_at(self, end: int) -> None:
        self.end = end
        self.start = min(self.start, end)
        self.high_watermark = min(self.high_watermark, end)
        self.durable = min(self.durable, end)
        self.reloaded_at = end
        self.cleaned_to = min(self.cleaned_to, end)

    # What is asked

    def readable(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.last >= self.start]

    def told(self) -> Told:
        """Worked out once for the list as it is: it only grows, or is replaced by another."""
        history, length, told = self._told
        if history is not self.history or length != len(self.history):
            told = tell(self.history)
            self._told = (self.history, len(self.history), told)
        return told

    def stable_offset(self, *, with_undecided_markers: bool = True) -> int:
        """The last stable offset; those markers count that are not below the high watermark."""
        told = self.told()
        firsts = [each.transaction for each in told.producers.values() if each.transaction >= 0]
        if with_undecided_markers:
            firsts += [first for _, first, marker, _ in told.completed if marker >= self.high_watermark]
        first = min(firsts, default=self.high_watermark)
        return self.high_watermark if first > self.high_watermark else max(first, self.start)

    def aborted(self) -> list[Aborted]:
        """By marker."""
        return [Aborted(*each[:3]) for each in self.told().completed if not each[3]]

    def at_or_after(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first such record."""
        for batch in self.readable():
            for record in batch.records:
                if record.timestamp >= timestamp and record.offset >= self.start:
                    return record.timestamp, record.offset, batch.header.partition_leader_epoch
        return None

    def committed(self, up_to: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a reader of read_committed gets: (offset, key, value)."""
        aborted = self.aborted()
        found = []
        for batch in self.readable():
            header = batch.header
            if batch.last >= up_to or header.is_control:
                continue
            if header.is_transactional and any(
                each.producer_id == header.producer_id and each.first <= batch.base <= each.marker
                for each in aborted
            ):
                continue
            found += [
                (each.offset, each.key, each.value) for each in batch.records if each.offset >= self.start
            ]
        return found
