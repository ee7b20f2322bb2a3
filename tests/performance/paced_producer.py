"""Genuine producers that write to partitions at a steady pace and know when each was acknowledged.

    python -m tests.performance.paced_producer '{"servers": "host:9092", "topic": "t", "partitions": [0]}'

They are idempotent, want acks=all, and are librdkafka with the settings that it comes with. When each
partition has acknowledged a record a line is printed; when standard input ends they wait for what is in
flight, and what they have seen is printed as JSON. It is a process of its own, so that nobody else's work
delays its clock.

A producer has five partitions: librdkafka sends one partition in a request, has at most five requests in
flight to a broker, and does not deal fairly with more partitions than that. With thirty of them and a slow
machine the last ones waited for ten seconds while the first ones were sent a hundred times, which told
nothing of the broker.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

__all__ = ["Paced", "Pause", "Seen", "paced_producer"]

RECORD_BYTES: Final = 1000
QUIET: Final = {"log_level": 0}
"""The client would tell of each connection that is refused."""
FLUSH_SECONDS: Final = 120
OF_A_PRODUCER: Final = 5
"""Partitions: as many as librdkafka has requests in flight to one broker."""
POLL_SECONDS: Final = 0.001
TOLD_PAUSES: Final = 5
READY: Final = "every partition has acknowledged"


@dataclass
class Paced:
    """What to write: every interval one record of 1,000 bytes to each of these partitions."""

    servers: str
    topic: str
    partitions: Sequence[int]
    interval_seconds: float = 0.02


@dataclass
class Pause:
    """Between two acknowledgements of a partition. began: on the machine's monotonic clock."""

    seconds: float
    partition: int
    began: float


@dataclass
class Seen:
    """pauses: the longest ones, that of each partition once, the longest first. overall_seconds: the longest
    time without an acknowledgement of any partition. errors: records that were given up, by their error."""

    acknowledged: int = 0
    seconds: float = 0.0
    overall_seconds: float = 0.0
    pauses: list[Pause] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def refused(self) -> int:
        return sum(self.errors.values())


class _Writer:
    """The producers, with the time of each partition's last acknowledgement and its longest pause."""

    def __init__(self, plan: Paced) -> None:
        self._plan = plan
        settings = {"bootstrap.servers": plan.servers, "acks": "all", "enable.idempotence": True, **QUIET}
        dealt = [
            plan.partitions[first : first + OF_A_PRODUCER]
            for first in range(0, len(plan.partitions), OF_A_PRODUCER)
        ]
        self._producers = [(Producer(settings), partitions) for partitions in dealt]
        self._value = bytes(RECORD_BYTES)
        self._began = time.monotonic()
        self._last = 0.0
        self._last_of: dict[int, float] = {}
        self._pauses: dict[int, Pause] = {}
        self._seen = Seen()

    def write_until(self, is_over: threading.Event) -> Seen:
        """Prints READY once; what was seen until all in flight is acknowledged or given up."""
        due = time.monotonic()
        is_ready = False
        while not is_over.is_set():
            for producer, partitions in self._producers:
                for partition in partitions:
                    producer.produce(
                        self._plan.topic, self._value, partition=partition, on_delivery=self._told
                    )
            due += self._plan.interval_seconds
            while time.monotonic() < due:
                for producer, _ in self._producers:
                    producer.poll(0)
                time.sleep(POLL_SECONDS)
            if not is_ready and len(self._last_of) == len(self._plan.partitions):
                is_ready = True
                print(READY, flush=True)
        if unknown := sum(producer.flush(FLUSH_SECONDS) for producer, _ in self._producers):
            self._seen.errors["neither acknowledged nor refused"] = unknown
        self._seen.seconds = time.monotonic() - self._began
        self._seen.pauses = sorted(self._pauses.values(), key=lambda each: -each.seconds)[:TOLD_PAUSES]
        return self._seen

    def _told(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        if error is not None:
            self._seen.errors[error.name()] = self._seen.errors.get(error.name(), 0) + 1
            return
        partition = message.partition() or 0
        self._seen.acknowledged += 1
        if self._last:
            self._seen.overall_seconds = max(self._seen.overall_seconds, now - self._last)
        self._last = now
        if (last := self._last_of.get(partition)) is not None:
            known = self._pauses.get(partition)
            if known is None or now - last > known.seconds:
                self._pauses[partition] = Pause(now - last, partition, last)
        self._last_of[partition] = now


@contextmanager
def paced_producer(plan: Paced) -> Iterator[Seen]:
    """While this is entered the producer writes; when it is left, what is yielded says what it has seen."""
    seen = Seen()
    command = [
        sys.executable,
        "-m",
        "tests.performance.paced_producer",
        json.dumps(asdict(plan) | {"partitions": [*plan.partitions]}),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline().strip() != READY:
                raise RuntimeError("the producer did not begin")
            yield seen
            told: dict[str, Any] = json.loads(process.communicate()[0])
        except BaseException:
            process.kill()
            raise
    pauses = [Pause(**each) for each in told.pop("pauses")]
    seen.__dict__.update(told, pauses=pauses)


def main(arguments: Sequence[str]) -> int:
    given: dict[str, Any] = json.loads(arguments[0])
    is_over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print(json.dumps(asdict(_Writer(Paced(**given)).write_until(is_over))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
