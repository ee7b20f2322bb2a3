"""Two hundred consumers in twenty groups, some of them killed at random moments.

The consumers live in processes (`tests.support.clients.consuming`), one of each group in each: eager,
cooperative and static members. While records come in, processes are killed with SIGKILL and others take their
place. At every look on the way, and at the end:

* whatever lies before a committed offset was processed by some member of the group;
* at the end every group has processed every record at least once, and nothing that was never written;
* and every offset is committed at the end of its partition.

``BARNABAS_MANY_CONSUMERS=full`` is the full size; otherwise it is a fifth of it, for CI.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.conftest import AnyBroker
from tests.support.clients.librdkafka import COORDINATOR_COMES, create_topic, fill, settings, until

IS_FULL: Final = os.environ.get("BARNABAS_MANY_CONSUMERS") == "full"
KINDS: Final = ("eager", "cooperative", "static")
GROUPS: Final = [f"{KINDS[number % 3]}-{number}" for number in range(20 if IS_FULL else 8)]
PROCESSES: Final = 10 if IS_FULL else 5
PARTITIONS: Final = 12
ROUNDS: Final = 8 if IS_FULL else 4
RECORDS_OF_A_ROUND: Final = 600 if IS_FULL else 400
PATIENCE_SECONDS: Final = 240

Processed = dict[tuple[str, int], dict[int, str]]
"""By group and partition: values by offset."""


class Crowd:
    """The processes, each with a slot that its replacement takes over."""

    def __init__(self, address: str, topic: str, folder: Path) -> None:
        self._address, self._topic, self._folder = address, topic, folder
        self._lives = 0
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, slot: int) -> None:
        self._lives += 1
        file = self._folder / f"life-{self._lives}.txt"
        command = [sys.executable, "-m", "tests.support.clients.consuming"]
        command += [self._address, self._topic, str(file), f"slot-{slot}", *GROUPS]
        with open(self._folder / "errors.txt", "ab") as errors:
            self.running[slot] = subprocess.Popen(command, stderr=errors)

    def kill(self, slot: int) -> None:
        process = self.running.pop(slot)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def leave(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(120)
        self.running.clear()

    def end(self) -> None:
        for slot in list(self.running):
            self.kill(slot)

    def processed(self) -> Processed:
        """What all lives have written down; a line that a kill cut off was not processed."""
        found: Processed = defaultdict(dict)
        for file in self._folder.glob("life-*.txt"):
            for line in file.read_text().splitlines(keepends=True):
                words = line.split()
                if line.endswith("\n") and len(words) == 4:
                    group, partition, offset, value = words
                    known = found[group, int(partition)].setdefault(int(offset), value)
                    assert known == value, "one offset, two records"
        return found


class Committed:
    """Asks for the offsets of all groups, by a consumer of each that never joins it.

    An AdminClient of librdkafka 2.16 ends the process with a segmentation fault when a coordinator answers
    OffsetFetch with an error after which it is to be looked for again: librdkafka then tells the consumer
    group of the handle, and such a handle has none.
    """

    def __init__(self, address: str, topic: str) -> None:
        self._places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        self._readers = {group: Consumer(settings(address, group_id=group)) for group in GROUPS}

    def now(self) -> dict[tuple[str, int], int]:
        """By group and partition; partitions without an offset are left out."""
        return {
            (group, place.partition): place.offset
            for group, reader in self._readers.items()
            for place in self._of(reader)
            if place.offset >= 0
        }

    def _of(self, reader: Consumer) -> list[TopicPartition]:
        """This call of librdkafka, unlike Kafka's own, leaves it to the caller to come again while a
        coordinator begins."""
        deadline = time.monotonic() + 120
        while True:
            try:
                told: list[TopicPartition] = reader.committed(self._places, timeout=30)
                return told
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_COMES or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def ends(address: str, topic: str) -> dict[int, int]:
    reader = Consumer(settings(address, group_id="nobody"))
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = {place.partition: reader.get_watermark_offsets(place, timeout=30)[1] for place in places}
    reader.close()
    return found


def test_killed_consumers_lose_nothing(new_broker: Callable[..., AnyBroker], tmp_path: Path) -> None:
    broker = new_broker(
        group_min_session_timeout_ms="1000",
        group_initial_rebalance_delay_ms="500",
        offsets_topic_num_partitions="5",
    )
    address = broker.bootstrap_servers
    topic = create_topic(address, "work", PARTITIONS)
    committed = Committed(address, topic)
    crowd = Crowd(address, topic, tmp_path)
    random_source = random.Random(4711)
    written = 0
    try:
        for slot in range(PROCESSES):
            crowd.start(slot)
        for _ in range(ROUNDS):
            fill(address, topic, range(written, written + RECORDS_OF_A_ROUND))
            written += RECORDS_OF_A_ROUND
            time.sleep(random_source.uniform(0.5, 3))
            victims = random_source.sample(range(PROCESSES), 2 if IS_FULL else 1)
            for slot in victims:
                crowd.kill(slot)
            look(committed.now(), crowd.processed())
            for slot in victims:
                crowd.start(slot)
        wait_for_all(crowd, {str(number) for number in range(written)})
        last = ends(address, topic)
        assert sum(last.values()) == written
        expected = {(group, partition): end for group in GROUPS for partition, end in last.items() if end}
        # One that was killed may have processed what it had not committed yet: its heirs do it again first.
        until(lambda: committed.now() == expected, "all is committed", timeout_seconds=PATIENCE_SECONDS)
        crowd.leave()
    finally:
        crowd.end()
    offsets = committed.now()
    committed.close()
    look(offsets, crowd.processed())
    assert offsets == expected


def look(offsets: dict[tuple[str, int], int], processed: Processed) -> None:
    """All that lies before a committed offset has been processed. (The offsets were asked for first.)"""
    for place, offset in offsets.items():
        assert set(range(offset)) <= processed[place].keys(), place


def wait_for_all(crowd: Crowd, wanted: set[str]) -> None:
    def all_done() -> bool:
        by_group: dict[str, set[str]] = {group: set() for group in GROUPS}
        for (group, _), values in crowd.processed().items():
            by_group[group].update(values.values())
        assert all(values <= wanted for values in by_group.values())
        time.sleep(0.3)
        return all(values == wanted for values in by_group.values())

    until(all_done, "every group has everything", timeout_seconds=PATIENCE_SECONDS)
