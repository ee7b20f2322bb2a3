"""The newest Spark: a batch, a stream with a checkpoint, and the real-time trigger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.topics import Topics
from tests.support.genuine.spark_session import Kafka, finished, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.java]

EARLIEST = {"startingOffsets": "earliest"}


def test_a_batch_is_all_there_is(kafka: Kafka, topics: Topics) -> None:
    topics.create("three", 3)
    topics.fill("three", 100, partitions=3)
    rows = kafka.read("three")
    assert rows.count() == rows.select("partition", "offset").distinct().count() == 300


def test_a_checkpoint_remembers_where_to_go_on(kafka: Kafka, topics: Topics, tmp_path: Path) -> None:
    """Streams show whether connector and PySpark fit together; a batch does not."""
    topics.create("resumed", 3)
    archive = str(tmp_path / "archive")
    for start, count in ((0, 100), (100, 10)):
        topics.fill("resumed", count, partitions=3, start=start)
        rows = kafka.stream("resumed", **EARLIEST)
        writer = rows.writeStream.format("parquet").options(path=archive, **kafka.checkpoint("resumed"))
        finished(writer.trigger(availableNow=True).start())
    kept = kafka.spark.read.parquet(archive)
    assert kept.count() == kept.select("partition", "offset").distinct().count() == 330


def test_real_time_copies_each_row_once(kafka: Kafka, topics: Topics) -> None:
    """Rows arrive within the batch that is running; its end, after five seconds, is the checkpoint."""
    topics.create("now-in", 2)
    topics.create("now-out", 2)
    topics.fill("now-in", 50, partitions=2)
    trigger: dict[str, Any] = {"realTime": "5 seconds"}

    def await_copies(count: int) -> None:
        wait_until(lambda: sum(topics.end_offsets("now-out", 2).values()) >= count, f"{count} copies")

    rows = kafka.stream("now-in", **EARLIEST).select("key", "value", "partition")
    writer = kafka.write_stream(rows, "now-out", "now").outputMode("update")
    query = writer.trigger(**trigger).start()
    for start in range(50, 150, 20):
        topics.fill("now-in", 20, partitions=2, start=start)
        await_copies(2 * (start + 20))
    wait_until(lambda: (query.lastProgress or {"batchId": -1})["batchId"] >= 1, "two batches that have ended")
    query.stop()
    values = sorted(record.text for record in topics.consume("now-out", 2))
    assert values == sorted(f"{partition}-{number}" for partition in range(2) for number in range(150))
