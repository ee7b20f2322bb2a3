"""What must not happen, by the names that the literature and Jepsen's tests of Kafka have for it, and how it
is told to people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.simulation.histories.history import Event, History, Record

__all__ = [
    "ABORTED_READ",
    "CONSUMED_TWICE",
    "DUPLICATE",
    "EARLY_READ",
    "HANGING_TRANSACTION",
    "INCONSISTENT_OFFSET",
    "INFORMATION_CYCLE",
    "INTERMEDIATE_READ",
    "KINDS",
    "LOST_WRITE",
    "NEVER_CONSUMED",
    "NONMONOTONIC_POLL",
    "NONMONOTONIC_SEND",
    "SKIPPED_POLL",
    "TORN_TRANSACTION",
    "UNKNOWN_VALUE",
    "WRITE_CYCLE",
    "Anomaly",
    "tell",
]

LOST_WRITE: Final = "lost write"
DUPLICATE: Final = "duplicate"
INCONSISTENT_OFFSET: Final = "inconsistent offset"
UNKNOWN_VALUE: Final = "unknown value"
ABORTED_READ: Final = "aborted read (G1a)"
INTERMEDIATE_READ: Final = "intermediate read (G1b)"
EARLY_READ: Final = "early read"
TORN_TRANSACTION: Final = "torn transaction"
INFORMATION_CYCLE: Final = "circular information flow (G1c)"
WRITE_CYCLE: Final = "write cycle (G0)"
NONMONOTONIC_POLL: Final = "non-monotonic poll"
SKIPPED_POLL: Final = "skipped poll"
NONMONOTONIC_SEND: Final = "non-monotonic send"
HANGING_TRANSACTION: Final = "hanging transaction"
CONSUMED_TWICE: Final = "consumed twice"
NEVER_CONSUMED: Final = "never consumed"

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LOST_WRITE: "a record that must be visible is missing for who reads past its place or to the end",
        DUPLICATE: "one value is at two offsets",
        INCONSISTENT_OFFSET: "two values are at one offset",
        UNKNOWN_VALUE: "a reader is given what nobody wrote, or wrote elsewhere",
        ABORTED_READ: "a reader of what is committed sees a record that cannot be",
        INTERMEDIATE_READ: "a reader sees one record of a transaction in a partition and goes past another",
        EARLY_READ: "a reader sees a record before its producer has asked for the commit",
        TORN_TRANSACTION: "a transaction is visible in one partition and not in another one",
        INFORMATION_CYCLE: "transactions have read from each other in a circle",
        WRITE_CYCLE: "the order of two writes contradicts time or two others (if writes are isolated)",
        NONMONOTONIC_POLL: "a reader is given a lower offset than before, or the same again",
        SKIPPED_POLL: "a reader goes past a record that is there for others",
        NONMONOTONIC_SEND: "a producer's later record lies before an earlier one",
        HANGING_TRANSACTION: "the last stable offset stays below the high watermark when all is over",
        CONSUMED_TWICE: "two committed transactions of a group have taken in the same record",
        NEVER_CONSUMED: "the committed transactions of a group have gone past a record",
    }
)

FEW: Final = 4


class Anomaly(NamedTuple):
    """One of `KINDS`, said in a sentence, with the lines of the history that show it."""

    kind: str
    text: str
    lines: tuple[int, ...]
    values: frozenset[str]
    """That it is about."""

    def story(self, history: History) -> str:
        """The lines of the history, said in sentences, with the faults that were under way."""
        found = sorted(set(self.lines))
        shown = {line: tell(history.events[line], self.values) for line in found}
        for fault in history.faults_between(found[0], found[-1]):
            shown[fault.begun] = f"-- {fault.event.name} begins"
            if fault.ended is not None:
                shown[fault.ended] = f"-- {fault.event.name} is over"
        told = [
            f"    line {line + 1:>6} {history.events[line].time_ms / 1000:10.3f} s  {sentence}"
            for line, sentence in sorted(shown.items())
        ]
        return "\n".join([f"{self.kind}: {self.text}", *told])


def tell(event: Event, about: Collection[str] = ()) -> str:
    """One line of a history as a sentence; of many records those that it is about are named."""
    who, why = event.process, f" ({event.why})" if event.why else ""
    if event.operation == "poll":
        return f"{who} is given {_named(event.reads, about)}"
    if event.operation == "assign":
        return f"{who} begins to read ({event.isolation}) at {_places(event.positions)}"
    if event.operation == "end":
        return f"{who} comes to the end at {_places(event.positions)}{_above(event)}"
    if event.operation == "deleted":
        return f"{who} asks that all before {_places(event.positions)} be deleted"
    if event.type == "asks":
        return f"{who} asks for the {event.ending} of its transaction"
    what = f"the transaction of {event.transactional_id}" if event.transactional_id else "its transaction"
    if event.operation == "write":
        what = "its write"
    if event.type == "invoke":
        takes = f" takes in {_named(event.reads, about)} and" if event.reads else ""
        return f"{who} begins {what}:{takes} writes {_named(event.writes, about)}"
    told = f": {_named(event.writes, about)}" if event.writes else ""
    if event.type == "ok":
        done = "is committed" if event.operation == "transaction" else "is done"
        return f"{who} is told that {what} {done}{told}{why}"
    if event.type == "fail":
        done = "is aborted" if event.operation == "transaction" else "has failed"
        return f"{who} is told that {what} {done}{told}{why}"
    return f"{who} does not learn what becomes of {what}{told}{why}"


def _named(records: Sequence[Record], about: Collection[str]) -> str:
    chosen = [record for record in records if record.value in about] or list(records[:FEW])
    others = len(records) - len(chosen)
    named = ", ".join(map(str, chosen)) or "nothing"
    return f"{named} and {others} more" if others else named


def _places(positions: dict[str, int]) -> str:
    return ", ".join(f"{partition}@{offset}" for partition, offset in positions.items())


def _above(event: Event) -> str:
    above = {
        partition: high
        for partition, high in event.high_watermarks.items()
        if high > event.positions.get(partition, high)
    }
    return f", with high watermarks {_places(above)} above" if above else ""


def shown(values: Iterable[str]) -> str:
    """A few of many values."""
    found = sorted(values)
    return ", ".join(found[:FEW]) + (f" and {len(found) - FEW} more" if len(found) > FEW else "")
