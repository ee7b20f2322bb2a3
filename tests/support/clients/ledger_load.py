"""One transactional producer that goes on while the brokers under it are exchanged.

It writes one transaction after the other, a record to each partition of a topic, and aborts every third. It
is made once: whoever has its transactional id on his disk must serve it in the epoch that it has.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Final

from confluent_kafka import KafkaException, Producer

from tests.support.clients import isolation
from tests.support.clients.librdkafka import until
from tests.support.clients.raising_threads import RaisingThread

__all__ = ["LedgerLoad", "finish"]

PATIENCE_SECONDS: Final = 120
PAUSE_SECONDS: Final = 0.05
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""Longer than any move: the coordinator ends no transaction by itself."""


def finish(sender: Producer, *, commit: bool) -> bool:
    """Whether the transaction is committed. What can be tried again is tried again; what only an abort can
    help is aborted."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if commit:
                sender.commit_transaction(30)
            else:
                sender.flush(30)  # librdkafka fails when it aborts before its partitions were added
                sender.abort_transaction(30)
            return commit
        except KafkaException as problem:
            error = problem.args[0]
            if error.txn_requires_abort():
                commit = False
            elif not error.retriable():
                raise
    raise AssertionError("the transaction did not end")


class LedgerLoad:
    """Writes from now on. servers: some of them may go while it runs."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.committed: list[int] = []
        """Numbers of the transactions whose commit was acknowledged, in their order."""
        self.aborted: list[int] = []
        self._topic = topic
        self._partitions = partitions
        self._ends = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": "ledger",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_SECONDS)
        self._thread = RaisingThread(self._write, name="ledger")
        self._thread.start()

    def await_more(self, count: int) -> None:
        """So many transactions are committed from now on."""
        known = len(self.committed)

        def are_committed() -> bool:
            self._thread.check()
            return len(self.committed) >= known + count

        until(are_committed, f"{count} more transactions are committed")

    def end(self) -> None:
        """Begins no more transactions. Raises what has ended the thread."""
        self._ends.set()
        self._thread.join()

    def check(self, servers: str) -> None:
        """Nothing is left open, and who reads committed records is shown the committed ones, each once and in
        order. Call it after `end`."""
        for partition in range(self._partitions):
            decided = partial(isolation.is_decided, servers, self._topic, partition)
            until(decided, f"the markers of partition {partition} are written")
        expected = [str(number) for number in self.committed]
        for partition, shown in enumerate(isolation.committed(servers, self._topic, self._partitions)):
            differing = set(shown) ^ set(expected) or "another order"
            assert shown == expected, f"partition {partition}: {differing}"

    def _write(self) -> None:
        number = 0
        while not self._ends.wait(PAUSE_SECONDS):
            self._producer.begin_transaction()
            for partition in range(self._partitions):
                self._producer.produce(self._topic, str(number), partition=partition)
            is_committed = finish(self._producer, commit=number % 3 != 2)
            (self.committed if is_committed else self.aborted).append(number)
            number += 1
