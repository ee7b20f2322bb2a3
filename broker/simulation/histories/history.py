"""What clients did to a cluster and were told by it, one line of JSON after the other, in the order of time.

The cluster may be a real one or a simulated one: a line's time is in milliseconds since the beginning of
either. The order of the lines is what counts: an operation that has ended in one line was over before one
that begins in a later line. So whoever writes a history writes `invoke` before it asks a client for
anything, and the line of the answer after it has come.

    {"time_ms": 5.1, "process": "writer-1", "type": "invoke", "operation": "transaction",
     "transactional_id": "t-1", "writes": [["fire-0", "w1:7:0"], ["fire-1", "w1:7:1"]]}
    {"time_ms": 6.0, "process": "writer-1", "type": "asks", "operation": "transaction", "ending": "commit"}
    {"time_ms": 9.4, "process": "writer-1", "type": "ok", "operation": "transaction",
     "writes": [["fire-0", "w1:7:0", 12], ["fire-1", "w1:7:1", 4]]}
    {"time_ms": 9.9, "process": "reader-1", "type": "ok", "operation": "poll",
     "reads": [["fire-0", "w1:7:0", 12]]}

A process does one thing after the other. The operations:

* `transaction`   writes records, and ends. `asks` is the moment at which its end is asked for. `reads` are
                  the records whose offsets it commits for `group`, if it consumes, transforms and produces;
                  a group begins with the first record of a partition.
* `write`         records outside of transactions.
* `poll`          records that a consumer has been given; one line, without `invoke`.
* `assign`        from here on the process reads at `positions`, with `isolation`; one line.
* `end`           the process has read up to `positions`, the last stable offsets (the high watermarks for
                  read_uncommitted), and knows that nothing more was there; `high_watermarks` of these
                  partitions may be above. One line. A history whose readers never come to an end does not
                  say what became of the last records.
* `own`           from here on the process takes `partitions`, and no others, for its own, as `member` of
                  `group` in `generation` (a member epoch, where the coordinator distributes the partitions);
                  `instance` if it is a static member. One line. It is written as long as the process would
                  act on it: without partitions when it gives them up, or when its process ends.
* `commit`        asks that `positions` be committed for `group`, as `member` in `generation`.
* `committed`     asks what `group` has committed: `invoke` names the partitions, and `ok` has `positions`, -1
                  where nothing is committed. `broker` says who answered, as far as the client knows.
* `reset`         somebody goes on at `positions` of `group` whatever is committed: what a consumer had not
                  read is gone, or an administrator wants it so. One line.
* `deleted`       somebody asks that all records below `positions` be deleted: from here on they may be gone.
                  One line, written before anybody is asked.
* `fault`         `name` says what was done to the cluster between `invoke` and `ok`.

How an operation ends: `ok`, it has been done. `fail`, it has not been done and never will be: the transaction
is aborted, the records are not written. `info`, nobody knows: the client gave up, or was told nothing. What
is `info` may be done at any time or never, but a transaction of which nobody asked that it is committed
cannot be committed. An operation without an end is `info`.

Each value is written once. An offset that a producer was told is known for good, however its transaction
ends: the record has been stored there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

__all__ = [
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Event",
    "History",
    "Operation",
    "Record",
    "deleted_below",
    "read_history",
]

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

OF_ONE_LINE: Final = frozenset({"poll", "assign", "end", "own", "reset", "deleted"})
_OF_GROUPS: Final = frozenset({"commit", "committed"})


class Record(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One record, in a partition named as `topic-0`; offset: None if nobody was told where it is. key: of
    what is written to a topic that is compacted, where a later record of the same key may take its place."""

    partition: str
    value: str
    offset: int | None = None
    key: str = ""

    def __str__(self) -> str:
        return f"{self.value} in {self.partition}" + (f" at {self.offset}" if self.offset is not None else "")


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line."""

    time_ms: float
    process: str
    type: Literal["invoke", "asks", "ok", "fail", "info"]
    operation: Literal[
        "transaction",
        "write",
        "poll",
        "assign",
        "end",
        "own",
        "commit",
        "committed",
        "reset",
        "deleted",
        "fault",
    ]
    transactional_id: str = ""
    writes: tuple[Record, ...] = ()
    reads: tuple[Record, ...] = ()
    group: str = ""
    ending: Literal["", "commit", "abort"] = ""
    positions: dict[str, int] = {}
    high_watermarks: dict[str, int] = {}
    isolation: Literal["read_committed", "read_uncommitted"] = READ_COMMITTED
    partitions: tuple[str, ...] = ()
    member: str = ""
    instance: str = ""
    generation: int = -1
    broker: str = ""
    name: str = ""
    """Of a fault."""
    why: str = ""
    """What the client was told, for people."""


class Operation:
    """An operation from its beginning to its end, each known by the number of its line, from 0."""

    def __init__(self, begun: int, event: Event) -> None:
        self.begun = begun
        self.event = event
        """With which it began."""
        self.asked: int | None = None
        """When it was asked for the first time that the transaction is committed."""
        self.ended: int | None = None
        self.outcome: Literal["ok", "fail", "info"] = "info"
        self.writes = event.writes
        self.reads = event.reads

    @property
    def process(self) -> str:
        return self.event.process

    @property
    def is_transaction(self) -> bool:
        return self.event.operation == "transaction"

    @property
    def may_be_visible(self) -> bool:
        """Whether a reader of what is committed may see its records, now or ever."""
        if self.outcome == "info":
            return self.asked is not None or not self.is_transaction
        return self.outcome == "ok"

    @property
    def lines(self) -> list[int]:
        return [line for line in (self.begun, self.asked, self.ended) if line is not None]

    def goes_on(self, line: int, event: Event) -> bool:
        """Takes a later line of its process; False when the operation has ended with it."""
        if event.type == "asks":
            if event.ending == "commit" and self.asked is None:
                self.asked = line
            return True
        if event.type == "invoke":
            raise ValueError(
                f"line {line + 1}: {event.process} begins something before it has ended something"
            )
        self.ended = line
        self.outcome = event.type
        told = {record.value: record for record in event.writes}
        self.writes = tuple(told.pop(record.value, record) for record in self.writes) + tuple(told.values())
        self.reads = event.reads or self.reads
        return False


class History:
    """Events in the order of time, and what they were parts of."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)
        self.operations: list[Operation] = []
        """Transactions and writes, as they began."""
        self.group_operations: list[Operation] = []
        """What was committed for groups, and looked up."""
        self.faults: list[Operation] = []
        open_operations: dict[str, Operation] = {}
        for line, event in enumerate(self.events):
            if event.operation in OF_ONE_LINE:
                continue
            under_way = open_operations.get(event.process)
            if under_way is None:
                if event.type != "invoke":
                    raise ValueError(f"line {line + 1}: {event.process} ends what it has not begun")
                operation = open_operations[event.process] = Operation(line, event)
                self._of_kind(event).append(operation)
            elif under_way.event.operation != event.operation:
                raise ValueError(f"line {line + 1}: {event.process} does two things at once")
            elif not under_way.goes_on(line, event):
                del open_operations[event.process]

    def _of_kind(self, event: Event) -> list[Operation]:
        if event.operation == "fault":
            return self.faults
        return self.group_operations if event.operation in _OF_GROUPS else self.operations

    def fault_counts(self) -> Counter[str]:
        return Counter(fault.event.name for fault in self.faults)

    def outcome_counts(self) -> Counter[str]:
        """How transactions and writes have ended, as far as their clients know."""
        return Counter(f"{each.event.operation}s {each.outcome}" for each in self.operations)

    def faults_between(self, first: int, last: int) -> Iterator[Operation]:
        """Those that were under way at some time between two lines."""
        for fault in self.faults:
            if fault.begun <= last and (fault.ended is None or fault.ended >= first):
                yield fault


def deleted_below(events: Iterable[Event]) -> dict[str, int]:
    """By partition, the offset below which all may be gone, as somebody has asked for that."""
    found: dict[str, int] = {}
    for event in events:
        if event.operation == "deleted":
            for partition, offset in event.positions.items():
                found[partition] = max(found.get(partition, 0), offset)
    return found


_DECODER: Final = msgspec.json.Decoder(Event)


def read_history(path: Path) -> History:
    """Raises ValueError, with the number of the line, where it is no history."""
    events = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                events.append(_DECODER.decode(line))
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number}: {error}") from error
    return History(events)
