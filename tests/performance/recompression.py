"""What a producer of small batches notices while another one's large batches are compressed anew.

    python -m tests.performance.recompression [seconds]

One broker; a process sends 1 MB batches in gzip and zstd to a topic with `compression.type=lz4` as fast as it
is answered, while here one request after the other with 1 KB goes to another topic, acks=1, at most 200 a
second. Printed: p50, p99 and the worst of its round trips in milliseconds, alone and beside, and what the
other got through. A third row does the same beside a topic with `flush.messages=1`, fed with 10 KB batches.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import GZIP, ZSTD
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.topics import Topics

GAP_SECONDS = 0.005


def produce(topic: str, batch: bytes | bytearray, acks: int = 1) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(0, batch)
    return ProduceRequest(None, acks, 30_000, [ProduceRequest.TopicProduceData(topic, partition_data=[data])])


def events(size_bytes: int) -> list[SimpleRecord]:
    now_ms = int(time.time() * 1000)
    value = (b'{"user": 4711, "page": "/p/%d", "event": "click", "at": 1700000000}' * 3)[:180]
    return [
        SimpleRecord(None, value.replace(b"4711", b"%04d" % (n * 7919 % 9973)), now_ms)
        for n in range(size_bytes // 180)
    ]


def load(bootstrap: str, topic: str, seconds: float) -> None:
    """The other producer, in a process of its own: prints how many bytes of records went through."""
    if topic == "packed":
        batches = [build_batch(events(1_000_000), codec=codec) for codec in (GZIP, ZSTD)]
    else:
        batches = [build_batch(events(10_000))]
    plain_bytes = 1_000_000 if topic == "packed" else 10_000
    done = 0
    end = time.monotonic() + seconds
    with RawConnection(bootstrap) as connection:
        while time.monotonic() < end:
            response = connection.ask_for(ProduceResponse, produce(topic, batches[done % len(batches)]), 12)
            code = response.responses[0].partition_responses[0].error_code
            if code:
                raise SystemExit(f"error {code}")
            done += 1
    print(json.dumps({"requests": done, "megabytes": done * plain_bytes / 1e6}))


def round_trips(connection: RawConnection, seconds: float) -> list[float]:
    batch = build_batch(events(1000))
    times: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.ask_for(ProduceResponse, produce("small", batch), 12)
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(max(0.0, GAP_SECONDS - times[-1] / 1000))
    return sorted(times)


def show(what: str, times: list[float], other: str = "") -> None:
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(f"{what:<40} p50 {p50:7.2f}  p99 {p99:7.2f}  worst {times[-1]:7.2f} ms  {other}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        load(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        broker = BarnabasProcess(Path(folder) / "data", {})
        broker.start()
        try:
            topics = Topics(broker.bootstrap_servers)
            topics.create("small")
            topics.create("packed", config={"compression.type": "lz4", "max.message.bytes": "2000000"})
            topics.create("synced", config={"flush.messages": "1"})
            with RawConnection(broker.bootstrap_servers) as connection:
                round_trips(connection, 1)
                show("alone", round_trips(connection, seconds))
                for topic in ("packed", "synced"):
                    command = [sys.executable, "-m", "tests.performance.recompression", "load"]
                    other = subprocess.Popen(
                        [*command, broker.bootstrap_servers, topic, str(seconds + 2)],
                        stdout=subprocess.PIPE, text=True,
                    )  # fmt: skip
                    time.sleep(1.5)
                    times = round_trips(connection, seconds)
                    told, _ = other.communicate()
                    show(f"beside a producer to {topic}", times, f"the other: {told.strip()}")
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
