"""What a history says about each record: who wrote it, where it is, who has seen it and who has gone past it.

A reading is one partition as one process has read it without jumping, from an offset to another: all visible
records between them must be in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from math import inf
from typing import NamedTuple

from broker.simulation.histories.history import READ_COMMITTED, Event, History, Operation, Record

__all__ = ["Evidence", "KnownWrite", "Reading", "Sighting"]


class KnownWrite(NamedTuple):
    """A record as its producer knows it. The offset is None if the producer was not told; the key is empty
    where nothing is compacted."""

    operation: Operation
    value: str
    partition: str
    offset: int | None
    key: str

    @property
    def is_acknowledged(self) -> bool:
        """Whether it must be visible at last, whatever else is known."""
        operation = self.operation
        if operation.is_transaction:
            return operation.outcome == "ok"
        return operation.outcome == "ok" or self.offset is not None


class Sighting(NamedTuple):
    """A record as a reader was given it, in a line of the history."""

    line: int
    offset: int
    value: str
    reading: Reading


class Reading:
    """A partition as a process has read it since line `line`, from offset `begin`. deleted_below: an offset;
    somebody had asked before that line that all below it be deleted."""

    def __init__(
        self, line: int, process: str, partition: str, begin: int, isolation: str, deleted_below: int = 0
    ) -> None:
        self.line = line
        self.process = process
        self.partition = partition
        self.begin = begin
        self.isolation = isolation
        self.deleted_below = deleted_below
        self.sightings: list[Sighting] = []
        self.end: int | None = None
        """Up to which the partition has been read and nothing more was there; None: it may go on."""
        self.end_line = -1
        self.high_watermark = -1

    @property
    def is_committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    @property
    def is_whole(self) -> bool:
        """From the first record that must be there to the end, with no transaction open."""
        return self.begin <= self.deleted_below and self.end is not None and self.end >= self.high_watermark

    @cached_property
    def offsets(self) -> frozenset[int]:
        return frozenset(each.offset for each in self.sightings)

    @cached_property
    def values(self) -> frozenset[str]:
        return frozenset(each.value for each in self.sightings)

    @property
    def last_line(self) -> int:
        """The last one that tells of it."""
        return max(self.end_line, self.line, *(each.line for each in self.sightings[-1:]))

    @cached_property
    def beyond(self) -> int:
        """The first offset of which this reading does not say whether something visible is there."""
        seen = max((each.offset + 1 for each in self.sightings), default=self.begin)
        return seen if self.end is None else max(seen, self.end)

    def passing(self, offset: int | None) -> list[int]:
        """The lines that show how it has gone past an offset, or from the beginning to the end."""
        if offset is None:
            return [self.line, self.end_line]
        before = [each for each in self.sightings if each.offset < offset]
        after = [each for each in self.sightings if each.offset > offset]
        lines = [before[-1].line if before else self.line]
        if after:
            lines.append(after[0].line)
        elif self.end is not None:
            lines.append(self.end_line)
        return lines


class Evidence:
    """All of it, by value and by partition."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.writes: dict[str, KnownWrite] = {}
        self.readings: list[Reading] = []
        self.sightings: dict[str, list[Sighting]] = defaultdict(list)
        """By value, in the order of time."""
        self._deletions: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """By partition, the lines in which somebody asked for one, and the offsets below which."""
        for operation in history.operations:
            for record in operation.writes:
                if record.value in self.writes:
                    raise ValueError(
                        f"line {operation.begun + 1}: {record.value} is written for a second time"
                    )
                self.writes[record.value] = KnownWrite(
                    operation, record.value, record.partition, record.offset, record.key
                )
        current: dict[tuple[str, str], Reading] = {}
        isolations: dict[str, str] = {}
        for line, event in enumerate(history.events):
            if event.operation == "deleted":
                for partition, offset in event.positions.items():
                    self._deletions[partition].append((line, offset))
            elif event.operation == "assign":
                isolations[event.process] = event.isolation
                self._assigned(current, line, event)
            elif event.operation in ("poll", "end"):
                isolation = isolations.get(event.process, READ_COMMITTED)
                for record in event.reads:
                    self._polled(current, line, event.process, record, isolation)
                for partition, end in event.positions.items():
                    self._ended(current[event.process, partition], line, end, event)

    def _assigned(self, current: dict[tuple[str, str], Reading], line: int, event: Event) -> None:
        for process, partition in list(current):
            if process == event.process:
                del current[process, partition]
        for partition, begin in event.positions.items():
            below = self.deleted_below(partition, line)
            reading = Reading(line, event.process, partition, begin, event.isolation, below)
            current[event.process, partition] = reading
            self.readings.append(reading)

    def _polled(
        self,
        current: dict[tuple[str, str], Reading],
        line: int,
        process: str,
        record: Record,
        isolation: str,
    ) -> None:
        if record.offset is None:
            raise ValueError(f"line {line + 1}: {record.value} is read without an offset")
        reading = current.get((process, record.partition))
        if reading is None:
            reading = Reading(line, process, record.partition, record.offset, isolation)
            current[process, record.partition] = reading
            self.readings.append(reading)
        sighting = Sighting(line, record.offset, record.value, reading)
        reading.sightings.append(sighting)
        self.sightings[record.value].append(sighting)

    def _ended(self, reading: Reading, line: int, end: int, event: Event) -> None:
        reading.end, reading.end_line = end, line
        reading.high_watermark = event.high_watermarks.get(reading.partition, end)

    def seen(self, value: str) -> list[Sighting]:
        """By readers of what is committed, in the order of time."""
        return [each for each in self.sightings.get(value, ()) if each.reading.is_committed]

    def is_committed(self, operation: Operation) -> bool:
        """It was acknowledged, or nobody knows and a reader has seen a record of it."""
        if operation.outcome != "info":
            return operation.outcome == "ok"
        return operation.may_be_visible and any(self.seen(record.value) for record in operation.writes)

    @cached_property
    def committed(self) -> frozenset[int]:
        """The operations that are committed, by the lines with which they began."""
        return frozenset(each.begun for each in self.history.operations if self.is_committed(each))

    def must_be_visible(self, write: KnownWrite) -> bool:
        """Transactions are whole; of records outside of them each is written or not."""
        if write.is_acknowledged:
            return True
        if write.operation.is_transaction:
            return write.operation.begun in self.committed
        return write.operation.may_be_visible and bool(self.seen(write.value))

    @cached_property
    def places(self) -> dict[str, list[tuple[int, str]]]:
        """By partition, every offset at which a value is known to be, in their order."""
        found: dict[str, set[tuple[int, str]]] = defaultdict(set)
        for write in self.writes.values():
            if write.offset is not None:
                found[write.partition].add((write.offset, write.value))
        for value, sightings in self.sightings.items():
            for sighting in sightings:
                found[sighting.reading.partition].add((sighting.offset, value))
        return {partition: sorted(places) for partition, places in sorted(found.items())}

    @cached_property
    def unplaced(self) -> dict[str, list[KnownWrite]]:
        """By partition, writes of which nobody knows where they are."""
        found: dict[str, list[KnownWrite]] = defaultdict(list)
        for write in self.writes.values():
            if write.offset is None and write.value not in self.sightings:
                found[write.partition].append(write)
        return found

    @cached_property
    def _of_key(self) -> dict[tuple[str, str], list[tuple[int, KnownWrite]]]:
        """By partition and key, the records that may be visible and whose offset is known, the last first."""
        found: dict[tuple[str, str], list[tuple[int, KnownWrite]]] = defaultdict(list)
        for partition, places in self.places.items():
            for offset, value in reversed(places):
                write = self.writes.get(value)
                if write is not None and write.key and write.operation.may_be_visible:
                    found[partition, write.key].append((offset, write))
        return found

    def is_superseded(self, write: KnownWrite, offset: int | None, line: int) -> bool:
        """Whether compaction may have taken a record away before a line, since a later one has its key."""
        return bool(write.key) and any(
            later is not write and later.operation.begun < line
            for later_offset, later in self._of_key.get((write.partition, write.key), ())
            if offset is None or later_offset > offset
        )

    def deleted_below(self, partition: str, line: int) -> int:
        """The offset below which all may be gone, as somebody asked for that before a line."""
        return max((below for asked, below in self._deletions.get(partition, ()) if asked < line), default=0)

    def may_be_deleted(self, partition: str, offset: int | None, line: int) -> bool:
        """Whether a record of a partition may be gone by a line; of one without an offset nobody can say
        that it may not, where anything was deleted."""
        below = self.deleted_below(partition, line)
        return below > 0 if offset is None else offset < below

    def passed_by(self, reading: Reading) -> Iterator[tuple[KnownWrite, int | None]]:
        """The writes that must be visible and that a reading has gone past without having seen them, with
        the offset, as far as it is known."""
        for write, offset in self._unseen(reading):
            is_needed = not self.may_be_deleted(reading.partition, offset, reading.last_line)
            if is_needed and not self.is_superseded(write, offset, reading.last_line):
                yield write, offset

    def _unseen(self, reading: Reading) -> Iterator[tuple[KnownWrite, int | None]]:
        places = self.places.get(reading.partition, [])
        first = bisect_left(places, (reading.begin, ""))
        for offset, value in places[first : bisect_left(places, (reading.beyond, ""))]:
            write = self.writes.get(value)
            if write is not None and value not in reading.values and self.must_be_visible(write):
                yield write, offset
        if reading.is_whole:
            beyond = places[bisect_left(places, (reading.beyond, "")) :]
            behind = [(self.writes[value], offset) for offset, value in beyond if value in self.writes]
            unplaced = [(write, None) for write in self.unplaced.get(reading.partition, ())]
            for write, found in (*behind, *unplaced):
                if self.must_be_visible(write) and self._committed_since(write) < reading.line:
                    yield write, found

    def _committed_since(self, write: KnownWrite) -> float:
        """The line in which somebody knew that it must be visible, and so was stored before."""
        operation = write.operation
        if write.is_acknowledged and operation.ended is not None:
            return operation.ended
        values = [record.value for record in operation.writes] if operation.is_transaction else [write.value]
        seen = [each[0].line for value in values if (each := self.seen(value))]
        return min(seen) if seen and operation.begun in self.committed else inf
