"""Spark reads topics as streams: what each micro-batch takes, what a checkpoint keeps, what ends a stream."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.conftest import AnyBroker
from tests.support.clients.topics import Topics
from tests.support.genuine.spark_session import Batches, Kafka, finished, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.java]

EARLIEST = {"startingOffsets": "earliest"}


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def end_offsets(query: Any) -> dict[str, Any]:
    """The offsets after a query's last batch, by topic and partition."""
    found: dict[str, Any] = json.loads(query.lastProgress["sources"][0]["endOffset"])
    return found


def test_a_checkpoint_remembers_where_to_go_on(kafka: Kafka, topics: Topics, tmp_path: Path) -> None:
    topics.create("resumed", 3)
    archive = str(tmp_path / "archive")

    def run() -> None:
        rows = kafka.stream("resumed", **EARLIEST)
        writer = rows.writeStream.format("parquet").options(path=archive, **kafka.checkpoint("resumed"))
        finished(writer.trigger(availableNow=True).start())

    topics.fill("resumed", 100, partitions=3)
    run()
    assert kafka.spark.read.parquet(archive).count() == 300
    topics.fill("resumed", 10, partitions=3, start=100)
    run()
    run()
    kept = kafka.spark.read.parquet(archive)
    assert kept.count() == 330
    assert kept.select("partition", "offset").distinct().count() == 330


def test_max_offsets_per_trigger_is_shared_among_partitions(kafka: Kafka, topics: Topics) -> None:
    """A hundred among three equal partitions are 33 each."""
    topics.create("shared", 3)
    topics.fill("shared", 110, partitions=3)
    batches = Batches()
    query = batches.run(kafka.stream("shared", maxOffsetsPerTrigger=100, **EARLIEST), **kafka.checkpoint("s"))
    assert batches.sizes == [99, 99, 99, 33]
    assert end_offsets(query) == {"shared": {"0": 110, "1": 110, "2": 110}}
    assert len(set(batches.values)) == 330


def test_a_running_stream_takes_its_limit_each_time(kafka: Kafka, topics: Topics) -> None:
    topics.create("limited", 2)
    topics.fill("limited", 100, partitions=2)
    batches = Batches()
    query = batches.start(
        kafka.stream("limited", maxOffsetsPerTrigger=50, **EARLIEST), **kafka.checkpoint("l")
    )
    batches.wait_for_rows(query, 200)
    query.stop()
    assert batches.sizes == [50, 50, 50, 50]


