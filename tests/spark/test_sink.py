"""Spark writes topics, in batches and as streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, functions

from tests.conftest import AnyBroker
from tests.support.clients.topics import Topics
from tests.support.genuine.spark_session import Batches, Kafka, finished, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.java]

EARLIEST = {"startingOffsets": "earliest"}
T0 = 1_700_000_000


def values(topics: Topics, topic: str, partitions: int = 1) -> list[str]:
    return sorted(record.text for record in topics.consume(topic, partitions))


def numbered(kafka: Kafka, count: int) -> DataFrame:
    """ANSI mode casts no number to binary, so by way of a string."""
    return kafka.spark.range(count).selectExpr("cast(id as string) as value")


def test_a_batch_is_written_to_the_topic_that_is_named(kafka: Kafka, topics: Topics) -> None:
    topics.create("named", 3)
    kafka.write(numbered(kafka, 1000), "named")
    assert values(topics, "named", 3) == sorted(map(str, range(1000)))


def test_columns_say_topic_partition_headers_key(kafka: Kafka, topics: Topics) -> None:
    """Null keys and null values (tombstones) stay null."""
    topics.create("left", 2)
    topics.create("right", 2)
    rows = [
        ("left", 1, b"k1", b"v1", [("b", b"1"), ("a", None), ("b", b"2")]),
        ("left", 0, None, b"v2", None),
        ("right", 1, b"k3", None, None),
    ]
    header = "struct<key:string,value:binary>"
    schema = f"topic string, partition int, key binary, value binary, headers array<{header}>"
    kafka.write(kafka.spark.createDataFrame(rows, schema), includeHeaders="true")
    found = {
        (record.topic, record.partition, record.key, record.value)
        for topic in ("left", "right")
        for record in topics.consume(topic, 2)
    }
    assert found == {
        ("left", 1, b"k1", b"v1"), ("left", 0, None, b"v2"), ("right", 1, b"k3", None),
    }  # fmt: skip
    headed = next(record for record in topics.consume("left", 2) if record.value == b"v1")
    assert headed.headers == [("b", b"1"), ("a", None), ("b", b"2")]


def test_keys_decide_the_partition(kafka: Kafka, topics: Topics) -> None:
    topics.create("keyed", 4)
    rows = kafka.spark.range(200).selectExpr("cast(id % 20 as string) as key", "cast(id as string) as value")
    kafka.write(rows, "keyed")
    by_key: dict[bytes | None, set[int]] = {}
    for record in topics.consume("keyed", 4):
        by_key.setdefault(record.key, set()).add(record.partition)
    assert len(by_key) == 20
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert len(set.union(*by_key.values())) > 1


def test_without_idempotence_and_without_acknowledgement(kafka: Kafka, topics: Topics) -> None:
    topics.create("unconfirmed")
    topics.produce("unconfirmed", ["first"])  # confirmed: who knows the topic leads it, too
    options = {"kafka.acks": "0", "kafka.enable.idempotence": "false"}
    kafka.write(numbered(kafka, 100), "unconfirmed", **options)
    wait_until(lambda: topics.end_offsets("unconfirmed", 1)[0] >= 101, "what was sent has come")
    assert values(topics, "unconfirmed") == sorted([*map(str, range(100)), "first"])


def test_a_missing_topic_is_created(kafka: Kafka, topics: Topics) -> None:
    """The producer asks for it by Metadata, and the broker creates topics on demand by default."""
    assert "made-by-spark" not in topics.names()
    kafka.write(numbered(kafka, 10), "made-by-spark")
    assert values(topics, "made-by-spark") == sorted(map(str, range(10)))


def test_big_records_need_consent_on_both_sides(kafka: Kafka, topics: Topics) -> None:
    topics.create("big", 1, {"max.message.bytes": str(5 << 20)})
    rows = kafka.spark.range(1).selectExpr("repeat('x', 3000000) as value")
    with pytest.raises(Py4JJavaError, match="RecordTooLargeException"):
        kafka.write(rows, "big")
    kafka.write(rows, "big", **{"kafka.max.request.size": str(5 << 20)})
    read = kafka.read("big").select(functions.length("value").alias("bytes"))
    assert [row.bytes for row in read.collect()] == [3_000_000]


def test_the_broker_refuses_what_the_topic_forbids(kafka: Kafka, topics: Topics) -> None:
    topics.create("small", 1, {"max.message.bytes": "20000"})
    rows = kafka.spark.range(1).selectExpr("repeat('x', 50000) as value")
    with pytest.raises(Py4JJavaError, match="RecordTooLargeException"):
        kafka.write(rows, "small")
    assert topics.end_offsets("small", 1) == {0: 0}


def test_topic_to_topic_and_again(kafka: Kafka, topics: Topics) -> None:
    topics.create("from", 2)
    topics.create("to", 2)

    def run() -> None:
        writer = kafka.write_stream(kafka.stream("from", **EARLIEST).select("key", "value"), "to", "copy")
        finished(writer.trigger(availableNow=True).start())

    topics.fill("from", 50, partitions=2)
    run()
    assert len(topics.consume("to", 2)) == 100
    topics.fill("from", 25, partitions=2, start=50)
    run()
    assert values(topics, "to", 2) == sorted(f"{part}-{number}" for part in range(2) for number in range(75))


def test_a_crash_between_write_and_commit_repeats_the_batch(
    kafka: Kafka, topics: Topics, tmp_path: Path
) -> None:
    """Spark's sink promises at least once."""
    topics.create("before")
    topics.create("after")

    def run() -> None:
        writer = kafka.write_stream(kafka.stream("before", **EARLIEST).select("value"), "after", "crash")
        finished(writer.trigger(availableNow=True).start())

    topics.produce("before", map(str, range(100)))
    run()
    topics.produce("before", map(str, range(100, 150)))
    run()
    commits = tmp_path / "checkpoints" / "crash" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    run()
    written = values(topics, "after")
    assert len(written) == 200
    assert sorted(set(written)) == sorted(map(str, range(150)))


