"""What TLS costs a broker beside plaintext: processor time of produce and fetch, memory of idle connections.

    python -m tests.performance.tls                  one line for each listener and kind of traffic
    python -m tests.performance.tls --megabytes 512 --connections 2000

One broker listens without TLS and with it, by an elliptic key (P-256). librdkafka writes and reads the same
records of 16 KB over both, by turns; what is counted is the broker's processor time by the kernel's account.
Idle connections have done their handshake and asked for ApiVersions once.
"""

from __future__ import annotations

import argparse
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from protocol.messages.api_versions import ApiVersionsRequest
from tests.performance.processor_time import spent
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.certificates import authority
from tests.support.clients.wire_client import WireClient

VALUE_BYTES: Final = 16_000
ROUNDS: Final = 3


@contextmanager
def both_listeners(folder: Path) -> Iterator[tuple[BarnabasProcess, dict[str, dict[str, Any]]]]:
    """The broker, and librdkafka's settings by the name of the listener."""
    trust = authority().write_certificate(folder / "ca.pem")
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority().issue("broker").write_pem(folder / "server.pem"),
    }
    with BarnabasProcess(folder / "data", given).start() as broker:
        addresses = dict(re.findall(r"(PLAINTEXT|SSL)://([^\s,;]+)", broker.ready_line))
        yield (
            broker,
            {
                "PLAINTEXT": {"bootstrap.servers": addresses["PLAINTEXT"]},
                "SSL": {
                    "bootstrap.servers": addresses["SSL"],
                    "security.protocol": "ssl",
                    "ssl.ca.location": trust,
                },
            },
        )


def write(settings: dict[str, Any], topic: str, count: int) -> None:
    producer = Producer(
        settings | {"linger.ms": 5, "batch.size": 1 << 20, "queue.buffering.max.messages": 2000}
    )
    value = os.urandom(VALUE_BYTES)
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    if producer.flush(120):
        raise RuntimeError("not all was written")


def read(settings: dict[str, Any], topic: str, count: int) -> None:
    consumer = Consumer(
        settings | {"group.id": "none", "enable.auto.commit": False, "fetch.message.max.bytes": 8 << 20}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = 0
    while found < count:
        found += len(consumer.consume(1000, 1.0))
    consumer.close()


def cost(broker: BarnabasProcess, work: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds of the broker's processor, and of the clock."""
    before, began = spent(broker.pid), time.monotonic()
    work()
    return 1000 * (spent(broker.pid) - before).seconds, 1000 * (time.monotonic() - began)


def traffic(broker: BarnabasProcess, listeners: dict[str, dict[str, Any]], megabytes: int) -> None:
    count = megabytes * 1_000_000 // VALUE_BYTES
    least: dict[tuple[str, str], tuple[float, float]] = {}
    admin = AdminClient(listeners["PLAINTEXT"])
    for number in range(ROUNDS):
        for name, settings in listeners.items():
            topic = f"{name}-{number}"
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
            for kind, work in (("produce", write), ("fetch", read)):
                taken = cost(broker, lambda work=work, at=settings, to=topic: work(at, to, count))  # type: ignore[misc]
                least[kind, name] = min(least.get((kind, name), taken), taken)
    for kind in ("produce", "fetch"):
        plain = least[kind, "PLAINTEXT"][0]
        for name in listeners:
            taken_ms, clock_ms = least[kind, name]
            print(
                f"{kind:<8} {name:<10} {1000 * taken_ms / megabytes:8.0f} µs of processor per MB"
                f" ({taken_ms / plain:5.2f} times plaintext), {1000 * megabytes / clock_ms:7.0f} MB/s"
            )


def idle(broker: BarnabasProcess, listeners: dict[str, dict[str, Any]], count: int) -> None:
    process = psutil.Process(broker.pid)
    for name, settings in listeners.items():
        tls = ssl.create_default_context(cafile=settings["ssl.ca.location"]) if name == "SSL" else None
        before = process.memory_info().rss
        cpu = spent(broker.pid)
        with ExitStack() as open_ones:
            for _ in range(count):
                client = WireClient(settings["bootstrap.servers"], tls=tls)
                open_ones.callback(client.close)
                client.ask(ApiVersionsRequest("idle", "1"), 3)
            each = (process.memory_info().rss - before) / count / 1024
            taken_us = 1_000_000 * (spent(broker.pid) - cpu).seconds / count
            print(f"idle     {name:<10} {each:8.1f} KiB each, {taken_us:.0f} µs of processor to come in")
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--connections", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, both_listeners(Path(folder)) as (broker, listeners):
        idle(broker, listeners, options.connections)
        traffic(broker, listeners, options.megabytes)


if __name__ == "__main__":
    main()
