"""Makes the golden metadata log anew: Apache Kafka writes it, our replay must understand it.

    PYTHONPATH=. python tests/unit/controller/metadata/golden/regenerate.py

One node of Apache Kafka lives twice. Its tools create, alter and delete topics, set and remove configs,
quotas, SCRAM credentials and ACLs; a producer takes producer ids; each life ends in an orderly shutdown.
Kept are the log, the newest snapshot that Kafka took of it, the files of the first formatting, and what
kafka-dump-log says of the log's records, a line of JSON each.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.kafka_tools import run_tool

HERE: Final = Path(__file__).parent
LOG: Final = "00000000000000000000.log"

OVERRIDES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.idle.interval.ms": "5000",
}


def tool(name: str, kafka: GenuineKafka, *arguments: str, stdin: str = "") -> None:
    result = run_tool(name, "--bootstrap-server", kafka.bootstrap_servers, *arguments, stdin=stdin)
    if result.code != 0:
        raise RuntimeError(f"{name} {arguments}: {result.out}{result.err}")


def live_first(kafka: GenuineKafka) -> None:
    topics = ("kafka-topics", kafka)
    tool(*topics, "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=1000000")
    tool(*topics, "--create", "--topic", "gone", "--partitions", "2", "--config", "cleanup.policy=compact")
    tool(*topics, "--create", "--topic", "a.b", "--replica-assignment", "1,1")
    tool(*topics, "--delete", "--topic", "gone")
    tool(*topics, "--alter", "--topic", "orders", "--partitions", "5")
    configs = ("kafka-configs", kafka, "--alter")
    tool(*configs, "--entity-type", "topics", "--entity-name", "orders", "--add-config", "segment.ms=60000")
    tool(*configs, "--entity-type", "topics", "--entity-name", "orders", "--delete-config", "retention.ms")
    tool(
        *configs, "--entity-type", "brokers", "--entity-default", "--add-config", "log.segment.bytes=2000000"
    )
    tool(
        *configs,
        "--entity-type",
        "brokers",
        "--entity-name",
        "1",
        "--add-config",
        "log.retention.ms=99999999",
    )
    users = ("--entity-type", "users", "--entity-name")
    tool(*configs, *users, "alice", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    tool(*configs, *users, "bob", "--add-config", "SCRAM-SHA-512=[iterations=4096,password=secret]")
    tool(*configs, *users, "bob", "--delete-config", "SCRAM-SHA-512")
    tool(*configs, *users, "alice", "--add-config", "producer_byte_rate=1000,consumer_byte_rate=2000")
    tool(*configs, *users, "alice", "--delete-config", "consumer_byte_rate")


def live_again(kafka: GenuineKafka) -> None:
    acl = ("--allow-principal", "User:alice", "--topic", "orders", "--operation")
    tool("kafka-acls", kafka, "--add", *acl, "Read")
    tool("kafka-acls", kafka, "--add", *acl, "Write")
    tool("kafka-acls", kafka, "--remove", "--force", *acl, "Write")
    tool("kafka-console-producer", kafka, "--topic", "orders", stdin="one\ntwo\n")
    tool("kafka-topics", kafka, "--create", "--topic", "last", "--partitions", "1")


def keep(data: Path) -> None:
    source = data / "__cluster_metadata-0"
    for old in HERE.glob("*"):
        if old.suffix in (".log", ".checkpoint", ".jsonl") or old.name == "quorum-state":
            old.unlink()
    newest = max(source.glob("*.checkpoint"))
    for path in (source / LOG, source / "quorum-state", newest, data / "bootstrap.checkpoint"):
        shutil.copyfile(path, HERE / path.name)
    shutil.copyfile(source / "00000000000000000000-0000000000.checkpoint", HERE / "format.checkpoint")
    dump = run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(source / LOG))
    lines = [line.partition("payload: ")[2] for line in dump.lines if "payload: " in line]
    (HERE / "records.jsonl").write_text("\n".join(lines) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        kafka = GenuineKafka(data, OVERRIDES)
        for live in (live_first, live_again):
            with kafka:
                live(kafka)
        keep(data)


if __name__ == "__main__":
    main()
