"""Topics that grow and are cut while Spark reads them."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from tests.support.clients.topics import Topics
from tests.support.genuine.spark_session import Batches, Kafka

pytestmark = [pytest.mark.spark, pytest.mark.java]

EARLIEST = {"startingOffsets": "earliest"}


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def delete_before(topics: Topics, topic: str, offset: int) -> None:
    target = TopicPartition(topic, 0, offset)
    topics.admin.delete_records([target])[target].result(30)


def test_partitions_added_while_running(kafka: Kafka, topics: Topics) -> None:
    topics.create("added")
    topics.produce("added", numbers(20))

    def grow() -> None:
        topics.admin.create_partitions([NewPartitions("added", 3)])["added"].result(30)
        topics.await_partitions("added", 3)
        for partition in (1, 2):
            topics.produce("added", numbers(10), partition=partition)

    batches = Batches(grow)
    query = batches.start(kafka.stream("added", **EARLIEST), **kafka.checkpoint("added"))
    batches.wait_for_rows(query, 40)
    query.stop()
    assert batches.sizes[0] == 20
    found = sorted((row.partition, row.offset) for row in batches.rows[20:])
    assert found == [(partition, offset) for partition in (1, 2) for offset in range(10)]


def test_deleted_records_end_a_stream_unless_tolerated(kafka: Kafka, topics: Topics) -> None:
    topics.create("cut")
    topics.produce("cut", numbers(100))
    Batches().run(kafka.stream("cut", **EARLIEST), **kafka.checkpoint("cut"))
    topics.produce("cut", numbers(100, start=100))
    delete_before(topics, "cut", 150)
    with pytest.raises(StreamingQueryException, match=r"Could not read records in offset \[100, 200\)"):
        Batches().run(kafka.stream("cut", **EARLIEST), **kafka.checkpoint("cut"))
    tolerant = Batches()
    tolerant.run(kafka.stream("cut", failOnDataLoss="false", **EARLIEST), **kafka.checkpoint("cut"))
    assert tolerant.values == sorted(numbers(50, start=150))


def test_a_batch_from_below_the_start_fails_unless_tolerated(kafka: Kafka, topics: Topics) -> None:
    topics.create("below")
    topics.produce("below", numbers(100))
    delete_before(topics, "below", 40)
    starting = json.dumps({"below": {"0": 10}})
    with pytest.raises(Py4JJavaError, match=r"Could not read records|Cannot fetch"):
        kafka.read("below", startingOffsets=starting).collect()
    rows = kafka.read("below", startingOffsets=starting, failOnDataLoss="false").collect()
    assert sorted(row.offset for row in rows) == list(range(40, 100))