def test_foreach_batch_may_write_to_kafka(kafka: Kafka, topics: Topics) -> None:
    topics.create("each-in")
    topics.create("each-out")
    topics.produce("each-in", map(str, range(150)))

    def write(rows: DataFrame, batch_id: int) -> None:
        stamped = rows.selectExpr(f"concat('{batch_id}:', cast(value as string)) as value")
        kafka.write(stamped, "each-out")

    rows = kafka.stream("each-in", maxOffsetsPerTrigger=60, **EARLIEST)
    writer = rows.writeStream.foreachBatch(write).options(**kafka.checkpoint("each"))
    finished(writer.trigger(availableNow=True).start())
    assert values(topics, "each-out") == sorted(f"{number // 60}:{number}" for number in range(150))


def test_windows_are_counted_from_topic_to_topic(kafka: Kafka, topics: Topics) -> None:
    """Ten-second windows over a minute of events; a late one beyond the watermark counts no more."""
    topics.create("events")
    topics.create("counts")

    def event(second: int) -> str:
        return json.dumps({"at": T0 + second})

    def run() -> None:
        events = kafka.stream("events", **EARLIEST).selectExpr(
            "timestamp_seconds(cast(get_json_object(cast(value as string), '$.at') as long)) as at"
        )
        windows = events.withWatermark("at", "20 seconds").groupBy(functions.window("at", "10 seconds"))
        rows = windows.count().selectExpr(
            "cast(unix_timestamp(window.start) as string) as key", "cast(count as string) as value"
        )
        writer = kafka.write_stream(rows, "counts", "windows").outputMode("update")
        finished(writer.trigger(availableNow=True).start())

    topics.produce("events", [event(second) for second in range(60)])
    run()
    topics.produce("events", [event(1), event(59), event(65)])
    run()
    found = [(int(record.key or b"") - T0, int(record.text)) for record in topics.consume("counts")]
    assert sorted(found[:6]) == [(start, 10) for start in range(0, 60, 10)]
    assert sorted(found[6:]) == [(50, 11), (60, 1)]


def test_duplicates_are_dropped_within_the_watermark(kafka: Kafka, topics: Topics) -> None:
    topics.create("repeated")
    for _ in range(3):
        for number in range(7):
            topics.produce("repeated", [f"row {number}"], key=str(number))
    batches = Batches()
    rows = kafka.stream("repeated", maxOffsetsPerTrigger=10, **EARLIEST)
    single = rows.withWatermark("timestamp", "10 minutes").dropDuplicatesWithinWatermark(["key"])
    batches.run(single, **kafka.checkpoint("repeated"))
    assert sorted(row.key for row in batches.rows) == [str(number).encode() for number in range(7)]


def test_writing_goes_on_after_the_brokers_restart(
    spark: Any, new_broker: Callable[..., AnyBroker], tmp_path: Path
) -> None:
    """Spark keeps its producer between batches, with its id and its sequence numbers."""
    broker = new_broker()
    topics = Topics(broker.bootstrap_servers)
    topics.create("written")
    kafka = Kafka(spark, broker.bootstrap_servers, tmp_path)
    kafka.write(numbered(kafka, 100), "written")
    broker.stop()
    broker.start()
    kafka.write(numbered(kafka, 100), "written")
    assert values(topics, "written") == sorted(2 * [str(number) for number in range(100)])
