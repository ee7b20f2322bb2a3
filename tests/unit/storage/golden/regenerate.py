"""Makes the two golden directories anew: `python -m tests.unit.storage.golden.regenerate`.

Apache Kafka 4.3.1 is started twice on fresh directories, given the same records in all codecs by an
idempotent and a plain producer, and then stopped in order (`clean.tar.gz`) or killed (`killed.tar.gz`). Index
files that Kafka has preallocated are packed as they are; zeros compress well. The `.json` beside each says
what a consumer must see.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.genuine.genuine_kafka import GenuineKafka

HERE: Final = Path(__file__).parent
TOPIC: Final = "orders"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: Final = {"internal.segment.bytes": "16384", "index.interval.bytes": "1024"}


def produce(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=SETTINGS)])[TOPIC].result(30)
    for codec in CODECS:
        for idempotent in (True, False):
            producer = Producer(
                {
                    "bootstrap.servers": servers,
                    "compression.type": codec,
                    "enable.idempotence": idempotent,
                    "linger.ms": 5,
                    "batch.num.messages": 7,
                }
            )
            for number in range(40):
                value = f"{codec} {idempotent} {number} ".encode() * 8
                producer.produce(TOPIC, value, key=str(number), timestamp=1_700_000_000_000 + number * 1000)
            producer.flush(30)


def consume(servers: str) -> list[list[object]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    records: list[list[object]] = []
    while len(records) < len(CODECS) * 80:
        records.extend(
            [each.offset(), each.timestamp()[1], (each.key() or b"").decode(), len(each.value() or b"")]
            for each in consumer.consume(100, 10)
        )
    consumer.close()
    return records


def pack(data: Path, name: str) -> None:
    wanted = [f"{TOPIC}-0", "meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint",
              "log-start-offset-checkpoint", "replication-offset-checkpoint"]  # fmt: skip
    with tarfile.open(HERE / name, "w:gz", compresslevel=9) as archive:
        for each in wanted:
            if (data / each).exists():
                archive.add(data / each, each)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name in ("clean", "killed"):
            kafka = GenuineKafka(Path(directory) / name).start()
            produce(kafka.bootstrap_servers)
            expected = consume(kafka.bootstrap_servers)
            if name == "clean":
                kafka.stop()
            else:
                kafka.kill()
            pack(kafka.data, f"{name}.tar.gz")
            (HERE / f"{name}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
