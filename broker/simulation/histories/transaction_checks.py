"""Transactions as wholes: visible everywhere or nowhere, in no circle, with the offsets that they commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from broker.simulation.histories.anomalies import (
    CONSUMED_TWICE,
    INFORMATION_CYCLE,
    INTERMEDIATE_READ,
    NEVER_CONSUMED,
    TORN_TRANSACTION,
    WRITE_CYCLE,
    Anomaly,
    shown,
)
from broker.simulation.histories.evidence import Evidence, Reading
from broker.simulation.histories.history import Operation

__all__ = ["CHECKS", "interleaved_writes"]

Graph = Mapping[int, Mapping[int, str]]
"""From one operation to others, each by the line with which it began, with a value that shows it."""


def transactions_are_whole(known: Evidence) -> Iterator[Anomaly]:
    """Of one that is visible at all each record is seen by whoever goes past it."""
    passed: dict[int, list[_Passed]] = defaultdict(list)
    for reading in known.readings:
        if reading.is_committed:
            for write, offset in known.passed_by(reading):
                if write.operation.is_transaction:
                    passed[write.operation.begun].append(_Passed(write.value, offset, reading))
    by_line = {operation.begun: operation for operation in known.history.operations}
    for begun, missed in passed.items():
        operation = by_line[begun]
        yield from _part_of_a_partition(known, operation, missed)
        yield from _part_of_the_partitions(known, operation, missed)


class _Passed(NamedTuple):
    value: str
    offset: int | None
    reading: Reading

    @property
    def lines(self) -> list[int]:
        return self.reading.passing(self.offset)


def _part_of_a_partition(
    known: Evidence, operation: Operation, missed: Iterable[_Passed]
) -> Iterator[Anomaly]:
    """One reader saw this record and not that one, in one partition."""
    for each in missed:
        reading = each.reading
        for record in operation.writes:
            if record.partition == reading.partition and record.value in reading.values:
                seen = next(it.line for it in reading.sightings if it.value == record.value)
                yield Anomaly(
                    INTERMEDIATE_READ,
                    f"{reading.process} sees {record.value} of a transaction in {reading.partition} "
                    f"and goes past {each.value}",
                    (*operation.lines, seen, *each.lines),
                    frozenset([record.value, each.value]),
                )
                return


def _part_of_the_partitions(
    known: Evidence, operation: Operation, missed: Iterable[_Passed]
) -> Iterator[Anomaly]:
    """No reader saw a record of it in one partition, some reader did in another one."""
    seen = {each.partition for each in operation.writes if known.seen(each.value)}
    unseen = [each for each in missed if each.reading.partition not in seen]
    if seen and unseen:
        partitions = sorted({each.reading.partition for each in unseen})
        sighting = next(
            known.seen(each.value)[0]
            for each in operation.writes
            if each.partition in seen and known.seen(each.value)
        )
        yield Anomaly(
            TORN_TRANSACTION,
            f"the transaction is visible in {shown(seen)} ({sighting.value}), and in {shown(partitions)} "
            f"{unseen[0].reading.process} goes past {unseen[0].value}",
            (*operation.lines, sighting.line, *unseen[0].lines),
            frozenset([sighting.value, unseen[0].value]),
        )


def information_flows_forward(known: Evidence) -> Iterator[Anomaly]:
    """No transaction has read, over others, from itself."""
    graph: dict[int, dict[int, str]] = defaultdict(dict)
    for operation in known.history.operations:
        for record in operation.reads:
            write = known.writes.get(record.value)
            if write is not None:
                graph[write.operation.begun].setdefault(operation.begun, record.value)
    for circle in _circles(graph):
        yield _told_circle(known, INFORMATION_CYCLE, "have read from each other", graph, circle)


def interleaved_writes(known: Evidence) -> Iterator[Anomaly]:
    """Transactions that lie in different orders in different partitions.

    Kafka allows that for transactions that run side by side; elsewhere it would be G0.
    """
    graph: dict[int, dict[int, str]] = defaultdict(dict)
    for places in known.places.values():
        before: int | None = None
        for _, value in places:
            write = known.writes.get(value)
            if write is None or not write.operation.is_transaction:
                continue
            begun = write.operation.begun
            if before is not None and before != begun:
                graph[before].setdefault(begun, value)
            before = begun
    for circle in _circles(graph):
        yield _told_circle(known, WRITE_CYCLE, "lie in different orders", graph, circle)


def _told_circle(known: Evidence, kind: str, what: str, graph: Graph, circle: list[int]) -> Anomaly:
    by_line = {operation.begun: operation for operation in known.history.operations}
    values = [graph[one][other] for one, other in zip(circle, [*circle[1:], circle[0]], strict=True)]
    lines = [line for begun in circle for line in by_line[begun].lines]
    return Anomaly(
        kind,
        f"{len(circle)} transactions {what}, by {shown(values)}",
        tuple(lines),
        frozenset(values),
    )


def _circles(graph: Graph) -> Iterator[list[int]]:
    """One circle of each strongly connected part that has any, a shortest one through its first node."""
    for part in _connected_parts(graph):
        first = min(part)
        if len(part) > 1:
            yield _shortest_circle(graph, part, first)
        elif first in graph.get(first, {}):
            yield [first]


def _shortest_circle(graph: Graph, part: set[int], first: int) -> list[int]:
    paths = [[first]]
    reached = {first}
    while True:
        longer = []
        for path in paths:
            for node in graph[path[-1]]:
                if node == first:
                    return path
                if node in part and node not in reached:
                    reached.add(node)
                    longer.append([*path, node])
        paths = longer


def _connected_parts(graph: Graph) -> Iterator[set[int]]:
    """Kosaraju's: the order in which a search leaves the nodes, then searches against the edges."""
    order: list[int] = []
    left: set[int] = set()
    for start in graph:
        path = [(start, iter(graph[start]))] if start not in left else []
        left.add(start)
        while path:
            node, edges = path[-1]
            following = next((each for each in edges if each not in left), None)
            if following is None:
                order.append(node)
                path.pop()
            else:
                left.add(following)
                path.append((following, iter(graph.get(following, {}))))
    against: dict[int, list[int]] = defaultdict(list)
    for node, edges_of in graph.items():
        for other in edges_of:
            against[other].append(node)
    assigned: set[int] = set()
    for start in reversed(order):
        if start in assigned:
            continue
        part, waiting = set[int](), [start]
        assigned.add(start)
        while waiting:
            node = waiting.pop()
            part.add(node)
            following_nodes = [each for each in against[node] if each not in assigned]
            assigned.update(following_nodes)
            waiting += following_nodes
        yield part


