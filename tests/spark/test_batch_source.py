"""Spark reads topics as tables: which rows a batch holds, by offsets, by timestamps and by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, functions

from tests.conftest import AnyBroker
from tests.support.clients.topics import Topics
from tests.support.genuine.spark_session import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.java]

T0 = 1_700_000_000_000
FOREVER = {"retention.ms": "-1"}


def offsets(topic: str, by_partition: dict[int, int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in by_partition.items()}})


@pytest.fixture(scope="module")
def three(topics: Topics) -> str:
    """Three partitions with a hundred rows each."""
    topics.create("three", 3)
    topics.fill("three", 100, partitions=3)
    return "three"


@pytest.fixture(scope="module")
def timed(topics: Topics) -> str:
    """Two partitions with a row for each millisecond of half a second, which began at T0."""
    topics.create("timed", 2, FOREVER)
    for partition in range(2):
        values = [f"{partition}-{number}" for number in range(500)]
        topics.produce("timed", values, partition=partition, timestamp_ms=T0, step_ms=1)
    return "timed"


def test_each_row_tells_where_it_was(kafka: Kafka, topics: Topics) -> None:
    topics.create("whole", 2, FOREVER)
    topics.produce("whole", ["a"], key="k", timestamp_ms=T0 + 1)
    topics.produce("whole", [None], partition=1, key=b"\x00\xff", timestamp_ms=T0 + 2)
    rows = kafka.read("whole").orderBy("partition").withColumn("ms", functions.unix_millis("timestamp"))
    assert rows.drop("timestamp").collect() == [
        Row(key=b"k", value=b"a", topic="whole", partition=0, offset=0, timestampType=0, ms=T0 + 1),
        Row(key=b"\x00\xff", value=None, topic="whole", partition=1, offset=0, timestampType=0, ms=T0 + 2),
    ]


def test_a_batch_is_all_there_is(kafka: Kafka, three: str) -> None:
    rows = kafka.read(three)
    assert rows.count() == 300
    assert rows.select("partition", "offset").distinct().count() == 300
    per_partition = (
        rows.groupBy("partition").agg(functions.min("offset"), functions.max("offset")).orderBy("partition")
    )
    assert [tuple(row) for row in per_partition.collect()] == [(0, 0, 99), (1, 0, 99), (2, 0, 99)]


def test_assigned_partitions_alone_are_read(kafka: Kafka, three: str) -> None:
    rows = kafka.read(assign=json.dumps({three: [0, 2]}))
    assert rows.count() == 200
    assert sorted(row.partition for row in rows.select("partition").distinct().collect()) == [0, 2]


def test_offsets_bound_a_batch(kafka: Kafka, three: str) -> None:
    """-2 is the earliest offset, -1 the latest; the end is exclusive."""
    rows = kafka.read(
        three,
        startingOffsets=offsets(three, {0: 10, 1: -2, 2: 5}),
        endingOffsets=offsets(three, {0: 20, 1: -1, 2: 6}),
    )
    counts = rows.groupBy("partition").agg(functions.min("offset"), functions.count("*")).orderBy("partition")
    assert [tuple(row) for row in counts.collect()] == [(0, 10, 10), (1, 0, 100), (2, 5, 1)]


def test_timestamps_bound_a_batch(kafka: Kafka, timed: str) -> None:
    rows = kafka.read(timed, startingTimestamp=T0 + 100, endingTimestamp=T0 + 150)
    counts = rows.groupBy("partition").agg(
        functions.min("offset"), functions.max("offset"), functions.count("*")
    )
    assert sorted(tuple(row) for row in counts.collect()) == [(0, 100, 149, 50), (1, 100, 149, 50)]


def test_timestamps_bound_each_partition_by_itself(kafka: Kafka, timed: str) -> None:
    rows = kafka.read(
        timed,
        startingOffsetsByTimestamp=offsets(timed, {0: T0 + 10, 1: T0 + 490}),
        endingOffsetsByTimestamp=offsets(timed, {0: T0 + 20, 1: T0 + 495}),
    )
    counts = rows.groupBy("partition").agg(functions.min("offset"), functions.max("offset"))
    assert sorted(tuple(row) for row in counts.collect()) == [(0, 10, 19), (1, 490, 494)]


def test_a_timestamp_wins_over_offsets(kafka: Kafka, timed: str) -> None:
    rows = kafka.read(timed, startingTimestamp=T0 + 480, startingOffsets="earliest")
    assert rows.count() == 40


def test_a_timestamp_past_the_end_is_an_error(kafka: Kafka, timed: str) -> None:
    with pytest.raises(PySparkException, match="No offset matched"):
        kafka.read(timed, startingTimestamp=T0 + 10_000).count()


def test_a_timestamp_past_the_end_may_mean_the_end(kafka: Kafka, timed: str) -> None:
    late = {"startingTimestamp": T0 + 10_000, "startingOffsetsByTimestampStrategy": "latest"}
    assert kafka.read(timed, **late).count() == 0


def test_min_partitions_splits_offset_ranges(kafka: Kafka, three: str) -> None:
    """It is a hint: seven over three partitions of equal size come out as six."""
    rows = kafka.read(three, minPartitions=7)
    assert rows.rdd.getNumPartitions() == 6
    assert rows.select("partition", "offset").distinct().count() == 300


def test_max_records_per_partition_means_nothing_to_a_batch(kafka: Kafka, three: str) -> None:
    rows = kafka.read(three, maxRecordsPerPartition=40)
    assert rows.rdd.getNumPartitions() == 3
    assert rows.count() == 300


def test_headers_come_in_order_with_duplicates_and_nulls(kafka: Kafka, topics: Topics) -> None:
    topics.create("headed")
    topics.produce("headed", ["row"], headers=[("b", b"1"), ("a", None), ("b", b"\xff"), ("größe", b"")])
    topics.produce("headed", ["plain"])
    rows = kafka.read("headed", includeHeaders="true").orderBy("offset").collect()
    assert [tuple(header) for header in rows[0].headers] == [
        ("b", b"1"), ("a", None), ("b", b"\xff"), ("größe", b""),
    ]  # fmt: skip
    assert rows[1].headers is None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_java_compressed_comes_back(kafka: Kafka, topics: Topics, codec: str) -> None:
    topic = topics.create(f"codec-{codec}")
    rows = kafka.spark.range(200).selectExpr("cast(id as string) as value").coalesce(1)
    kafka.write(rows, topic, **{"kafka.compression.type": codec, "kafka.linger.ms": "50"})
    found = kafka.read(topic).selectExpr("cast(value as string) as value").collect()
    assert sorted(int(row.value) for row in found) == list(range(200))


def test_a_pattern_subscribes_to_what_it_matches(kafka: Kafka, topics: Topics) -> None:
    """Anchored: Spark finds a pattern anywhere in a topic's name."""
    for name in ("flight-1", "flight-2", "my-flight-3"):
        topics.create(name)
        topics.produce(name, [name])
    rows = kafka.read(subscribePattern="^flight-.*$")
    assert sorted(row.topic for row in rows.collect()) == ["flight-1", "flight-2"]
    assert kafka.read(subscribePattern="flight-").count() == 3


