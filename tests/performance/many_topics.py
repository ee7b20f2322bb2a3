"""Ten thousand topics, created, served and deleted; and a restart that must open them all.

::

    python -m tests.performance.many_topics barnabas      one broker under measurement
    python -m tests.performance.many_topics kafka
    MANY_TOPICS=1000 python -m tests.performance.many_topics barnabas

A genuine client (librdkafka's admin) asks in batches, one after the other, as an operator's script would.
Times are wall clock of the client; memory is the resident set of the broker's process. A topic counts as
made when its partition has a leader, which the last batch's end offsets show.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic, Producer

from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka

BATCH: Final = 500
DIRTY: Final = 1_000
"""Partitions with records that no sync has seen when the broker is told to stop."""

SLOW_TURN: Final = re.compile(r"That turn of the loop is over; it took at least (\d+) ms")

Broker = BarnabasProcess | GenuineKafka


def batches(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), BATCH):
        yield names[start : start + BATCH]


def create(admin: AdminClient, names: list[str]) -> float:
    began = time.perf_counter()
    for batch in batches(names):
        new = [NewTopic(name, num_partitions=1, replication_factor=1) for name in batch]
        for outcome in admin.create_topics(new, operation_timeout=60, request_timeout=120).values():
            outcome.result(180)
    return time.perf_counter() - began


def wait_for(admin: AdminClient, name: str) -> float:
    """Until the topic's partition is led."""
    began = time.perf_counter()
    while time.perf_counter() - began < 300:
        try:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for offset in admin.list_offsets({TopicPartition(name, 0): latest}).values():
                offset.result(30)
            return time.perf_counter() - began
        except KafkaException:
            time.sleep(0.05)
    raise RuntimeError(f"{name} was never led")


def delete(admin: AdminClient, names: list[str]) -> float:
    began = time.perf_counter()
    for batch in batches(names):
        for outcome in admin.delete_topics(batch, operation_timeout=60, request_timeout=120).values():
            outcome.result(180)
    return time.perf_counter() - began


def dirty(broker: Broker, names: list[str]) -> None:
    """One record into each."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for name in names:
        producer.produce(name, b"x" * 100)
    if producer.flush(120):
        raise RuntimeError("records were not taken")


def resident_mib(broker: Broker) -> float:
    return float(psutil.Process(broker.pid).memory_info().rss) / (1 << 20)


def cpu_seconds(broker: Broker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


def stop(broker: Broker) -> float:
    began = time.perf_counter()
    if isinstance(broker, BarnabasProcess):
        broker.stop(120)
    else:
        broker.stop()
    return time.perf_counter() - began


def measure(broker: Broker, count: int) -> Iterator[tuple[str, str]]:
    """(what, value), each as soon as it is known."""
    names = [f"topic-{number:05}" for number in range(count)]
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    yield "resident, idle", f"{resident_mib(broker):.0f} MiB"
    yield f"create {count:,} topics, {BATCH} a request", f"{create(admin, names):.1f} s"
    yield "until the last one is led", f"{wait_for(admin, names[-1]):.2f} s"
    yield "its processor time until then", f"{cpu_seconds(broker):.1f} s"
    yield "resident then", f"{resident_mib(broker):.0f} MiB"
    del admin
    yield "clean stop", f"{stop(broker):.1f} s"
    began = time.perf_counter()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    yield "start to ready", f"{time.perf_counter() - began:.1f} s"
    yield "until the last topic is led", f"{wait_for(admin, names[-1]):.2f} s"
    yield "its processor time until then", f"{cpu_seconds(broker):.1f} s"
    time.sleep(2)
    yield "resident then, two seconds later", f"{resident_mib(broker):.0f} MiB"
    dirty(broker, names[:DIRTY])
    yield f"stop with {min(DIRTY, count):,} dirty partitions", f"{stop(broker):.1f} s"
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wait_for(admin, names[-1])
    yield f"delete {count:,} topics", f"{delete(admin, names):.1f} s"
    yield "resident then, after the deletion", f"{resident_mib(broker):.0f} MiB"
    yield "stop at the end", f"{stop(broker):.1f} s"
    if isinstance(broker, BarnabasProcess):
        slow = [int(ms) for ms in SLOW_TURN.findall(broker.log_file.read_text())]
        yield "turns of the loop over 100 ms", f"{len(slow)}, the longest {max(slow, default=0)} ms"


def main() -> None:
    count = int(os.environ.get("MANY_TOPICS", "10000"))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        broker: Broker = BarnabasProcess(data)
        if sys.argv[1:] == ["kafka"]:
            broker = GenuineKafka(data, heap=KAFKA_HEAP)
            broker.flags = KAFKA_FLAGS
        try:
            for what, value in measure(broker, count):
                print(f"| {what} | {value} |", flush=True)
        finally:
            broker.kill()
            keep = os.environ.get("MANY_TOPICS_LOG")
            if keep:
                Path(keep).write_bytes(broker.log_file.read_bytes())


if __name__ == "__main__":
    main()
