"""Each record by itself: is it where it should be, once, in order, and seen by those who came past?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from broker.simulation.histories.anomalies import (
    ABORTED_READ,
    DUPLICATE,
    EARLY_READ,
    HANGING_TRANSACTION,
    INCONSISTENT_OFFSET,
    LOST_WRITE,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    SKIPPED_POLL,
    UNKNOWN_VALUE,
    WRITE_CYCLE,
    Anomaly,
)
from broker.simulation.histories.evidence import Evidence, KnownWrite, Reading

__all__ = ["CHECKS"]


def offsets_hold_one_value(known: Evidence) -> Iterator[Anomaly]:
    for partition, places in known.places.items():
        by_offset: dict[int, list[str]] = defaultdict(list)
        by_value: dict[str, list[int]] = defaultdict(list)
        for offset, value in places:
            by_offset[offset].append(value)
            by_value[value].append(offset)
        for offset, values in by_offset.items():
            if len(values) > 1:
                yield Anomaly(
                    INCONSISTENT_OFFSET,
                    f"offset {offset} of {partition} has {' and '.join(values)}",
                    _lines_at(known, partition, offset),
                    frozenset(values),
                )
        for value, offsets in by_value.items():
            if len(offsets) > 1:
                lines = [line for offset in offsets for line in _lines_at(known, partition, offset, value)]
                yield Anomaly(
                    DUPLICATE,
                    f"{value} is in {partition} at {' and at '.join(map(str, offsets))}",
                    tuple(lines),
                    frozenset([value]),
                )


def _lines_at(known: Evidence, partition: str, offset: int, value: str = "") -> tuple[int, ...]:
    """Who was told or shown what is at an offset; of each value the first one who saw it."""
    lines: list[int] = []
    for found_offset, found in known.places[partition]:
        if found_offset != offset or (value and found != value):
            continue
        write = known.writes.get(found)
        if write is not None:
            lines += write.operation.lines
        seen = [each.line for each in known.sightings.get(found, ()) if each.offset == offset]
        lines += seen[:1]
    return tuple(lines)


def readers_are_given_what_was_written(known: Evidence) -> Iterator[Anomaly]:
    for value, sightings in known.sightings.items():
        write = known.writes.get(value)
        for sighting in sightings:
            partition = sighting.reading.partition
            if write is None or write.partition != partition:
                written = "nobody wrote it" if write is None else f"it was written to {write.partition}"
                yield Anomaly(
                    UNKNOWN_VALUE,
                    f"{sighting.reading.process} is given {value} at {partition}@{sighting.offset}, "
                    f"and {written}",
                    (*(write.operation.lines if write else ()), sighting.line),
                    frozenset([value]),
                )
                break


def readers_are_given_what_is_committed(known: Evidence) -> Iterator[Anomaly]:
    for value in known.sightings:
        write, seen = known.writes.get(value), known.seen(value)
        if write is None or not seen:
            continue
        operation, first = write.operation, seen[0]
        if not operation.may_be_visible:
            unasked = operation.outcome == "info" and operation.asked is None
            reason = "nobody asked for its commit" if unasked else "it is aborted"
            if not operation.is_transaction:
                reason = "it has failed"
            yield Anomaly(
                ABORTED_READ,
                f"{first.reading.process} sees {value}, and {reason}",
                (*operation.lines, first.line),
                frozenset([value]),
            )
        elif operation.is_transaction and first.line < (
            operation.begun if operation.asked is None else operation.asked
        ):
            yield Anomaly(
                EARLY_READ,
                f"{first.reading.process} sees {value} before {operation.process} asks for its commit",
                (*operation.lines, first.line),
                frozenset([value]),
            )


def nothing_visible_is_missed(known: Evidence) -> Iterator[Anomaly]:
    missed: dict[str, list[tuple[Reading, int | None]]] = defaultdict(list)
    for reading in known.readings:
        for write, offset in known.passed_by(reading):
            missed[write.value].append((reading, offset))
    for value, readings in missed.items():
        write, seen = known.writes[value], known.seen(value)
        passes = [(each.passing(offset), each.process) for each, offset in readings]
        passing, process = max(passes)
        is_lost = not seen or passing[-1] > seen[-1].line
        yield Anomaly(
            LOST_WRITE if is_lost else SKIPPED_POLL,
            f"{_must_be_seen(write, known)}, and {process} goes past it without seeing it",
            (*write.operation.lines, *(each.line for each in seen[:1]), *passing),
            frozenset([value]),
        )


def _must_be_seen(write: KnownWrite, known: Evidence) -> str:
    place = write.partition if write.offset is None else f"{write.partition}@{write.offset}"
    if write.is_acknowledged:
        return f"{write.value} is acknowledged in {place}"
    operation = write.operation
    for record in operation.writes:
        for sighting in known.seen(record.value):
            seer = sighting.reading.process
            return f"{write.value} in {place} is as committed as {record.value}, which {seer} sees"
    return f"{write.value} is in {place}"


def readers_go_forward(known: Evidence) -> Iterator[Anomaly]:
    for reading in known.readings:
        last_offset, last_line = reading.begin - 1, reading.line
        for sighting in reading.sightings:
            if sighting.offset <= last_offset:
                yield Anomaly(
                    NONMONOTONIC_POLL,
                    f"{reading.process} is given {reading.partition}@{sighting.offset} after {last_offset}",
                    (last_line, sighting.line),
                    frozenset([sighting.value]),
                )
            last_offset, last_line = sighting.offset, sighting.line


def producers_go_forward(known: Evidence) -> Iterator[Anomaly]:
    last: dict[tuple[str, str], KnownWrite] = {}
    for operation in known.history.operations:
        for record in operation.writes:
            if record.offset is None:
                continue
            write, place = known.writes[record.value], (operation.process, record.partition)
            before = last.get(place)
            if before is not None and before.offset is not None and before.offset >= record.offset:
                yield Anomaly(
                    NONMONOTONIC_SEND,
                    f"{operation.process} wrote {before.value} and then {record.value} "
                    f"to {record.partition}, at {before.offset} and {record.offset}",
                    (*before.operation.lines, *operation.lines),
                    frozenset([before.value, record.value]),
                )
            last[place] = write


def writes_are_in_the_order_of_time(known: Evidence) -> Iterator[Anomaly]:
    """What was acknowledged before something else began lies before it."""
    by_partition: dict[str, list[tuple[int, KnownWrite]]] = defaultdict(list)
    for write in known.writes.values():
        if write.offset is not None:
            by_partition[write.partition].append((write.offset, write))
    for partition, writes in by_partition.items():
        earliest: tuple[int, KnownWrite] | None = None
        for offset, write in sorted(writes, key=lambda each: each[0], reverse=True):
            if earliest is not None and earliest[0] < write.operation.begun:
                later = earliest[1]
                yield Anomaly(
                    WRITE_CYCLE,
                    f"{later.value} was written before {write.value} was begun, and lies behind it "
                    f"in {partition}: at {later.offset} and {offset}",
                    (*later.operation.lines, *write.operation.lines),
                    frozenset([later.value, write.value]),
                )
            ended = write.operation.ended
            if ended is not None and (earliest is None or ended < earliest[0]):
                earliest = (ended, write)


def nothing_is_left_open(known: Evidence) -> Iterator[Anomaly]:
    for reading in known.readings:
        if reading.is_committed and reading.end is not None and reading.end < reading.high_watermark:
            open_at = [
                write
                for offset, value in known.places.get(reading.partition, ())
                if offset >= reading.end and (write := known.writes.get(value)) is not None
            ]
            writes = f"; {open_at[0].value} is there" if open_at else ""
            yield Anomaly(
                HANGING_TRANSACTION,
                f"the last stable offset of {reading.partition} is {reading.end} and the high watermark "
                f"{reading.high_watermark}{writes}",
                (*(open_at[0].operation.lines if open_at else ()), reading.end_line),
                frozenset(each.value for each in open_at[:1]),
            )


CHECKS = (
    offsets_hold_one_value,
    readers_are_given_what_was_written,
    readers_are_given_what_is_committed,
    nothing_visible_is_missed,
    readers_go_forward,
    producers_go_forward,
    writes_are_in_the_order_of_time,
    nothing_is_left_open,
)
"""Each yields what it finds."""
