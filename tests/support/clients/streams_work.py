"""What an application of Streams (`StreamsJob.java`) has to do, and all of its output that is determined.

Work item n is a line of words, an order and a payment, with timestamps of their own; it is the same in every
run. The application counts words, and joins each order with the payments of the same user within a window.

Not all of the output is determined. A word that comes from several partitions is counted from 1 to its number
in any case, but which line raised the count to 2 depends on which partition was read first. An order may be
joined with one payment before another. `Determined` holds what remains, so that two runs are compared by ==.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from tests.support.clients.librdkafka import create_topic, settings
from tests.support.clients.raising_threads import RaisingThread

__all__ = ["COUNTS", "INPUTS", "OUTPUTS", "PAID", "PARTITIONS", "WINDOW_MS", "Determined", "Feeder", "Record"]

PARTITIONS: Final = 3
WINDOW_MS: Final = 100
STEP_MS: Final = 5
"""Between the timestamps of two items."""
PERIOD_SECONDS: Final = 0.005
"""Between the writing of two items."""
USERS: Final = 12
SHARED_WORDS: Final = 20
OWN_WORDS: Final = 5
LINES, ORDERS, PAYMENTS = INPUTS = ("lines", "orders", "payments")
COUNTS, PAID = OUTPUTS = ("counts", "paid")
PATIENCE_SECONDS: Final = 120


class Record(NamedTuple):
    """One record of an input or output. partition: None where the key tells it."""

    topic: str
    partition: int | None
    key: str
    value: str
    timestamp_ms: int


def item(number: int, first_ms: int) -> list[Record]:
    """A line, an order and a payment. A line's words are shared with other partitions, or its partition's
    own, which have a ``.`` in them."""
    chance = random.Random(number)
    partition, at_ms = number % PARTITIONS, first_ms + number * STEP_MS
    words = [f"word{chance.randrange(SHARED_WORDS)}" for _ in range(2)]
    words += [f"word{chance.randrange(OWN_WORDS)}.{partition}" for _ in range(2)]
    user, payer = (f"user{chance.randrange(USERS)}" for _ in range(2))
    return [
        Record(LINES, partition, str(number), " ".join(words), at_ms),
        Record(ORDERS, partition, str(number), f"{user}:order{number}", at_ms + chance.randrange(50)),
        Record(PAYMENTS, None, payer, f"payment{number}", at_ms + chance.randrange(50)),
    ]


class Determined(NamedTuple):
    """What two runs over the same items must have in common, by key."""

    counts: dict[str, list[str]]
    """The values of a word in the order of the output."""
    times: dict[str, list[int]]
    """The timestamps of a word that one partition has, in the order of the output."""
    last: dict[str, tuple[str, int]]
    """The table of words: the last count and its timestamp."""
    paid: dict[str, list[tuple[str, int]]]
    """A user's orders with their payments, sorted."""

    @classmethod
    def of(cls, output: Iterable[Record]) -> Determined:
        found = cls(defaultdict(list), defaultdict(list), {}, defaultdict(list))
        for record in output:
            if record.topic == PAID:
                found.paid[record.key].append((record.value, record.timestamp_ms))
                continue
            found.counts[record.key].append(record.value)
            found.last[record.key] = (record.value, record.timestamp_ms)
            if "." in record.key:
                found.times[record.key].append(record.timestamp_ms)
        for pairs in found.paid.values():
            pairs.sort()
        return found

    @classmethod
    def expected(cls, items: int, first_ms: int) -> Determined:
        """By a model that counts and joins in the plainest way."""
        return cls.of(_counted_and_joined([item(number, first_ms) for number in range(items)]))

    def difference(self, other: Determined) -> str:
        """The first few keys in which another run differs, for people; nothing if it is the same."""
        told: list[str] = []
        for name in self._fields:
            ours: dict[str, object] = getattr(self, name)
            theirs: dict[str, object] = getattr(other, name)
            for key in sorted(ours.keys() | theirs.keys()):
                mine, its = ours.get(key), theirs.get(key)
                if mine != its:
                    told.append(f"{name} of {key}: {_where(mine)} and {_where(its)}{_first(mine, its)}")
        return "\n".join([*told[:10], *([f"… {len(told)} in all"] if len(told) > 10 else [])])

    @property
    def size(self) -> int:
        """Records of the output."""
        return sum(map(len, self.counts.values())) + sum(map(len, self.paid.values()))


def _where(found: object) -> str:
    return f"{len(found)} records" if isinstance(found, list) else str(found)


def _first(mine: object, its: object) -> str:
    if not isinstance(mine, list) or not isinstance(its, list):
        return ""
    for place, pair in enumerate(zip(mine, its, strict=False)):
        if pair[0] != pair[1]:
            return f", at {place}: {pair[0]} and {pair[1]}"
    return ""


def _counted_and_joined(items: list[list[Record]]) -> Iterator[Record]:
    counts: dict[str, int] = defaultdict(int)
    orders: dict[str, list[Record]] = defaultdict(list)
    for line, order, _ in items:
        for word in line.value.split(" "):
            counts[word] += 1
            yield Record(COUNTS, None, word, str(counts[word]), line.timestamp_ms)
        orders[order.value.partition(":")[0]].append(order)
    for _, _, payment in items:
        for order in orders[payment.key]:
            if abs(order.timestamp_ms - payment.timestamp_ms) <= WINDOW_MS:
                at_ms = max(order.timestamp_ms, payment.timestamp_ms)
                yield Record(PAID, None, payment.key, f"{order.value} {payment.value}", at_ms)


class Feeder:
    """Writes one item after the other, each record once, until `end`, through whatever happens to the broker.

    The timestamps begin half an hour ago: retention counts by them."""

    def __init__(self, servers: str, inputs: str) -> None:
        self.first_ms = int(time.time() - 1800) * 1000
        self.items = 0
        self.refused: list[str] = []
        self._inputs = inputs
        self._ends = threading.Event()
        named = settings(
            servers,
            enable_idempotence=True,
            partitioner="murmur2_random",
            linger_ms=5,
            message_timeout_ms=PATIENCE_SECONDS * 1000,
            reconnect_backoff_max_ms=500,
        )
        self._producer = Producer({**named, "log_level": 0})
        for name in INPUTS:
            create_topic(servers, f"{inputs}-{name}", PARTITIONS, retention_ms="-1")
        self._thread = RaisingThread(self._write, name="feeder")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()

    def end(self) -> None:
        """`stop`, and all that was written is acknowledged. Raises what has ended the writing before."""
        self.stop()
        self._thread.join()
        left = self._producer.flush(PATIENCE_SECONDS)
        assert left == 0, f"{left} records were neither acknowledged nor refused"
        assert not self.refused, self.refused[:5]

    def _write(self) -> None:
        for number in count():
            if self._ends.wait(PERIOD_SECONDS):
                return
            for record in item(number, self.first_ms):
                self._producer.produce(
                    f"{self._inputs}-{record.topic}",
                    record.value,
                    record.key,
                    -1 if record.partition is None else record.partition,
                    timestamp=record.timestamp_ms,
                    on_delivery=self._told,
                )
            self.items = number + 1
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.refused.append(str(error))
