"""Genuine producers (librdkafka) with transactions, each in a thread of its own, that write down what they do
and are told (`broker.simulation.histories.history`).

Each ends its transactions in many ways: commits, aborts, or leaves one open and comes back as a new producer
of the same transactional id. A `Rival` shares its id with others, who fence each other; a `Hasty` one is
slower than its own time-out. `transactional_consumers` has those who read.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from broker.simulation.histories.history import Record
from tests.support.clients.raising_threads import RaisingThread
from tests.support.histories.history_file import HistoryFile

__all__ = [
    "IMPATIENT",
    "PATIENCE_SECONDS",
    "Client",
    "Hasty",
    "PlainWriter",
    "Rival",
    "TransactionalClient",
    "Writer",
    "not_for_ever",
    "patiently",
]

TRANSACTION_TIMEOUT_MS: Final = 10_000
HASTY_TIMEOUT_MS: Final = 1_500
CALL_SECONDS: Final = 5
PATIENCE_SECONDS: Final = 20
"""For one end of a transaction, or one new producer, in a cluster in trouble."""
PAUSE_SECONDS: Final = 0.03
"""Between two transactions of one producer, on average."""
SILENT: Final = logging.getLogger("fenced producers")
SILENT.addFilter(lambda _: False)
IMPATIENT: Final = {
    "logger": SILENT,
    "socket.timeout.ms": 3_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
}
"""So that requests to a node that is paused time out, and are repeated elsewhere while they lie in its
socket."""


class Client:
    """A thread that does one thing after the other until it is told to end."""

    def __init__(self, process: str, history: HistoryFile, servers: str, seed: int) -> None:
        self.process = process
        self.troubles: Counter[str] = Counter()
        """What the client itself has done to the cluster, and how it was refused."""
        self.history = history
        self.servers = servers
        self.random = random.Random(f"{process} {seed}")
        self.is_over = threading.Event()
        self._thread = RaisingThread(self.work, name=process)
        self._thread.start()

    def end(self) -> None:
        """Ends what is under way, and nothing is begun any more."""
        self.is_over.set()

    def join(self) -> None:
        """Raises what has ended the thread: a fault of the test, or an answer that nobody may get."""
        self._thread.join()

    @property
    def failure(self) -> BaseException | None:
        """What has ended the thread, if anything has."""
        return self._thread.failure

    def work(self) -> None:
        raise NotImplementedError

    def note(self, type: str, operation: str, **fields: Any) -> None:  # noqa: A002
        self.history.add(process=self.process, type=type, operation=operation, **fields)


class TransactionalClient(Client):
    """Has a transactional producer, and makes a new one when the old one is of no use any more."""

    timeout_ms = TRANSACTION_TIMEOUT_MS

    def __init__(
        self, process: str, history: HistoryFile, servers: str, seed: int, transactional_id: str = ""
    ) -> None:
        self.transactional_id = transactional_id or process
        self.producer: Producer | None = None
        self.told: dict[str, int] = {}
        """The offset of each value of the transaction, as far as they are known."""
        super().__init__(process, history, servers, seed)

    def ready_producer(self) -> Producer | None:
        """One that can begin a transaction; None when it is over before there is one."""
        while self.producer is None and not self.is_over.is_set():
            producer = Producer(
                {
                    **IMPATIENT,
                    "bootstrap.servers": self.servers,
                    "transactional.id": self.transactional_id,
                    "transaction.timeout.ms": self.timeout_ms,
                    "message.timeout.ms": self.timeout_ms,
                    "socket.timeout.ms": min(3_000, self.timeout_ms),
                    "linger.ms": 1,
                }
            )
            try:
                patiently(producer.init_transactions, self.is_over)
                self.producer = producer
            except KafkaException as refusal:
                self.troubles[f"no epoch: {_name(refusal)}"] += 1
                self.is_over.wait(0.2)
        return self.producer

    def write(self, producer: Producer, records: Sequence[Record]) -> None:
        for record in records:
            topic, _, partition = record.partition.rpartition("-")
            producer.produce(topic, record.value.encode(), partition=int(partition), on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is None and value is not None and offset is not None and offset >= 0:
            self.told[value.decode()] = offset

    def transact(
        self,
        producer: Producer,
        records: Sequence[Record],
        ending: str,
        before_the_end: Callable[[], None] = lambda: None,
        **fields: Any,
    ) -> str:
        """One whole transaction; ok, fail or info. ending: what is asked, or empty to leave it open."""
        self.told = {}
        self.note(
            "invoke", "transaction", transactional_id=self.transactional_id, writes=tuple(records), **fields
        )
        outcome, why = "info", ""
        try:
            producer.begin_transaction()
            self.write(producer, records)
            before_the_end()
            if ending:
                self.note("asks", "transaction", ending=ending)
                patiently(producer.commit_transaction if ending == "commit" else producer.abort_transaction)
                outcome = {"commit": "ok", "abort": "fail"}[ending]
        except TimeoutError as hanging:
            why = str(hanging)
        except (KafkaException, SystemError) as failure:
            refusal = _refusal(failure)
            why = _name(refusal)
            outcome = self._aborted(producer, refusal)
        told = tuple(
            Record(each.partition, each.value, self.told[each.value])
            for each in records
            if each.value in self.told
        )
        self.note(outcome, "transaction", writes=told, why=why)
        if outcome == "info":
            self.troubles[f"not known: {why}" if why else "left open"] += 1
            self.producer = None
        elif why:
            self.troubles[f"aborted after {why}"] += 1
        return outcome

    def _aborted(self, producer: Producer, refusal: KafkaException) -> str:
        """After an error: `fail` if the transaction can be aborted and is, so that it is known."""
        if not refusal.args[0].txn_requires_abort():
            return "info"
        try:
            patiently(producer.abort_transaction)
        except (KafkaException, SystemError) as failure:
            _refusal(failure)
            return "info"
        return "fail"


class Writer(TransactionalClient):
    """Writes some records to some partitions in each transaction. partitions: with their topic."""

    def __init__(
        self,
        process: str,
        history: HistoryFile,
        servers: str,
        seed: int,
        partitions: Sequence[str],
        transactional_id: str = "",
    ) -> None:
        self._partitions = partitions
        super().__init__(process, history, servers, seed, transactional_id)

    def work(self) -> None:
        number = 0
        while (producer := self.ready_producer()) is not None and not self.is_over.is_set():
            chosen = sorted(self.random.choices(self._partitions, k=self.random.randint(1, 6)))
            records = [
                Record(partition, f"{self.process}:{number}:{index}")
                for index, partition in enumerate(chosen)
            ]
            ending = self.random.choices(["commit", "abort", ""], [80, 16, 4])[0]
            if ending == "abort":
                self.troubles["aborted on purpose"] += 1
            self.transact(producer, records, ending, lambda: self._linger(producer))
            number += 1
            self.is_over.wait(self.random.expovariate(1 / PAUSE_SECONDS))

    def _linger(self, producer: Producer) -> None:
        """Sometimes the records arrive before the end is asked for."""
        if self.random.random() < 0.3:
            producer.flush(self.random.random())


class Rival(Writer):
    """Fences the other rivals of its transactional id now and then."""

    def ready_producer(self) -> Producer | None:
        if self.random.random() < 0.1:
            self.producer = None
        if self.producer is None:
            self.is_over.wait(self.random.uniform(0.2, 2))
        return super().ready_producer()


class Hasty(Writer):
    """Wants its transactions to be short, and some are not."""

    timeout_ms = HASTY_TIMEOUT_MS

    def _linger(self, producer: Producer) -> None:
        if self.random.random() < 0.2:
            self.troubles["overdue"] += 1
            producer.flush(1)
            self.is_over.wait(HASTY_TIMEOUT_MS / 1000 * self.random.uniform(1, 3))


class PlainWriter(Client):
    """Writes between the transactions, without one of its own."""

    def __init__(
        self, process: str, history: HistoryFile, servers: str, seed: int, partitions: Sequence[str]
    ) -> None:
        self._partitions = partitions
        super().__init__(process, history, servers, seed)

    def work(self) -> None:
        producer = Producer(
            {
                **IMPATIENT,
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
            }
        )
        number = 0
        while not self.is_over.is_set():
            self._write_one(producer, f"{self.process}:{number}")
            number += 1
            self.is_over.wait(self.random.expovariate(1 / PAUSE_SECONDS))

    def _write_one(self, producer: Producer, value: str) -> None:
        name = self.random.choice(self._partitions)
        topic, _, partition = name.rpartition("-")
        answers: list[tuple[KafkaError | None, int | None]] = []
        self.note("invoke", "write", writes=(Record(name, value),))
        producer.produce(
            topic,
            value.encode(),
            partition=int(partition),
            on_delivery=lambda error, message: answers.append((error, message.offset())),
        )
        producer.flush(PATIENCE_SECONDS * 2)
        error, offset = answers[0]
        if error is None:
            self.note("ok", "write", writes=(Record(name, value, offset),))
        else:
            self.troubles[f"not written: {error.name()}"] += 1
            self.note("info", "write", why=error.name())


def patiently(call: Callable[[float], Any], is_over: threading.Event | None = None) -> None:
    """Calls, with a time-out, and again while it may help and there is time. Raises KafkaException."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            call(CALL_SECONDS)
            return
        except KafkaException as refusal:
            is_late = time.monotonic() > deadline or (is_over is not None and is_over.is_set())
            if is_late or not refusal.args[0].retriable():
                raise
            time.sleep(0.05)


def not_for_ever(call: Callable[[], Any], what: str) -> None:
    """Raises TimeoutError where the client library does not come back, though it has a time-out; the thread
    in which it hangs keeps what it needs."""
    thread = RaisingThread(call, name=what)
    thread.start()
    thread.join(PATIENCE_SECONDS + 2 * CALL_SECONDS)


def _refusal(failure: BaseException | None) -> KafkaException:
    """A fatal error is raised in whatever serves callbacks, and wrapped where another callback follows."""
    if isinstance(failure, KafkaException):
        return failure
    if failure is None or failure.__cause__ is None:
        raise failure or RuntimeError("no error")
    return _refusal(failure.__cause__)


def _name(refusal: KafkaException) -> str:
    return str(refusal.args[0].name())
