"""kill -9 while logs are compacted and cut by retention: the last value of each key, and all that has not
expired, is there after every crash.

Three topics under genuine idempotent producers that go on through each crash: one compacted, one compacted
and cut, one cut. A record's value is its number, and a producer that neither loses nor repeats anything gives
record n the offset n: so each record that is read proves that all before it were kept once, until the cleaner
or retention took them. `kafka-dump-log` looks at what the last crash left, and what a clean stop left.

A longer run: ``BARNABAS_CLEANING_KILLS=200``.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.left_files import check_left_files, orphans
from tests.support.clients.librdkafka import create_topic, settings, until
from tests.support.clients.numbered_load import PATIENCE_SECONDS, Load, number_of
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

KILLS: Final = int(os.environ.get("BARNABAS_CLEANING_KILLS", "5"))
KEYS: Final = 400
RETENTION_BYTES: Final = 400_000
SMALL: Final = {"internal_segment_bytes": "50000", "index_interval_bytes": "1000"}
COMPACT: Final = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "300"}
CUT: Final = {"retention_bytes": str(RETENTION_BYTES)}
BROKER: Final = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "50",
    "log.segment.delete.delay.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "300",
}
UNFINISHED: Final = (".cleaned", ".swap", ".deleted")


@pytest.fixture
def topics() -> dict[str, dict[str, str]]:
    return {
        "state": {"cleanup_policy": "compact", **COMPACT, **SMALL},
        "recent": {"cleanup_policy": "compact,delete", **COMPACT, **SMALL, **CUT},
        "queue": {**SMALL, **CUT},
    }


def test_what_is_not_expired_and_each_key_s_last_value_stay(
    tmp_path: Path, topics: dict[str, dict[str, str]], tool_server: ToolServer
) -> None:
    interrupted: Counter[str] = Counter()
    with BarnabasProcess(tmp_path / "data", BROKER) as broker:
        for name, config in topics.items():
            create_topic(broker.bootstrap_servers, name, 1, **config)
        loads = [
            Load(broker.bootstrap_servers, name, idempotent=True, partitions=1, keys=KEYS, batch_bytes=40_000)
            for name in topics
        ]
        for seed in range(KILLS):
            random_source = random.Random(seed)
            for load in loads:
                load.size_bytes = random_source.choice((10, 100, 500))
                load.go_on()
            time.sleep(random_source.uniform(0.2, 0.7))
            broker.kill()
            interrupted.update(unfinished(broker.data))
            if seed == KILLS - 1:
                check_left_files(tool_server, broker.data, compacted=("state", "recent"))
            broker.start()
            for load in loads:
                load.pause()
                assert load.errors == [], "an idempotent producer goes on as if nothing had happened"
                check(broker, load, seed)
        print(f"{KILLS} kills; files between two names: {dict(interrupted)}; sent {[s.sent for s in loads]}")
        for load in loads:
            load.close()
        broker.stop()
    found = check_left_files(tool_server, broker.data, compacted=("state", "recent"))
    assert found[".log"] > len(topics)
    assert orphans(broker.data) == []
    assert ".swap" not in unfinished(broker.data)  # a pass that the stop gave up leaves .cleaned, as in Kafka


def unfinished(data: Path) -> list[str]:
    """Endings of files that compaction or retention was just about to put away or into place."""
    return [file.suffix for file in data.glob("*-0/*") if file.suffix in UNFINISHED]


def check(broker: BarnabasProcess, load: Load, seed: int) -> None:
    where = f"{load.topic} after the crash of seed {seed}"
    low, read = read_from_start(broker.bootstrap_servers, load.topic, load.sent[0])
    read = [record for record in read if record[0] >= low]
    numbers = [offset for offset, _, _ in read]
    assert numbers == sorted(set(numbers)), f"{where}: out of order"
    for offset, key, number in read:
        assert (offset, key) == (number, load.key_of(number)), f"{where}: something was lost or repeated"
    last = {load.key_of(number): number for number in range(load.sent[0])}
    if load.topic == "queue":
        assert numbers == list(range(low, load.sent[0])), f"{where}: holes"
    else:
        gone = sorted(number for number in last.values() if number >= low and number not in set(numbers))
        assert not gone, f"{where}: the last values with the numbers {gone[:10]} are gone"
    if load.topic == "state":
        assert low == 0, where
    elif low > 0:
        kept = sum(size_bytes(file) for file in broker.data.glob(f"{load.topic}-0/*.log"))
        assert kept >= RETENTION_BYTES or load.topic == "recent", f"{where}: {kept} bytes are too few"
    if seed == KILLS - 1 and len(read) >= 0.9 * load.sent[0]:  # the cleaner may not have had the time
        until(lambda: remaining(broker, load) < 0.9 * load.sent[0], f"{where}: something is cleaned")


def remaining(broker: BarnabasProcess, load: Load) -> int:
    """How many records are left."""
    return len(read_from_start(broker.bootstrap_servers, load.topic, load.sent[0])[1])


def size_bytes(file: Path) -> int:
    """0 for one that retention has just put away: it does so only if enough stays without it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def read_from_start(address: str, topic: str, end: int) -> tuple[int, list[tuple[int, bytes | None, int]]]:
    """The log's first offset; offset, key and number of each record."""
    reader = Consumer(
        settings(address, group_id="nobody", enable_partition_eof=True, auto_offset_reset="earliest")
        | {"log_level": 0}
    )
    place = TopicPartition(topic, 0)
    low, high = reader.get_watermark_offsets(place, PATIENCE_SECONDS)
    assert high == end, f"{topic} ends at {high}, and {end} records were acknowledged"
    reader.assign([TopicPartition(topic, 0, low)])
    found: list[tuple[int, bytes | None, int]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert time.monotonic() < deadline, f"{topic} could not be read to its end"
        for message in reader.consume(5000, 0.2):
            error, offset, value, key = message.error(), message.offset(), message.value(), message.key()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                low, _ = reader.get_watermark_offsets(place, PATIENCE_SECONDS)  # retention goes on meanwhile
                reader.close()
                return low, found
            assert offset is not None
            assert isinstance(value, bytes)
            found.append((offset, key if isinstance(key, bytes) else None, number_of(value)))