def test_a_stream_begins_at_the_end_unless_told_otherwise(kafka: Kafka, topics: Topics) -> None:
    topics.create("latest")
    topics.produce("latest", numbers(7))
    batches = Batches()
    query = (
        kafka.stream("latest")
        .writeStream.foreachBatch(batches)
        .options(**kafka.checkpoint("latest"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    wait_until(lambda: query.lastProgress is not None, "the first look at the topic")
    topics.produce("latest", numbers(10, start=7))
    batches.wait_for_rows(query, 10)
    wait_until(lambda: json.loads(_with_rows(query)[-1]["endOffset"]) == {"latest": {"0": 17}}, "the end")
    sources = _with_rows(query)
    query.stop()
    assert batches.values == sorted(numbers(10, start=7))
    assert json.loads(sources[0]["startOffset"]) == {"latest": {"0": 7}}
    assert json.loads(sources[-1]["latestOffset"]) == {"latest": {"0": 17}}
    assert {name: float(value) for name, value in sources[-1]["metrics"].items()} == {
        "minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 0, "avgOffsetsBehindLatest": 0,
    }  # fmt: skip


def _with_rows(query: Any) -> list[Any]:
    """What the progress of batches that held rows says of the source; one that says nothing to begin with."""
    reports = [each["sources"][0] for each in query.recentProgress if each["numInputRows"]]
    return reports or [{"endOffset": "null"}]


def _began(query: Any) -> list[str]:
    """When Spark began to plan the batches that held rows."""
    return [each["timestamp"] for each in query.recentProgress if each["numInputRows"]]


def test_few_rows_wait_for_company_but_not_for_ever(kafka: Kafka, topics: Topics) -> None:
    topics.create("few")
    batches = Batches()
    options = {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "12s"}
    topics.produce("few", numbers(1))
    rows = kafka.stream("few", **options, **EARLIEST)
    query = batches.start(rows, **kafka.checkpoint("few"))
    batches.wait_for_rows(query, 1)  # the first batch waits for nobody
    topics.produce("few", numbers(4, start=1))
    time.sleep(1)  # long enough for a batch of four, if four were enough
    topics.produce("few", numbers(5, start=5))
    batches.wait_for_rows(query, 10)
    wait_until(lambda: len(_with_rows(query)) == len(batches.sizes), "the progress of the last batch")
    query.stop()
    assert batches.sizes == [1, 9]
    first, second = (datetime.fromisoformat(each) for each in _began(query))
    assert second - first > timedelta(seconds=10), "the longest wait begins with the first batch"


@pytest.mark.parametrize(("option", "tasks"), [("minPartitions=6", 6), ("maxRecordsPerPartition=25", 8)])
def test_a_micro_batch_can_be_split_further(kafka: Kafka, topics: Topics, option: str, tasks: int) -> None:
    name, _, value = option.partition("=")
    topic = topics.create(f"split-{name}", 2)
    topics.fill(topic, 100, partitions=2)
    batches = Batches()
    batches.run(kafka.stream(topic, **{name: value}, **EARLIEST), **kafka.checkpoint("split"))
    assert batches.tasks_by_batch == {0: tasks}
    assert len(batches.rows) == len(set(batches.values)) == 200


def test_headers_come_with_streams_too(kafka: Kafka, topics: Topics) -> None:
    topics.create("headed")
    topics.produce("headed", ["row"], headers=[("b", b"1"), ("a", None), ("b", b"2")])
    batches = Batches()
    batches.run(kafka.stream("headed", includeHeaders="true", **EARLIEST), **kafka.checkpoint("headed"))
    assert [tuple(header) for header in batches.rows[0].headers] == [("b", b"1"), ("a", None), ("b", b"2")]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_pattern_finds_topics_that_are_born_later(kafka: Kafka, topics: Topics, start: str) -> None:
    """They are read from their start, even by a stream that began at the end."""
    first, second, third = (f"born-{start}-{number}" for number in (1, 2, 3))
    topics.create(first)
    topics.produce(first, numbers(5))

    def give_birth() -> None:
        for topic in (second, third):
            topics.create(topic, 2)
            topics.fill(topic, 10, partitions=2)

    batches = Batches(give_birth)
    rows = kafka.stream(subscribePattern=f"^born-{start}-[0-9]$", startingOffsets=start)
    query = batches.start(rows, **kafka.checkpoint(start))
    if start == "latest":
        wait_until(lambda: query.lastProgress is not None, "the first look at the topics")
        topics.produce(first, numbers(5))
    batches.wait_for_rows(query, 45)
    query.stop()
    found = [(row.topic, row.partition, row.offset) for row in batches.rows if row.topic != first]
    assert sorted(found) == sorted(
        (topic, partition, offset)
        for topic in (second, third)
        for partition in range(2)
        for offset in range(10)
    )


def test_new_partitions_are_found_while_running(kafka: Kafka, topics: Topics) -> None:
    """The topic comes back with three partitions; the two new ones are read from their start."""
    topics.create("grows", 1)
    topics.produce("grows", numbers(20))

    def grow() -> None:
        topics.recreate("grows", 3)
        topics.produce("grows", numbers(20))
        topics.fill("grows", 10, partitions=3, start=100)

    batches = Batches(grow)
    query = batches.start(kafka.stream("grows", **EARLIEST), **kafka.checkpoint("grows"))
    batches.wait_for_rows(query, 50)
    query.stop()
    assert batches.sizes[0] == 20
    found = sorted((row.partition, row.offset) for row in batches.rows[20:])
    assert found == (
        [(0, offset) for offset in range(20, 30)]
        + [(1, offset) for offset in range(10)]
        + [(2, offset) for offset in range(10)]
    )


def test_a_topic_can_join_under_the_same_checkpoint(kafka: Kafka, topics: Topics) -> None:
    topics.create("member")
    topics.produce("member", numbers(20))
    first = Batches()
    first.run(kafka.stream("member", **EARLIEST), **kafka.checkpoint("joined"))
    topics.create("newcomer")
    topics.produce("newcomer", numbers(5, start=20))
    second = Batches()
    second.run(kafka.stream("member,newcomer", **EARLIEST), **kafka.checkpoint("joined"))
    assert first.values == sorted(numbers(20))
    assert second.values == sorted(numbers(5, start=20))


def test_a_pattern_topic_that_was_deleted(kafka: Kafka, topics: Topics) -> None:
    for topic in ("going-1", "going-2"):
        topics.create(topic)
        topics.produce(topic, numbers(10))
    pattern = {"subscribePattern": "^going-[12]$", **EARLIEST}
    Batches().run(kafka.stream(**pattern), **kafka.checkpoint("going"))
    topics.delete("going-2")
    topics.produce("going-1", numbers(5, start=10))
    with pytest.raises(StreamingQueryException, match="have been deleted"):
        Batches().run(kafka.stream(**pattern), **kafka.checkpoint("going"))
    tolerant = Batches()
    query = tolerant.run(kafka.stream(failOnDataLoss="false", **pattern), **kafka.checkpoint("going"))
    assert tolerant.values == sorted(numbers(5, start=10))
    assert end_offsets(query) == {"going-1": {"0": 15}}


def test_a_topic_recreated_smaller_is_a_loss_of_data(kafka: Kafka, topics: Topics) -> None:
    """Told to go on, Spark goes on from the new end: the ten new rows are skipped."""
    topics.create("smaller")
    topics.produce("smaller", numbers(50))
    Batches().run(kafka.stream("smaller", **EARLIEST), **kafka.checkpoint("smaller"))
    topics.recreate("smaller")
    topics.produce("smaller", numbers(10))
    with pytest.raises(StreamingQueryException, match="offset was changed from 50 to 10"):
        Batches().run(kafka.stream("smaller", **EARLIEST), **kafka.checkpoint("smaller"))
    tolerant = Batches()
    tolerant.run(kafka.stream("smaller", failOnDataLoss="false", **EARLIEST), **kafka.checkpoint("smaller"))
    assert tolerant.rows == []
    topics.produce("smaller", ["after"])
    tolerant.run(kafka.stream("smaller", failOnDataLoss="false", **EARLIEST), **kafka.checkpoint("smaller"))
    assert tolerant.values == ["after"]


def test_a_topic_recreated_larger_goes_unnoticed(kafka: Kafka, topics: Topics) -> None:
    """Spark remembers offsets, not topic ids: the first fifty rows of the new topic are never read."""
    topics.create("larger")
    topics.produce("larger", numbers(50))
    Batches().run(kafka.stream("larger", **EARLIEST), **kafka.checkpoint("larger"))
    topics.recreate("larger")
    topics.produce("larger", numbers(80, start=1000))
    batches = Batches()
    batches.run(kafka.stream("larger", **EARLIEST), **kafka.checkpoint("larger"))
    assert batches.values == numbers(30, start=1050)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_vanishes_ends_its_stream(kafka: Kafka, topics: Topics, fail: str) -> None:
    topic = topics.create(f"vanishes-{fail}")
    topics.produce(topic, numbers(20))
    batches = Batches(lambda: topics.delete(topic))
    query = batches.start(kafka.stream(topic, failOnDataLoss=fail, **EARLIEST), **kafka.checkpoint(fail))
    with pytest.raises(StreamingQueryException, match="UnknownTopicOrPartition"):
        finished(query)
    assert batches.sizes == [20]
    assert topic not in topics.names()


def test_a_topic_emptied_while_running_can_be_survived(kafka: Kafka, topics: Topics) -> None:
    """Spark has to see the shrunken end before new rows come."""
    topics.create("emptied")
    topics.produce("emptied", numbers(20))
    batches = Batches(lambda: topics.recreate("emptied"))
    rows = kafka.stream("emptied", failOnDataLoss="false", **EARLIEST)
    query = batches.start(rows, **kafka.checkpoint("emptied"))
    batches.wait_for_rows(query, 20)
    wait_until(lambda: _latest(query) == {"emptied": {"0": 0}}, "Spark sees the empty topic")
    topics.produce("emptied", numbers(30, start=100))
    batches.wait_for_rows(query, 50)
    query.stop()
    assert batches.values == sorted(numbers(20) + numbers(30, start=100))


def _latest(query: Any) -> Any:
    progress = query.lastProgress
    return progress and json.loads(progress["sources"][0]["latestOffset"] or "null")


def test_starting_offsets_past_the_end_fail(kafka: Kafka, topics: Topics) -> None:
    topics.create("short")
    topics.produce("short", numbers(100))
    starting = json.dumps({"short": {"0": 500}})
    with pytest.raises(StreamingQueryException, match="offset was changed from 500 to 100"):
        Batches().run(kafka.stream("short", startingOffsets=starting), **kafka.checkpoint("short"))


def test_starting_offsets_name_each_partition(kafka: Kafka, topics: Topics) -> None:
    topics.create("partial", 2)
    starting = json.dumps({"partial": {"0": 0}})
    with pytest.raises(StreamingQueryException, match=r"must\s+specify all TopicPartitions"):
        Batches().run(kafka.stream("partial", startingOffsets=starting), **kafka.checkpoint("partial"))


def test_trigger_once_knows_no_limit(kafka: Kafka, topics: Topics) -> None:
    topics.create("once")
    topics.produce("once", numbers(150))
    batches = Batches()
    rows = kafka.stream("once", maxOffsetsPerTrigger=10, **EARLIEST)
    writer = rows.writeStream.foreachBatch(batches).options(**kafka.checkpoint("once"))
    finished(writer.trigger(once=True).start())
    assert batches.sizes == [150]


def test_the_older_way_to_ask_for_offsets_joins_a_group(kafka: Kafka, topics: Topics) -> None:
    """It is the one case in which Spark uses the group APIs; its patterns match whole names."""
    for topic in ("older", "much-older"):
        topics.create(topic)
        topics.produce(topic, numbers(10))
    deprecated = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    kafka.spark.conf.set(deprecated, "true")
    try:
        batches = Batches()
        batches.run(kafka.stream(subscribePattern="older", **EARLIEST), **kafka.checkpoint("older"))
    finally:
        kafka.spark.conf.unset(deprecated)
    assert [(row.topic, row.offset) for row in batches.rows] == [("older", offset) for offset in range(10)]


def test_continuous_processing(kafka: Kafka, topics: Topics) -> None:
    """A core for each partition: two of the session's three."""
    topics.create("continuous", 2)
    topics.create("continuous-out")
    topics.fill("continuous", 20, partitions=2)
    rows = kafka.stream("continuous", **EARLIEST).select("value")
    writer = kafka.write_stream(rows, "continuous-out", "continuous").trigger(continuous="500 milliseconds")
    query = writer.start()
    wait_until(lambda: topics.end_offsets("continuous-out", 1)[0] >= 40, "forty rows on the other side")
    topics.fill("continuous", 5, partitions=2, start=20)
    wait_until(lambda: topics.end_offsets("continuous-out", 1)[0] >= 50, "ten more")
    query.stop()
    values = sorted(record.text for record in topics.consume("continuous-out"))
    assert values == sorted(f"{partition}-{number}" for partition in range(2) for number in range(25))


def test_a_stream_outlives_the_brokers_restart(
    spark: Any, new_broker: Callable[..., AnyBroker], tmp_path: Path
) -> None:
    """Between two micro-batches the broker stops and comes back on its directory."""
    broker = new_broker()
    topics = Topics(broker.bootstrap_servers)
    topics.create("outlived", 2)
    topics.fill("outlived", 40, partitions=2)
    kafka = Kafka(spark, broker.bootstrap_servers, tmp_path)
    back = threading.Event()

    def restart() -> None:
        broker.stop()
        broker.start()
        back.set()

    batches = Batches(restart)
    rows = kafka.stream("outlived", maxOffsetsPerTrigger=40, **EARLIEST)
    query = batches.start(rows, **kafka.checkpoint("outlived"))
    assert back.wait(180)
    topics.fill("outlived", 10, partitions=2, start=40)
    batches.wait_for_rows(query, 100)
    query.stop()
    assert batches.values == sorted(f"{part}-{number}" for part in range(2) for number in range(50))
