"""Producers that go on through crashes, and remember what was acknowledged."""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tests.support.clients.raising_threads import RaisingThread

PATIENCE_SECONDS: Final = 120


class Load:
    """Numbers sent to each partition in order; remembers what was acknowledged."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        idempotent: bool,
        partitions: int = 3,
        keys: int = 0,
        batch_bytes: int = 1_000_000,
    ) -> None:
        """With `keys` record n has one of so many keys, which `key_of` tells; else it has none."""
        self.topic = topic
        self.idempotent = idempotent
        self.keys = keys
        self.partitions = partitions
        self.sent = [0] * partitions
        self.acknowledged: list[list[int]] = [[] for _ in range(partitions)]
        self.errors: list[str] = []
        self.size_bytes = 100
        self._paused = threading.Event()
        self._idle = threading.Event()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "batch.size": batch_bytes,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "queue.buffering.max.messages": 2_000,
                "log_level": 0,
                **({} if idempotent else {"message.send.max.retries": 0}),
            }
        )
        self._thread = RaisingThread(self._run, name="load")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._paused.is_set():
                self._idle.set()
                self._producer.poll(0.01)
                continue
            self._idle.clear()
            for partition in range(self.partitions):
                number = self.sent[partition]
                value = b"%d:" % number + b"x" * self.size_bytes
                try:
                    self._producer.produce(
                        self.topic,
                        value,
                        self.key_of(number),
                        partition=partition,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    self._producer.poll(0.01)
                    continue
                self.sent[partition] += 1
            self._producer.poll(0)

    def key_of(self, number: int) -> bytes | None:
        """Some keys come at every turn, some seldom."""
        return b"k%d" % (number * number % self.keys) if self.keys else None

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        if error is not None:
            self.errors.append(str(error))
        elif partition is not None and isinstance(value, bytes):
            self.acknowledged[partition].append(number_of(value))

    @property
    def in_flight(self) -> int:
        return sum(self.sent) - sum(map(len, self.acknowledged)) - len(self.errors)

    def pause(self) -> None:
        """No more records; returns when all that were sent are acknowledged or have failed."""
        self._paused.set()
        self._idle.clear()  # said at the last pause, if the thread has not come round since `go_on`
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._idle.wait(0.1) and time.monotonic() < deadline:
            self._thread.check()
        while self.in_flight and time.monotonic() < deadline:
            self._thread.check()
            time.sleep(0.01)

    def go_on(self) -> None:
        self._paused.clear()

    def close(self) -> None:
        """Raises what has ended the thread, if it was not this."""
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        self._producer.flush(PATIENCE_SECONDS)


def number_of(value: bytes) -> int:
    return int(value.partition(b":")[0])
