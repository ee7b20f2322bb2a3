"""What a look-up by time costs whoever asks for it, and what it costs the others.

    python -m tests.performance.long_lookups [another checkout, for comparison]

A broker of this checkout, and one of the other if it is named, with a topic of honest batches (16 KB, 100
records each, a second apart) and topics with one batch of five million or a million records. Printed in
milliseconds: ListOffsets by time among the honest batches, alone; what four clients wait for the answer that
lies behind the crowded batch; and what another client's ApiVersions takes meanwhile. At last what a worker
process would add: how long it takes to start one.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from broker.workers.child import Order
from broker.workers.pool import start_worker
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import ZSTD
from storage.jobs import JobFailed
from tests.performance.contenders import OtherCheckout
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.produced import LIST_OFFSETS_VERSION, list_offset, produce
from tests.support.clients.raw_connection import RawConnection, processor_seconds
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

T0: Final = 1_600_000_000_000
BATCHES: Final = 2000
RECORDS: Final = {"five million of 7 bytes, 3.3 KB": 5_000_000, "a million of 7 bytes": 1_000_000}
CLIENTS: Final = 4
KEPT: Final = {"retention.ms": "-1"}


def fill(broker: BarnabasProcess) -> None:
    topics = Topics(broker.bootstrap_servers)
    topics.create("honest", config=KEPT)
    with RawConnection(broker.bootstrap_servers) as client:
        for second in range(BATCHES):
            records = [SimpleRecord(None, bytes(150), T0 + second * 1000 + each) for each in range(100)]
            produce(client, "honest", build_batch(records))
        for number, count in enumerate(RECORDS.values()):
            topics.create(f"crowded-{number}", config=KEPT)
            batches = [bad.stamped(T0 - 1000)] * 8 + [bad.crowded(ZSTD, count, at=T0), bad.good()]
            for batch in batches:
                produce(client, f"crowded-{number}", bytearray(batch))


def shown(times: Sequence[float]) -> str:
    ordered = sorted(times)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"p50 {p50 * 1000:8.2f}  p99 {p99 * 1000:8.2f}  worst {ordered[-1] * 1000:8.2f}"


def small(broker: BarnabasProcess) -> None:
    with RawConnection(broker.bootstrap_servers) as client:
        for topic, what in (("honest", "an honest look-up"), ("none", "a round trip (ApiVersions)")):
            times = []
            for number in range(3000):
                began = time.perf_counter()
                if topic == "honest":
                    list_offset(client, topic, T0 + number * 7919 % (BATCHES * 1000))
                else:
                    client.ask(ApiVersionsRequest("next", "1"), 3)
                times.append(time.perf_counter() - began)
            print(f"    {what:<40} {shown(times)}", flush=True)


def crowded(broker: BarnabasProcess, topic: str, name: str) -> None:
    answers: list[float] = []
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=T0 + 500)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])])

    def search() -> None:
        with RawConnection(broker.bootstrap_servers, timeout_seconds=300) as client:
            began = time.perf_counter()
            client.ask(request, LIST_OFFSETS_VERSION)
            answers.append(time.perf_counter() - began)

    cpu_seconds = processor_seconds(broker.pid)
    threads = [threading.Thread(target=search) for _ in range(CLIENTS)]
    for each in threads:
        each.start()
    others = []
    with RawConnection(broker.bootstrap_servers, timeout_seconds=300) as client:
        while any(each.is_alive() for each in threads):
            began = time.perf_counter()
            client.ask(ApiVersionsRequest("next", "1"), 3)
            others.append(time.perf_counter() - began)
            time.sleep(0.002)
    cpu_seconds = processor_seconds(broker.pid) - cpu_seconds
    waits = f"{min(answers):.2f} to {max(answers):.2f} s"
    print(f"    {name}: {CLIENTS} clients wait {waits}, {cpu_seconds:.2f} s of processor time;")
    print(f"      another client meanwhile               {shown(others)}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lookups-") as folder:
        brokers = [("here", BarnabasProcess(Path(folder) / "here"))]
        if len(sys.argv) > 1:
            brokers.append(("the other", OtherCheckout(Path(folder) / "other", Path(sys.argv[1]))))
        for _, broker in brokers:
            broker.start()
            fill(broker)
        for turn in (1, 2):
            for name, broker in brokers[:: 1 if turn == 1 else -1]:
                print(f"  {name}, turn {turn}")
                small(broker)
                for number, what in enumerate(RECORDS):
                    crowded(broker, f"crowded-{number}", what)
        for _, broker in brokers:
            broker.stop()
    print(f"  the start of a worker process: {min(worker_starts()) * 1000:.0f} ms")


def worker_starts() -> list[float]:
    """From the start of a worker process to its first answer, several times."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        worker = start_worker()
        with suppress(JobFailed):
            worker.call(msgspec.msgpack.encode(Order("none", b"", 0)), print)
        times.append(time.perf_counter() - began)
        worker.end()
    return times


if __name__ == "__main__":
    main()
