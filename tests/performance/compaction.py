"""Compaction beside Apache Kafka's, on the same records; a produce stream while it runs.

    python -m tests.performance.compaction [--megabytes 300] [--kafka-too]

Each broker gets the same keyed records into a topic that is not compacted yet; then its policy is changed,
and the clock runs until `cleaner-offset-checkpoint` names the topic. Processor seconds are those of the
broker and of its worker processes together. The produce stream is one connection with requests of 16 KB,
first quiet, then beside a second compaction of the same size. A consumer that catches up on cold files:
`cold_reader`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.performance.cases import Case
from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP, Contender, Topic
from tests.performance.measuring import drive
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka

SETTINGS: Final = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
SEGMENT: Final = {"segment.bytes": str(64 << 20)}
VALUE_BYTES: Final = 500
KEYS: Final = 100_000
STREAM: Final = Case("produce", 16 << 10)
PATIENCE_SECONDS: Final = 300


def fill(contender: Contender, topic: Topic, megabytes: int) -> None:
    random_source = random.Random(1)
    producer = Producer(
        {
            "bootstrap.servers": contender.process.bootstrap_servers,
            "batch.size": 500_000,
            "linger.ms": 50,
            "log_level": 0,
        }
    )
    value = random_source.randbytes(VALUE_BYTES)
    for _ in range(megabytes * 1_000_000 // (VALUE_BYTES + 20)):
        while True:
            try:
                producer.produce(topic.name, value, b"key-%d" % random_source.randrange(KEYS), partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(PATIENCE_SECONDS):
        raise RuntimeError(f"{contender.name} did not take all records")


def begin_compaction(contender: Contender, topic: Topic) -> None:
    admin = AdminClient({"bootstrap.servers": contender.process.bootstrap_servers})
    set_ = AlterConfigOpType.SET
    wanted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    entries = [ConfigEntry(name, value, incremental_operation=set_) for name, value in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def await_compaction(contender: Contender, topic: Topic) -> None:
    checkpoint = contender.process.data / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not checkpoint.exists() or f"{topic.name} 0 " not in checkpoint.read_text():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{contender.name} did not compact {topic.name}")
        time.sleep(0.02)


def cpu_seconds(contender: Contender) -> float:
    """Of the broker and its workers."""
    broker = psutil.Process(contender.process.pid)
    total = 0.0
    for each in (broker, *broker.children(recursive=True)):
        times = each.cpu_times()
        total += times.user + times.system
    return total


def log_bytes(contender: Contender, topic: Topic) -> int:
    """Of the segments that may be compacted: all but the last one."""
    files = sorted((contender.process.data / f"{topic.name}-0").glob("*.log"))
    return sum(file.stat().st_size for file in files[:-1])


def compaction(contender: Contender, megabytes: int) -> dict[str, Any]:
    topic = contender.make_topic(1, SEGMENT)
    fill(contender, topic, megabytes)
    time.sleep(3)
    size = log_bytes(contender, topic)
    cpu, began = cpu_seconds(contender), time.perf_counter()
    begin_compaction(contender, topic)
    await_compaction(contender, topic)
    took = time.perf_counter() - began
    found: dict[str, Any] = {
        "MB": size // 1_000_000,
        "MB/s": round(size / 1e6 / took, 1),
        "CPU s": round(cpu_seconds(contender) - cpu, 2),
    }
    other, stream = contender.make_topic(1, SEGMENT), contender.make_topic(1)
    fill(contender, other, megabytes)
    time.sleep(3)
    seconds = max(2.0, min(10.0, took))
    drive(contender, stream, STREAM, 2)
    quiet = drive(contender, stream, STREAM, seconds)
    begin_compaction(contender, other)
    busy = drive(contender, stream, STREAM, seconds)
    await_compaction(contender, other)
    return found | {"quiet p50/p99 us": (quiet.p50_us, quiet.p99_us), "busy": (busy.p50_us, busy.p99_us)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--kafka-too", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes: list[tuple[str, BarnabasProcess | GenuineKafka]] = [
            ("Barnabas", BarnabasProcess(Path(folder) / "barnabas", SETTINGS))
        ]
        if options.kafka_too:
            kafka = GenuineKafka(Path(folder) / "kafka", SETTINGS, heap=KAFKA_HEAP)
            kafka.flags = KAFKA_FLAGS
            processes.append(("Apache Kafka", kafka))
        for name, process in processes:
            contender = Contender(name, process)
            load = os.getloadavg()[0]
            print(name, compaction(contender, options.megabytes), f"load {load:.1f}", flush=True)
            contender.stop()


if __name__ == "__main__":
    main()
