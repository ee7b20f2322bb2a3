"""Producers that remember what was acknowledged, a consumer that remembers what it saw, and the comparison.

While a cluster is in trouble, or is taken apart and put together anew, `CheckedLoad` writes and reads. At its
end three things must be true:

* each acknowledged record lies at the offset that its producer was told, or somewhere if it was told none;
* what an idempotent producer wrote is there once, in its order;
* what the consumer saw is there: no record was shown and then lost.

What fails in a thread of theirs is raised by `end_writing` and `check`.
"""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.clients.raising_threads import RaisingThread

__all__ = ["WAIT_SECONDS", "CheckedLoad"]

RECORDS_PER_SECOND: Final = 300
WAIT_SECONDS: Final = 120
"""For each answer of a cluster in trouble."""
QUIET: Final = {"log_level": 0}
"""The clients would tell of each connection that is refused."""


class Writer:
    """A producer that numbers its records per partition and remembers which were acknowledged, and where."""

    def __init__(self, servers: str, topic: str, partitions: range, *, is_idempotent: bool) -> None:
        self.acknowledged: dict[int, dict[int, bytes]] = {partition: {} for partition in partitions}
        """By partition: the value at each offset."""
        self.unplaced: dict[int, list[bytes]] = {partition: [] for partition in partitions}
        """By partition: values that librdkafka knows to be stored without having been told where."""
        self.refused = 0
        self.longest_pause_seconds = 0.0
        self._last_told = time.monotonic()
        self._topic = topic
        self._partitions = partitions
        self._ends = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": is_idempotent,
                "linger.ms": 5,
                "message.timeout.ms": WAIT_SECONDS * 1000,
                **QUIET,
            }
        )
        self._thread = RaisingThread(self._write, name="writer")
        self._thread.start()

    @property
    def in_flight(self) -> int:
        return len(self._producer)

    @property
    def count(self) -> int:
        """Of the records that were acknowledged with an offset."""
        return sum(map(len, self.acknowledged.values()))

    def end(self) -> None:
        """Writes no more, and waits for what is in flight. Raises what a callback or a call has raised."""
        self._ends.set()
        self._thread.join()
        left = self._producer.flush(WAIT_SECONDS)
        assert left == 0, f"{left} records were neither acknowledged nor refused"

    def _write(self) -> None:
        number = 0
        while not self._ends.is_set():
            for partition in self._partitions:
                value = f"{partition}:{number}:".encode().ljust(64, b".")
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._told)
            number += 1
            self._producer.poll(len(self._partitions) / RECORDS_PER_SECOND)
            self._ends.wait(len(self._partitions) / RECORDS_PER_SECOND)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        self.longest_pause_seconds = max(self.longest_pause_seconds, now - self._last_told)
        self._last_told = now
        if error is not None:
            self.refused += 1
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert value is not None
        if offset is None:
            self.unplaced[partition].append(value)
            return
        known = self.acknowledged[partition].setdefault(offset, value)
        assert known == value, f"{known!r} and {value!r} were both told offset {offset} of {partition}"


class Reader:
    """A consumer that follows all partitions and remembers what it was shown."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.seen: dict[int, dict[int, bytes]] = {partition: {} for partition in range(partitions)}
        self.faults: list[str] = []
        self._ends = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "by-hand",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._thread = RaisingThread(self._read, name="reader")
        self._thread.start()

    def check_thread(self) -> None:
        """Raises what has ended the reading, if anything has."""
        self._thread.check()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ends.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if not error.retriable() and error.code() >= 0:
                    self.faults.append(str(error))
                continue
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            expected = len(self.seen[partition])
            if offset != expected:
                self.faults.append(f"offset {offset} of partition {partition} came instead of {expected}")
            self.seen[partition][offset] = value


class CheckedLoad:
    """Writes to and reads from all partitions of a topic from now on; `check` compares.

    The first half of the partitions is an idempotent producer's, the other half a plain one's; both want all
    of the ISR to acknowledge. servers: some of them may go while it runs.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        half = partitions // 2
        self._topic = topic
        self._partitions = partitions
        self._idempotent = range(half)
        self._writers = [
            Writer(servers, topic, self._idempotent, is_idempotent=True),
            Writer(servers, topic, range(half, partitions), is_idempotent=False),
        ]
        self._reader = Reader(servers, topic, partitions)

    @property
    def in_flight(self) -> int:
        return sum(writer.in_flight for writer in self._writers)

    @property
    def acknowledged(self) -> int:
        return sum(writer.count for writer in self._writers)

    @property
    def fewest_acknowledged(self) -> int:
        """Of one producer: each of them has done its part."""
        return min(writer.count for writer in self._writers)

    @property
    def unplaced(self) -> int:
        """Acknowledged without an offset."""
        return sum(len(values) for each in self._writers for values in each.unplaced.values())

    @property
    def refused(self) -> int:
        return sum(writer.refused for writer in self._writers)

    @property
    def seen(self) -> int:
        return sum(len(values) for values in self._reader.seen.values())

    @property
    def longest_pause_seconds(self) -> float:
        """Between two acknowledgements of one producer."""
        return max(writer.longest_pause_seconds for writer in self._writers)

    def end_writing(self) -> None:
        for writer in self._writers:
            writer.end()

    def check(self, servers: str) -> dict[int, int]:
        """Compares what was written and seen with what is stored; the end offset of each partition. Call it
        after `end_writing`, with servers that work."""
        stored = self._stored(servers)
        self._await_seen(stored)
        self._reader.end()
        for writer in self._writers:
            for partition, acknowledged in writer.acknowledged.items():
                lost = {at: value for at, value in acknowledged.items() if stored[partition].get(at) != value}
                assert not lost, f"acknowledged and not there, partition {partition}: {lost}"
                missing = set(writer.unplaced[partition]).difference(stored[partition].values())
                assert not missing, f"acknowledged and nowhere, partition {partition}: {missing}"
        for partition in self._idempotent:
            numbers = [int(value.split(b":")[1]) for _, value in sorted(stored[partition].items())]
            wrong = [pair for pair in pairwise(numbers) if pair[0] >= pair[1]]
            assert not wrong, f"twice or out of order, partition {partition}: {wrong[:5]}"
        assert not self._reader.faults, self._reader.faults[:5]
        for partition, seen in self._reader.seen.items():
            gone = {at: value for at, value in seen.items() if stored[partition].get(at) != value}
            assert not gone, f"a consumer saw what is gone, partition {partition}: {gone}"
        return {partition: len(values) for partition, values in stored.items()}

    def _await_seen(self, stored: dict[int, dict[int, bytes]]) -> None:
        """The consumer that was there all the time comes to the end too."""
        deadline = time.monotonic() + WAIT_SECONDS
        seen = self._reader.seen
        while any(len(seen[each]) < len(stored[each]) for each in stored):
            self._reader.check_thread()
            assert time.monotonic() < deadline, "the consumer does not come to the end"
            time.sleep(0.05)

    def _stored(self, servers: str) -> dict[int, dict[int, bytes]]:
        """What a new consumer finds, from the first offset to the end, by partition and offset."""
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "afterwards", **QUIET})
        found: dict[int, dict[int, bytes]] = {}
        for partition in range(self._partitions):
            place = TopicPartition(self._topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, WAIT_SECONDS, cached=False)
            consumer.assign([place])
            values = found[partition] = dict[int, bytes]()
            while len(values) < end:
                message = consumer.poll(WAIT_SECONDS)
                assert message is not None, f"partition {partition} ends at {end}, {len(values)} records came"
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                values[offset] = value
        consumer.close()
        return found
