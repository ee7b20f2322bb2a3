"""A consumer that catches up on gigabytes that are not in memory, beside a producer that should not notice.

::

    python -m tests.performance.cold_reader                       4 GB, three rounds
    python -m tests.performance.cold_reader --gigabytes 1 --rounds 1 --kafka-too

The producer sends 16 KB at a fixed rate on one connection. Each request is timed from when it left, and from
when it was due, which also counts what it had to wait for the one before it, and for a processor. A round is
four windows: alone; beside a consumer of another broker, whose files are cold (it takes the same processors,
disk and memory, and none of this broker's time); beside a consumer of files that are in the page cache;
beside one of files that were dropped from it (`posix_fadvise`) a moment ago. The consumer asks for 1 MB at a
time, as a Kafka consumer does of one partition, through the whole topic; how much of it came from the disk is
what the kernel says of the process (`/proc/<pid>/io`).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from tests.performance.cases import Case
from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP, Contender, Topic
from tests.performance.frames import batch_of, fetch_frame, produce_frame
from tests.performance.latency_client import answer, connect
from tests.performance.measuring import drive
from tests.performance.raw_client import percentiles
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka

BATCH_BYTES: Final = 64 << 10
FETCH_BYTES: Final = 1 << 20
REQUEST_BYTES: Final = 16 << 10
RATE_PER_SECOND: Final = 300
QUIET_SECONDS: Final = 12
_LONG: Final = struct.Struct(">q")


def fill(contender: Contender, topic: Topic, gigabytes: float) -> dict[str, int]:
    """How the batches lie."""
    batch, count = batch_of(BATCH_BYTES - 1024, 1000)
    batches = int(gigabytes * 1e9) // len(batch)
    case = Case("produce", BATCH_BYTES - 1024, 1000)
    drive(contender, topic, case, 600, max_bytes=batches * len(batch))
    return {"records": count, "batch_bytes": len(batch), "batches": batches}


def _segment_files(contender: Contender, topic: Topic) -> list[Path]:
    folder = contender.process.data / f"{topic.name}-0"
    return [file for file in sorted(folder.iterdir()) if file.suffix in (".log", ".index", ".timeindex")]


def make_cold(contender: Contender, topic: Topic) -> None:
    for file in _segment_files(contender, topic):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def make_warm(contender: Contender, topic: Topic) -> None:
    for file in _segment_files(contender, topic):
        with open(file, "rb", buffering=0) as content:
            while content.read(8 << 20):
                pass


def disk_bytes(contender: Contender) -> int:
    """What the broker has made the kernel read."""
    text = Path(f"/proc/{contender.process.pid}/io").read_text()
    return int(text.partition("\nread_bytes: ")[2].partition("\n")[0])


class Consumer(threading.Thread):
    """Reads the topic once, in a process of its own."""

    def __init__(self, contender: Contender, topic: Topic, layout: dict[str, int]) -> None:
        super().__init__()
        self.contender = contender
        plan = {"read": topic.id_hex, "port": contender.port, **layout}
        self._command = [sys.executable, "-m", "tests.performance.cold_reader", "--plan", json.dumps(plan)]
        self.megabytes_per_second = 0.0
        self.failure = ""

    def run(self) -> None:
        done = subprocess.run(self._command, capture_output=True, text=True, timeout=900, check=False)
        self.failure = done.stderr[-2000:]
        if done.returncode == 0:
            self.megabytes_per_second = json.loads(done.stdout)


def produce(contender: Contender, topic: Topic, stop: threading.Event) -> dict[str, Any]:
    """A producer in a process of its own until `stop` is set; what `paced` says."""
    plan = {"produce": topic.name, "port": contender.port}
    command = [sys.executable, "-m", "tests.performance.cold_reader", "--plan", json.dumps(plan)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        stop.wait()
        told, _ = client.communicate("stop\n", timeout=60)
    found: dict[str, Any] = json.loads(told)
    return found


def window(contender: Contender, stream: Topic, consumer: Consumer | None) -> dict[str, Any]:
    stop = threading.Event()
    if consumer is None:
        threading.Timer(QUIET_SECONDS, stop.set).start()
    else:

        def until_read(reader: Consumer = consumer) -> None:
            reader.start()
            reader.join()
            stop.set()

        threading.Thread(target=until_read).start()
    read_from = contender if consumer is None else consumer.contender
    before = disk_bytes(read_from)
    told = produce(contender, stream, stop)
    found = {"p50": told["latency"]["p50"], "p99": told["latency"]["p99"], "requests": told["requests"]}
    found |= {"trip p99": told["trip"]["p99"], "longest": told["trip"]["longest"]}
    if consumer is not None:
        if consumer.failure:
            raise RuntimeError(consumer.failure)
        found["reader MB/s"] = round(consumer.megabytes_per_second)
        found["from disk MB"] = (disk_bytes(read_from) - before) // 1_000_000
    return found | {"load": round(os.getloadavg()[0], 1)}


def measure(contender: Contender, other: Contender, gigabytes: float, rounds: int) -> None:
    """other: the broker whose consumer is a mere neighbour."""
    topic, stream, elsewhere = contender.make_topic(1), contender.make_topic(1), other.make_topic(1)
    layout = fill(contender, topic, gigabytes)
    other_layout = fill(other, elsewhere, gigabytes)
    found: dict[str, list[dict[str, Any]]] = {"alone": [], "elsewhere": [], "warm": [], "cold": []}
    for _ in range(rounds):
        os.sync()
        found["alone"].append(window(contender, stream, None))
        make_cold(other, elsewhere)
        found["elsewhere"].append(window(contender, stream, Consumer(other, elsewhere, other_layout)))
        make_warm(contender, topic)
        found["warm"].append(window(contender, stream, Consumer(contender, topic, layout)))
        make_cold(contender, topic)
        found["cold"].append(window(contender, stream, Consumer(contender, topic, layout)))
        for name, all_of_it in found.items():
            print(f"{contender.name}, {name}: {all_of_it[-1]}", flush=True)
    alone = statistics.median(each["trip p99"] for each in found["alone"])
    for name, all_of_it in found.items():
        p50, p99, due = (
            statistics.median(each[which] for each in all_of_it) for which in ("p50", "trip p99", "p99")
        )
        speed = statistics.median(each.get("reader MB/s", 0) for each in all_of_it)
        print(
            f"| {contender.name}, {name} | {p50 / 1000:.2f} ms | {p99 / 1000:.2f} ms, {p99 / alone:.1f} "
            f"times | {due / 1000:.1f} ms | {speed:.0f} MB/s |",
            flush=True,
        )
    contender.delete_topic(topic)
    contender.delete_topic(stream)
    other.delete_topic(elsewhere)


# The clients


def paced(plan: dict[str, Any]) -> dict[str, Any]:
    """Produces until a line comes."""
    connection = connect(plan["port"])
    buffer = memoryview(bytearray(1 << 16))
    frame = produce_frame(plan["produce"], 0, REQUEST_BYTES, 1000)
    over = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    latencies: list[int] = []
    trips: list[int] = []
    began = time.perf_counter_ns()
    while not over.is_set():
        due = began + len(latencies) * 1_000_000_000 // RATE_PER_SECOND
        early = due - time.perf_counter_ns()
        if early > 0:
            time.sleep(early / 1e9)
        sent = time.perf_counter_ns()
        connection.sendall(frame.buffer)
        answer(connection, buffer)
        now = time.perf_counter_ns()
        latencies.append(now - due)
        trips.append(now - sent)
    return {
        "latency": percentiles(sorted(latencies)),
        "trip": percentiles(sorted(trips)) | {"longest": max(trips) / 1000},
        "requests": len(latencies),
    }


def catch_up(plan: dict[str, Any]) -> float:
    """Reads all batches in order; MB/s."""
    connection = connect(plan["port"])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    buffer = memoryview(bytearray(1 << 20))
    frame = fetch_frame(bytes.fromhex(plan["read"]), 0, FETCH_BYTES)
    began, total, done = time.perf_counter(), 0, 0
    while done < plan["batches"]:
        _LONG.pack_into(frame.buffer, frame.offset_position, done * plan["records"])
        connection.sendall(frame.buffer)
        got = answer(connection, buffer)
        if got < plan["batch_bytes"]:
            raise RuntimeError(f"{got} bytes came at batch {done} of {plan['batches']}")
        done += got // plan["batch_bytes"]  # the last one may be cut off
        total += got
    return total / 1e6 / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kafka-too", action="store_true")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plan:
        plan = json.loads(options.plan)
        print(json.dumps(catch_up(plan) if "read" in plan else paced(plan)))
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Contender("another", BarnabasProcess(Path(folder) / "another"))
        contender = Contender("Barnabas", BarnabasProcess(Path(folder) / "barnabas"))
        measure(contender, other, options.gigabytes, options.rounds)
        contender.stop()
        if options.kafka_too:
            kafka = GenuineKafka(Path(folder) / "kafka", heap=KAFKA_HEAP)
            kafka.flags = KAFKA_FLAGS
            contender = Contender("Apache Kafka", kafka)
            measure(contender, other, options.gigabytes, options.rounds)
            contender.stop()
        other.stop()


if __name__ == "__main__":
    main()
