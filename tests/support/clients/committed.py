"""What transactions have left in topics: what a read_committed consumer gets, and what it does not."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.clients.librdkafka import settings

__all__ = ["Ends", "EndsOf", "read"]

PATIENCE_SECONDS: Final = 60
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"


class Ends(NamedTuple):
    """The ends of all partitions of some topics together: of what is decided, and of what is there."""

    stable: int
    high: int

    @property
    def is_undecided(self) -> bool:
        """Whether a transaction is open."""
        return self.stable < self.high


class EndsOf:
    """Asks for the ends of topics again and again."""

    def __init__(self, servers: str, partitions: int, *topics: str) -> None:
        self._places = [TopicPartition(topic, index) for topic in topics for index in range(partitions)]
        self._consumers = [_consumer(servers, isolation) for isolation in (COMMITTED, UNCOMMITTED)]

    def now(self) -> Ends | None:
        """None: the broker does not answer, or does not have the topics yet."""
        try:
            return Ends(*(self._sum(each) for each in self._consumers))
        except KafkaException:
            return None

    def stay_open(self) -> bool:
        """Whether a transaction stays open whose producer has died.

        What it had sent may be handled a moment later, its last commit too. And if records still come, the
        producer lives: its work was moved elsewhere just before somebody else was killed for it.
        """
        first, second = self._later(), self._later()
        return first.is_undecided and first == second

    def _later(self) -> Ends:
        time.sleep(0.2)
        while (found := self.now()) is None:
            time.sleep(0.02)
        return found

    def _sum(self, consumer: Consumer) -> int:
        return sum(consumer.get_watermark_offsets(place, 1, cached=False)[1] for place in self._places)

    def close(self) -> None:
        for each in self._consumers:
            each.close()


def read(
    servers: str, partitions: int, *topics: str, at_least: int = 0, is_committed: bool = True
) -> list[Message]:
    """All records of the topics, from the beginning to the ends; it waits until there are so many."""
    consumer = _consumer(servers, COMMITTED if is_committed else UNCOMMITTED)
    places = [TopicPartition(topic, index, 0) for topic in topics for index in range(partitions)]
    consumer.assign(places)
    found: list[Message] = []
    ended: set[tuple[str | None, int | None]] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < len(places) or len(found) < at_least:
        assert time.monotonic() < deadline, (
            f"{len(found)} records came and then no more, {at_least} at least were expected, "
            f"and {len(ended)} of {len(places)} partitions were read to their end"
        )
        for message in consumer.consume(5_000, 0.1):
            error, place = message.error(), (message.topic(), message.partition())
            if error is None:
                found.append(message)
                ended.discard(place)
                deadline = time.monotonic() + PATIENCE_SECONDS
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(place)
            elif error.fatal() or not error.retriable():
                raise AssertionError(error)
    consumer.close()
    return found


def _consumer(servers: str, isolation: str) -> Consumer:
    named = settings(
        servers,
        group_id="what-is-left",
        isolation_level=isolation,
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="error",
        reconnect_backoff_max_ms=500,
    )
    return Consumer({**named, "log_level": 0})
