"""Genuine consumers (librdkafka) of what transactions write, each in a thread of its own, that write down
what they are given (`broker.simulation.histories.history`).

A `Reader` follows all partitions from their first record; a `Copier` consumes, transforms and produces, in a
group whose offsets are committed with its transactions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from broker.simulation.histories.history import READ_COMMITTED, Record
from tests.support.clients.transactional_producers import (
    IMPATIENT,
    PATIENCE_SECONDS,
    Client,
    TransactionalClient,
    not_for_ever,
    patiently,
)
from tests.support.histories.history_file import HistoryFile

__all__ = ["Copier", "Reader", "ends_of"]

GROUP: Final = "copiers"
BATCH: Final = 100
POLL_SECONDS: Final = 0.2
COPIED_AT_ONCE: Final = 10


class Reader(Client):
    """From the first record of these partitions on; `come_to_the_end` when nobody writes any more."""

    def __init__(
        self,
        process: str,
        history: HistoryFile,
        servers: str,
        partitions: Sequence[str],
        isolation: str = READ_COMMITTED,
    ) -> None:
        self._partitions = partitions
        self.isolation = isolation
        self._positions = dict.fromkeys(partitions, 0)
        """As far as this reader knows that there is nothing more before them."""
        super().__init__(process, history, servers, 0)

    def come_to_the_end(self, high_watermarks: dict[str, int], ends: dict[str, int]) -> None:
        """ends: the last stable offsets, or the high watermarks for one who reads all."""
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        while any(self._positions[each] < end for each, end in ends.items()) and self.failure is None:
            assert time.monotonic() < deadline, f"{self.process} is at {self._positions}, not at {ends}"
            time.sleep(0.05)
        self.end()
        self.join()
        self.note("ok", "end", positions=self._positions, high_watermarks=high_watermarks)

    def work(self) -> None:
        consumer = Consumer(
            {
                **IMPATIENT,
                "bootstrap.servers": self.servers,
                "group.id": "by-hand",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": self.isolation,
            }
        )
        self.note("ok", "assign", positions=self._positions, isolation=self.isolation)
        consumer.assign([_place(partition, 0) for partition in self._partitions])
        while not self.is_over.is_set():
            reads = []
            for message in consumer.consume(BATCH, POLL_SECONDS):
                error = message.error()
                if error is None:
                    reads.append(record_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._positions[f"{message.topic()}-{message.partition()}"] = message.offset() or 0
                elif error.code() == KafkaError._AUTO_OFFSET_RESET or (
                    error.code() >= 0 and not error.retriable()
                ):
                    raise KafkaException(error)
            if reads:
                self.note("ok", "poll", reads=tuple(reads))
        consumer.close()


class Copier(TransactionalClient):
    """Writes to `copies` what it reads of `topic`, each record once, though it may be copied again and again
    until a transaction is committed."""

    def __init__(
        self, process: str, history: HistoryFile, servers: str, seed: int, topic: str, copies: str
    ) -> None:
        self._topic = topic
        self._copies = copies
        self._number = 0
        super().__init__(process, history, servers, seed)

    def work(self) -> None:
        while not self.is_over.is_set():
            consumer = self._new_consumer()
            while (producer := self.ready_producer()) is not None and not self.is_over.is_set():
                if self._copy_some(producer, consumer) != "ok":
                    break
            consumer.close()

    def _new_consumer(self) -> Consumer:
        """At the offsets that are committed: whoever has aborted begins anew there."""
        consumer = Consumer(
            {
                **IMPATIENT,
                "bootstrap.servers": self.servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": READ_COMMITTED,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        consumer.subscribe([self._topic], on_assign=self._assigned)
        return consumer

    def _assigned(self, _: Consumer, __: list[TopicPartition]) -> None:
        """From the committed offsets, which the checker knows by the transactions."""
        self.note("ok", "assign")

    def _copy_some(self, producer: Producer, consumer: Consumer) -> str:
        messages = consumer.consume(COPIED_AT_ONCE, POLL_SECONDS)
        reads = [record_of(each) for each in messages if each.error() is None]
        if not reads:
            return "ok"
        self.note("ok", "poll", reads=tuple(reads))
        copies = [
            Record(
                f"{self._copies}-{each.partition.rpartition('-')[2]}",
                f"{self.process}:{self._number + index}",
            )
            for index, each in enumerate(reads)
        ]
        self._number += len(reads)
        positions = {each.partition: (each.offset or 0) + 1 for each in reads}

        def send_offsets() -> None:
            places = [_place(partition, offset) for partition, offset in positions.items()]
            member = consumer.consumer_group_metadata()

            def send() -> None:
                patiently(lambda seconds: producer.send_offsets_to_transaction(places, member, seconds))

            not_for_ever(send, "send_offsets_to_transaction")  # librdkafka's issues 5456 and 5511

        ending = self.random.choices(["commit", "abort", ""], [90, 7, 3])[0]
        return self.transact(producer, copies, ending, send_offsets, reads=tuple(reads), group=GROUP)


def record_of(message: Message) -> Record:
    value = message.value()
    assert value is not None
    return Record(f"{message.topic()}-{message.partition()}", value.decode(), message.offset())


def ends_of(servers: str, partitions: Sequence[str], isolation: str) -> dict[str, int]:
    """The last stable offsets or, for read_uncommitted, the high watermarks."""
    named: dict[str, Any] = {"isolation.level": isolation, "group.id": "asks"}
    consumer = Consumer({**IMPATIENT, "bootstrap.servers": servers, **named})
    ends = {
        partition: consumer.get_watermark_offsets(_place(partition, 0), PATIENCE_SECONDS, cached=False)[1]
        for partition in partitions
    }
    consumer.close()
    return ends


def _place(partition: str, offset: int) -> TopicPartition:
    topic, _, index = partition.rpartition("-")
    return TopicPartition(topic, int(index), offset)
