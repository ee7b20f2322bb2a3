"""Records seen from outside: offsets, deletion up to an offset, producers, folders and their sizes."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec as Spec  # type: ignore[attr-defined]
from kafka import TopicPartition as KafkaPythonPartition

from tests.side_by_side.cases import QUICK, Case, confluent, java, kafka_python, step, tool
from tests.side_by_side.sides import Side

FIRST_MS: Final = 1_600_000_000_000
offset_spec: Final[Any] = Spec  # its methods have no types


def fill(side: Side) -> int:
    """Ten records in flights-0, a second apart, and three in flights-1: known timestamps, each its own batch,
    as the sizes of folders are compared."""
    producer = Producer({"bootstrap.servers": side.address, "linger.ms": 0})
    for number in range(10):
        producer.produce("flights", str(number), partition=0, timestamp=FIRST_MS + number * 1000)
        producer.flush(60)
    for number in range(3):
        producer.produce("flights", str(number), partition=1, timestamp=FIRST_MS)
        producer.flush(60)
    return len(producer)


def produce_once(side: Side) -> int:
    """An idempotent producer, which stays known: one batch of two records."""
    producer = Producer({"bootstrap.servers": side.address, "enable.idempotence": True, "linger.ms": 5000})
    for number in range(2):
        producer.produce("flights", str(number), partition=2, timestamp=FIRST_MS)
    return int(producer.flush(60))


def delete_records(version: str, partitions: str) -> str:
    return f'{{"version": {version}, "partitions": [{partitions}]}}'


def before(topic: str, partition: int, offset: int) -> str:
    return f'{{"topic": "{topic}", "partition": {partition}, "offset": {offset}}}'


DELETE: Final = "kafka-delete-records --offset-json-file {offsets}"

CASES: Final[tuple[Case, ...]] = (
    step("records with known times", fill),
    step("an idempotent producer", produce_once),
    tool("offsets, latest", "kafka-get-offsets --topic flights"),
    tool("offsets, earliest", "kafka-get-offsets --topic flights --time earliest"),
    tool("offsets, greatest timestamp", "kafka-get-offsets --topic flights --time max-timestamp"),
    tool("offsets, earliest local", "kafka-get-offsets --topic flights --time earliest-local"),
    tool("offsets, latest tiered", "kafka-get-offsets --topic flights --time latest-tiered"),
    tool("offsets, by time", f"kafka-get-offsets --topic flights --time {FIRST_MS + 4500}"),
    tool("offsets, after all", f"kafka-get-offsets --topic flights --time {FIRST_MS * 2}"),
    tool("offsets of some partitions", "kafka-get-offsets --topic-partitions flights:0-2,rockets"),
    tool("offsets of partitions that are not there", "kafka-get-offsets --topic flights --partitions 9"),
    tool("offsets of nothing", "kafka-get-offsets --topic nowhere"),
    tool("offsets at no time", "kafka-get-offsets --topic flights --time yesterday"),
    java(
        "offsets by each spec",
        f"listOffsets flights-0={FIRST_MS + 1} flights-1=earliest flights-2=latest nowhere-0=latest",
    ),
    java(
        "offsets of tiers",
        "listOffsets flights-0=earliest-local flights-1=latest-tiered flights-2=earliest-pending-upload",
    ),
    confluent(
        "offsets (librdkafka)",
        lambda admin: admin.list_offsets(
            {
                TopicPartition("flights", 0): offset_spec.max_timestamp(),
                TopicPartition("flights", 1): offset_spec.earliest(),
                TopicPartition("flights", 77): offset_spec.latest(),
            }
        ),
    ),
    tool(
        "delete records",
        DELETE,
        unordered=True,
        offsets=delete_records("1", f"{before('flights', 0, 3)}, {before('flights', 1, -1)}"),
    ),
    tool("the earliest after it", "kafka-get-offsets --topic flights --time earliest"),
    tool("delete records again", DELETE, offsets=delete_records("1", before("flights", 0, 2))),
    tool("delete records beyond the end", DELETE, offsets=delete_records("1", before("flights", 0, 11))),
    tool(
        "delete records of nothing",
        f"{DELETE} --command-config {{quick}}",
        offsets=delete_records("1", before("nowhere", 0, 1)),
        quick=QUICK,
    ),
    tool(
        "delete records, named twice",
        DELETE,
        offsets=delete_records("1", f"{before('flights', 0, 4)}, {before('flights', 0, 5)}"),
    ),
    tool("delete records, bad version", DELETE, offsets=delete_records("2", before("flights", 0, 4))),
    tool("delete records, no JSON", DELETE, offsets="{"),
    tool("delete records, no partitions", DELETE, offsets="{}"),
    tool("delete records, no file", "kafka-delete-records"),
    java("delete records, good and bad", "deleteRecords flights-0=4 flights-1=77 flights-2=-2"),
    java("delete records of a compacted topic", "deleteRecords rockets-0=-1"),
    confluent(
        "delete records (librdkafka)",
        lambda admin: admin.delete_records(
            [TopicPartition("flights", 0, 5), TopicPartition("flights", 1, 44)]
        ),
    ),
    kafka_python(
        "delete records (kafka-python)",
        lambda admin: admin.delete_records({KafkaPythonPartition("flights", 0): 6}),
    ),
    kafka_python(
        "delete records beyond the end (kafka-python)",
        lambda admin: admin.delete_records({KafkaPythonPartition("flights", 0): 60}),
    ),
    tool("offsets after it all", "kafka-get-offsets --topic flights --time earliest"),
    tool(
        "producers of a partition",
        "kafka-transactions --bootstrap-server {broker} describe-producers --topic flights --partition 2",
    ),
    tool(
        "producers of a partition nobody wrote to",
        "kafka-transactions --bootstrap-server {broker} describe-producers --topic rockets --partition 0",
    ),
    tool(
        "producers of nothing",
        "kafka-transactions --bootstrap-server {broker} --command-config {quick} "
        "describe-producers --topic nowhere --partition 0",
        quick=QUICK,
    ),
    tool(
        "producers at an unknown broker",
        "kafka-transactions --bootstrap-server {broker} --command-config {quick} "
        "describe-producers --broker-id 9 --topic flights --partition 2",
        quick=QUICK,
    ),
    java("producers, good and bad", "describeProducers flights-2 rockets-0"),
    kafka_python(
        "producers (kafka-python)",
        lambda admin: admin.describe_producers([KafkaPythonPartition("flights", 2)]),
    ),
)
