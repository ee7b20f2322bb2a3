"""A cluster as simple as one can think of it, with clients, played under one seed: it makes histories.

Partitions are lists, a transaction is over in a partition when its marker is there, and a reader of what is
committed stops before the first record of an open one. Answers are lost at random, transactions aborted,
given up and timed out. With a flaw from `FLAWS` the cluster breaks one promise now and then (`happened`
counts how often), and the checker must find it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from broker.simulation.histories.anomalies import (
    ABORTED_READ,
    CONSUMED_TWICE,
    DUPLICATE,
    EARLY_READ,
    HANGING_TRANSACTION,
    INCONSISTENT_OFFSET,
    INTERMEDIATE_READ,
    LOST_WRITE,
    NEVER_CONSUMED,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    SKIPPED_POLL,
    TORN_TRANSACTION,
    UNKNOWN_VALUE,
    WRITE_CYCLE,
)
from broker.simulation.histories.history import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Event,
    History,
    Record,
)

__all__ = ["FLAWS", "PlayedCluster"]

PARTITIONS: Final = ("a-0", "a-1", "b-0")
COPIES: Final = "copies-0"
STEPS: Final = 1000

FLAWS: Final = {
    "an acknowledged record is lost": LOST_WRITE,
    "a record is stored twice": DUPLICATE,
    "an offset is given to two records": INCONSISTENT_OFFSET,
    "a reader is given what nobody wrote": UNKNOWN_VALUE,
    "an aborted transaction is shown": ABORTED_READ,
    "an open transaction is shown": EARLY_READ,
    "one record of a transaction is not shown": INTERMEDIATE_READ,
    "a marker says the contrary": TORN_TRANSACTION,
    "a marker is lost": HANGING_TRANSACTION,
    "a reader goes back": NONMONOTONIC_POLL,
    "a reader leaves something out": SKIPPED_POLL,
    "records change places": NONMONOTONIC_SEND,
    "a record comes to lie before older ones": WRITE_CYCLE,
    "offsets are not committed with their transaction": CONSUMED_TWICE,
    "offsets are committed without their transaction": NEVER_CONSUMED,
}
"""What the cluster does wrong, and what the checker calls it."""


class Transaction:
    def __init__(self, index: int) -> None:
        self.index = index
        self.partitions: set[str] = set()
        """Without their markers."""
        self.outcome: bool | None = None
        """Whether it commits; None: not decided."""
        self.offsets: int | None = None
        """Of the input, committed with it."""
        self.is_shown_anyway = False


class Entry:
    """A record, or a marker without a value."""

    def __init__(self, value: str, transaction: Transaction | None) -> None:
        self.value = value
        self.transaction = transaction
        self.is_hidden = False


class PlayedCluster:
    """`history()` plays it."""

    def __init__(self, seed: int, flaw: str = "") -> None:
        self.happened = 0
        """How often the flaw has shown itself."""
        self.random = random.Random(seed)
        self._flaw = flaw
        self._events: list[Event] = []
        self._log: dict[str, list[Entry]] = {name: [] for name in (*PARTITIONS, COPIES)}
        self._open: dict[Transaction, None] = {}
        """Not decided, or without some of their markers."""
        self._committed_input = 0
        self._transactions = 0

    def history(self) -> History:
        clients = [_Writer(self, f"writer-{number}").steps() for number in range(3)]
        clients += [_Copier(self, "copier").steps(), self._plain_writer(), self._coordinator()]
        readers = [_Reader(self, f"reader-{number}", READ_COMMITTED) for number in range(2)]
        readers.append(_Reader(self, "reader-of-all", READ_UNCOMMITTED))
        clients += [each.steps() for each in readers]
        for _ in range(STEPS):
            next(self.random.choice(clients))
        for transaction in self._open:
            if transaction.outcome is None:
                self.decide(transaction, False)
        for _ in range(len(self._open) * len(PARTITIONS) * 4):
            next(clients[5])
        readers.append(_Reader(self, "reader-afterwards", READ_COMMITTED))
        for reader in readers:
            reader.read_to_the_end()
        return History(self._events)

    # What clients call

    def tell(self, process: str, type: Any, operation: Any, **fields: Any) -> None:  # noqa: A002
        time_ms = float(len(self._events))
        self._events.append(Event(time_ms=time_ms, process=process, type=type, operation=operation, **fields))

    def goes_wrong(self, flaw: str, one_in: int = 4) -> bool:
        if self._flaw != flaw or self.random.randrange(one_in):
            return False
        self.happened += 1
        return True

    def begin(self) -> Transaction:
        self._transactions += 1
        transaction = Transaction(self._transactions)
        self._open[transaction] = None
        return transaction

    def append(self, partition: str, value: str, transaction: Transaction | None) -> int:
        log = self._log[partition]
        if transaction is not None:
            transaction.partitions.add(partition)
        markers = [at for at, entry in enumerate(log) if not entry.value]
        if (
            markers
            and markers[0] < len(log) - 8
            and self.goes_wrong("a record comes to lie before older ones")
        ):
            log[markers[0]] = Entry(value, None)
            return markers[0]
        if log and log[-1].value and self.goes_wrong("an offset is given to two records", 10):
            log[-1] = Entry(value, transaction)
            return len(log) - 1
        log.append(Entry(value, transaction))
        offset = len(log) - 1
        if self.goes_wrong("a record is stored twice", 10):
            log.append(Entry(value, transaction))
        return offset

    def decide(self, transaction: Transaction, commits: bool) -> None:
        if transaction.outcome is not None:
            return
        transaction.outcome = commits
        if not commits and transaction.partitions:
            transaction.is_shown_anyway = self.goes_wrong("an aborted transaction is shown")
        if transaction.offsets is not None:
            if commits and self.goes_wrong("offsets are not committed with their transaction", 2):
                return
            if commits or self.goes_wrong("offsets are committed without their transaction", 1):
                self._committed_input = max(self._committed_input, transaction.offsets)

    @property
    def committed_input(self) -> int:
        return self._committed_input

    def is_over(self, transaction: Transaction) -> bool:
        return transaction not in self._open

    def end(self, partition: str) -> int:
        return len(self._log[partition])

    def last_stable_offset(self, partition: str) -> int:
        for offset, entry in enumerate(self._log[partition]):
            transaction = entry.transaction
            if entry.value and transaction is not None and partition in transaction.partitions:
                return offset
        return self.end(partition)

    def visible(self, partition: str, begin: int, end: int, isolation: str) -> list[Record]:
        found = []
        for offset, entry in list(enumerate(self._log[partition]))[begin:end]:
            transaction = entry.transaction
            is_there = bool(entry.value) and not entry.is_hidden
            if isolation == READ_COMMITTED and transaction is not None:
                is_there &= transaction.outcome is not False or transaction.is_shown_anyway
            if is_there:
                found.append(Record(partition, entry.value, offset))
        return found

    # What happens without them

    def _plain_writer(self) -> Iterator[None]:
        number = 0
        while True:
            partition, value = self.random.choice(PARTITIONS), f"plain:{number}"
            self.tell("plain-writer", "invoke", "write", writes=(Record(partition, value),))
            yield
            number += 1
            outcome = self.random.choice(["ok", "ok", "ok", "info and there", "info", "fail"])
            offset = None if outcome in ("info", "fail") else self.append(partition, value, None)
            if outcome == "ok":
                self.tell("plain-writer", "ok", "write", writes=(Record(partition, value, offset),))
            else:
                self.tell("plain-writer", outcome.split()[0], "write")
            yield

    def _coordinator(self) -> Iterator[None]:
        """Times out what nobody ends, and writes one marker after the other."""
        while True:
            yield
            for transaction in list(self._open):
                if transaction.outcome is None and not self.random.randrange(30):
                    self.decide(transaction, False)
                if transaction.outcome is not None:
                    self._write_marker(transaction)
                    break

    def _write_marker(self, transaction: Transaction) -> None:
        waiting = sorted(transaction.partitions)
        if waiting:
            partition = self.random.choice(waiting)
            mine = [each for each in self._log[partition] if each.transaction is transaction]
            if self.goes_wrong("a marker is lost", 10):
                del self._open[transaction]
                return
            if len(waiting) > 1 and transaction.outcome and self.goes_wrong("a marker says the contrary"):
                for entry in mine:
                    entry.is_hidden = True
            if transaction.outcome and self.goes_wrong("an acknowledged record is lost"):
                mine[-1].is_hidden = True
            transaction.partitions.remove(partition)
            self._log[partition].append(Entry("", transaction))
        if not transaction.partitions:
            del self._open[transaction]


class _Writer:
    """A transaction after the other, with records for all partitions."""

    def __init__(self, cluster: PlayedCluster, process: str) -> None:
        self.cluster = cluster
        self.process = process
        self.number = 0

    def steps(self) -> Iterator[None]:
        while True:
            yield from self._one_transaction()

    def _one_transaction(self) -> Iterator[None]:
        cluster, chance = self.cluster, self.cluster.random
        transaction = cluster.begin()
        records = self._invoke(transaction)
        told: list[Record] = []
        for record in records:
            yield
            if transaction.outcome is not None:
                break
            offset = cluster.append(record.partition, record.value, transaction)
            told.append(Record(record.partition, record.value, offset if chance.random() < 0.9 else None))
        if len(told) > 1 and told[0].partition == told[1].partition and self._changes_places(told):
            told[:2] = [
                Record(one.partition, one.value, other.offset)
                for one, other in zip(told[:2], told[1::-1], strict=True)
            ]
        ending = chance.choice(["commit", "commit", "commit", "abort", ""])
        if ending:
            cluster.tell(self.process, "asks", "transaction", ending=ending)
            yield
            if ending == "abort" or len(told) == len(records):
                cluster.decide(transaction, ending == "commit")
            if ending == "commit" and not transaction.outcome:
                ending = "" if chance.random() < 0.5 else "abort"
        is_told = ending and chance.random() < 0.8
        outcome = {"commit": "ok", "abort": "fail"}[ending] if is_told else "info"
        cluster.tell(self.process, outcome, "transaction", writes=tuple(told))
        while not cluster.is_over(transaction):
            yield

    def _changes_places(self, told: list[Record]) -> bool:
        if told[0].offset is None or told[1].offset is None:
            return False
        if not self.cluster.goes_wrong("records change places"):
            return False
        log = self.cluster._log[told[0].partition]
        log[told[0].offset], log[told[1].offset] = log[told[1].offset], log[told[0].offset]
        return True

    def _invoke(self, transaction: Transaction) -> list[Record]:
        self.number += 1
        count = self.cluster.random.randint(1, 5)
        partitions = sorted(self.cluster.random.choices(PARTITIONS, k=count))
        records = [
            Record(partition, f"{self.process}:{self.number}:{index}")
            for index, partition in enumerate(partitions)
        ]
        self.cluster.tell(
            self.process,
            "invoke",
            "transaction",
            transactional_id=self.process,
            writes=tuple(records),
        )
        return records


class _Copier(_Writer):
    """Consumes, transforms and produces."""

    def _invoke(self, transaction: Transaction) -> list[Record]:
        cluster, source = self.cluster, PARTITIONS[0]
        begin = cluster.committed_input
        found = cluster.visible(source, begin, cluster.last_stable_offset(source), READ_COMMITTED)[:3]
        if found and found[-1].offset is not None:
            transaction.offsets = found[-1].offset + 1
        self.number += 1
        records = [
            Record(COPIES, f"{self.process}:{self.number}:{each.value}@{each.offset}") for each in found
        ]
        cluster.tell(
            self.process,
            "invoke",
            "transaction",
            transactional_id=self.process,
            group="copiers",
            reads=tuple(found),
            writes=tuple(records),
        )
        return records


class _Reader:
    """Follows all partitions from the first offset."""

    def __init__(self, cluster: PlayedCluster, process: str, isolation: str) -> None:
        self.cluster = cluster
        self.process = process
        self.isolation = isolation
        self.positions = dict.fromkeys((*PARTITIONS, COPIES), 0)
        cluster.tell(process, "ok", "assign", positions=dict(self.positions), isolation=isolation)

    def steps(self) -> Iterator[None]:
        while True:
            yield
            self._poll(self.cluster.random.choice(list(self.positions)))

    def _poll(self, partition: str) -> None:
        cluster, begin = self.cluster, self.positions[partition]
        end = min(self._bound(partition), begin + cluster.random.randint(1, 6))
        if begin > 4 and self.cluster.goes_wrong("a reader goes back"):
            begin -= 4
        found = cluster.visible(partition, begin, end, self.isolation)
        if len(found) > 2 and self.cluster.goes_wrong("a reader leaves something out"):
            del found[1]
        if found and cluster.goes_wrong("a reader is given what nobody wrote"):
            found[0] = Record(partition, f"alien:{cluster.happened}", found[0].offset)
        if self.isolation == READ_COMMITTED:
            self._hide_one_of_a_transaction(found)
        self.positions[partition] = max(end, begin)
        if found:
            cluster.tell(self.process, "ok", "poll", reads=tuple(found))

    def _hide_one_of_a_transaction(self, found: list[Record]) -> None:
        for index in range(len(found) - 1):
            one, other = (each.value.rpartition(":")[0] for each in found[index : index + 2])
            if one == other and self.cluster.goes_wrong("one record of a transaction is not shown"):
                del found[index]
                return

    def _bound(self, partition: str) -> int:
        if self.isolation == READ_UNCOMMITTED or self.cluster.goes_wrong("an open transaction is shown"):
            return self.cluster.end(partition)
        return max(self.cluster.last_stable_offset(partition), self.positions[partition])

    def read_to_the_end(self) -> None:
        for partition in self.positions:
            while self.positions[partition] < self._bound(partition):
                self._poll(partition)
        high_watermarks = {partition: self.cluster.end(partition) for partition in self.positions}
        self.cluster.tell(
            self.process, "ok", "end", positions=dict(self.positions), high_watermarks=high_watermarks
        )