def groups_consume_once(known: Evidence) -> Iterator[Anomaly]:
    """What the committed transactions of a group have taken in from the first record on, each one once."""
    taken: dict[tuple[str, str], dict[int, Operation]] = defaultdict(dict)
    perhaps: dict[tuple[str, str], set[int]] = defaultdict(set)
    for operation in known.history.operations:
        group = operation.event.group
        for record in operation.reads:
            place = (group, record.partition)
            if not group or record.offset is None:
                continue
            if operation.begun not in known.committed:
                if operation.may_be_visible and not operation.writes:
                    perhaps[place].add(record.offset)
                continue
            before = taken[place].setdefault(record.offset, operation)
            if before is not operation:
                yield Anomaly(
                    CONSUMED_TWICE,
                    f"{record.value} of {record.partition}@{record.offset} is taken in by two transactions "
                    f"of {group}",
                    (*before.lines, *operation.lines),
                    frozenset([record.value]),
                )
    for (group, partition), operations in taken.items():
        last = max(operations)
        for offset, value in known.places.get(partition, ()):
            if offset >= last or offset in operations or offset in perhaps[group, partition]:
                continue
            write, line = known.writes.get(value), operations[last].lines[-1]
            if known.may_be_deleted(partition, offset, line):
                continue
            if write is not None and known.is_superseded(write, offset, line):
                continue
            if known.seen(value):
                yield Anomaly(
                    NEVER_CONSUMED,
                    f"{value} of {partition}@{offset} is taken in by no committed transaction of {group}, "
                    f"and {partition}@{last} is",
                    (known.seen(value)[0].line, *operations[last].lines),
                    frozenset([value]),
                )


CHECKS = (transactions_are_whole, information_flows_forward, groups_consume_once)
"""Each yields what it finds."""
