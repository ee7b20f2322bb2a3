"""The start after a crash, with gigabytes that nobody has said are whole; both brokers on the same files.

::

    python -m tests.performance.recovery                       1 GB in 8 partitions
    RECOVERY_GB=5 python -m tests.performance.recovery         what is written down in RESULTS.md

Apache Kafka writes the logs and is killed; its recovery points are removed, so that every byte must be read.
Each broker then starts on a copy of that directory, and is timed until it serves. The files are in the page
cache for both, and each has two recovery threads or processes for the directory, as by default.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, Producer

from tests.performance.contenders import KAFKA_FLAGS
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka

PARTITIONS: Final = 8
RECORD_BYTES: Final = 1_000
GIGABYTES: Final = float(os.environ.get("RECOVERY_GB", "1"))
START_SECONDS: Final = 600

TOLD: Final = re.compile(r"Recovered .*|Opened \d+ logs.*|Loaded \d+ logs in \d+ms.*")


def write(folder: Path) -> Path:
    """A directory of Apache Kafka that was killed, without recovery points."""
    data = folder / "written"
    kafka = GenuineKafka(data, {"log.segment.bytes": str(256 << 20)}, heap="1g")
    kafka.features = NO_FEATURES
    kafka.start()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("load", PARTITIONS, 1)])["load"].result(60)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "linger.ms": 5,
            "batch.size": 65_536,
            "queue.buffering.max.messages": 200_000,
        }
    )
    value = os.urandom(RECORD_BYTES)
    for number in range(int(GIGABYTES * 1e9 / RECORD_BYTES)):
        while True:
            try:
                producer.produce("load", value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("records were not taken")
    os.kill(kafka.pid, 9)
    time.sleep(1)
    (data / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return data


def timed(name: str, broker: BarnabasProcess | GenuineKafka) -> None:
    began = time.perf_counter()
    if isinstance(broker, GenuineKafka):
        broker.start(START_SECONDS)
    else:
        broker.start()
    took = time.perf_counter() - began
    told = TOLD.findall(broker.log_file.read_text())
    print(f"| {name} | {took:.1f} s | {GIGABYTES * 1000 / took:,.0f} MB/s | {'; '.join(told)} |", flush=True)
    broker.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="recovery-") as name:
        folder = Path(name)
        written = write(folder)
        print(f"| {GIGABYTES:g} GB in {PARTITIONS} partitions | start to ready | in all | it says |")
        print("|---|---|---|---|")
        for broker_name in ("Barnabas", "Apache Kafka", "Barnabas again"):
            copy = folder / "copy"
            shutil.copytree(written, copy)
            if broker_name.startswith("Barnabas"):
                timed(broker_name, BarnabasProcess(copy))
            else:
                kafka = GenuineKafka(copy, {"log.segment.bytes": str(256 << 20)}, heap="1g")
                kafka.flags = KAFKA_FLAGS
                kafka.features = NO_FEATURES
                timed(broker_name, kafka)
            (folder / "copy.log").unlink()
            shutil.rmtree(copy)


if __name__ == "__main__":
    main()