def test_an_unknown_topic_is_an_error_and_stays_unknown(kafka: Kafka, topics: Topics) -> None:
    with pytest.raises(Py4JJavaError, match="UnknownTopicOrPartitionException"):
        kafka.read("nobody-made-me").count()
    assert "nobody-made-me" not in topics.names()


def test_a_group_id_is_but_a_name(kafka: Kafka, topics: Topics, three: str) -> None:
    """Spark assigns partitions itself: no group is joined, nothing is committed."""
    assert kafka.read(three, **{"kafka.group.id": "archivists"}).count() == 300
    groups = topics.admin.list_consumer_groups().result(30)
    assert "archivists" not in [group.group_id for group in groups.valid]


def test_two_fetch_sizes_give_the_same_rows(kafka: Kafka, three: str) -> None:
    """Many small fetches: sessions, partial batches and the first batch that is larger than allowed."""
    small = {
        "kafka.fetch.max.bytes": "100",
        "kafka.max.partition.fetch.bytes": "50",
        "kafka.max.poll.records": "7",
    }
    assert kafka.read(three, **small).select("partition", "offset").distinct().count() == 300


def test_a_table_survives_the_brokers_restart(
    spark: Any, new_broker: Callable[..., AnyBroker], tmp_path: Any
) -> None:
    """Executors keep their consumers, and with them fetch sessions that the new broker does not know."""
    broker = new_broker()
    topics = Topics(broker.bootstrap_servers)
    topics.create("kept", 2)
    topics.fill("kept", 50, partitions=2)
    kafka = Kafka(spark, broker.bootstrap_servers, tmp_path)
    assert kafka.read("kept").count() == 100
    broker.stop()
    broker.start()
    topics.fill("kept", 10, partitions=2, start=50)
    values = sorted(row.value.decode() for row in kafka.read("kept").collect())
    assert values == sorted(f"{partition}-{number}" for partition in range(2) for number in range(60))
