"""A local Spark that speaks to brokers, and the little that all its tests say to it.

One session serves a whole test run: starting one takes seven seconds, a query
on a running one a few tenths.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from tests.support.genuine.spark_jars import SparkLine

WAIT_SECONDS: Final = 90
LOG4J_CONFIG: Final = Path(__file__).parents[1] / "spark" / "log4j2.properties"
# A test's JVM lives for minutes: the second compiler would cost more than it brings.
JAVA_OPTIONS: Final = f"-Dlog4j2.configurationFile={LOG4J_CONFIG} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def session_settings(line: SparkLine, scratch: Path) -> dict[str, str]:
    """What keeps a local session small, quiet and on this machine."""
    return {
        "spark.jars": ",".join(str(jar) for jar in line.jars()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
    }


def start_session(line: SparkLine, scratch: Path, cores: int) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName("barnabas-tests")
    for name, value in session_settings(line, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Kafka:
    """Spark's Kafka source and sink, tied to one broker. Options are Spark's own names."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, scratch: Path) -> None:
        self.spark = spark
        self.scratch = scratch
        self.bootstrap: Mapping[str, str] = {"kafka.bootstrap.servers": bootstrap_servers}

    def read(self, topic: str | None = None, **options: Any) -> DataFrame:
        """A batch; ``topic`` stands for ``subscribe``. ``_`` in a name stands for a dot."""
        return self.spark.read.format("kafka").options(**self._options(topic, options)).load()

    def stream(self, topic: str | None = None, **options: Any) -> DataFrame:
        reader: DataStreamReader = self.spark.readStream.format("kafka")
        return reader.options(**self._options(topic, options)).load()

    def write(self, rows: DataFrame, topic: str | None = None, **options: Any) -> None:
        named = self._options(None, options) | ({"topic": topic} if topic else {})
        rows.write.format("kafka").options(**named).save()

    def write_stream(self, rows: DataFrame, topic: str, checkpoint: str, **options: Any) -> DataStreamWriter:
        named = self._options(None, options) | {"topic": topic, **self.checkpoint(checkpoint)}
        return rows.writeStream.format("kafka").options(**named)

    def checkpoint(self, name: str) -> dict[str, str]:
        return {"checkpointLocation": str(self.scratch / "checkpoints" / name)}

    def _options(self, topic: str | None, options: Mapping[str, Any]) -> dict[str, str]:
        named = {_option_name(name): str(value) for name, value in options.items()}
        return {**self.bootstrap, **({"subscribe": topic} if topic else {}), **named}


def _option_name(name: str) -> str:
    return name.replace("_", ".") if name.startswith("kafka_") else name


class Batches:
    """A stream's micro-batches, kept as lists of rows by batch id.

    ``after_first`` is called once, after the first batch that held rows and before
    Spark looks for the next one: what a test changes there happens "while the
    stream is running", at a moment that is always the same.
    """

    def __init__(self, after_first: Callable[[], object] | None = None) -> None:
        self._after_first = after_first
        self._turned = threading.Condition()
        self.rows_by_batch: dict[int, list[Row]] = {}
        self.tasks_by_batch: dict[int, int] = {}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        kept = rows.collect()
        self.tasks_by_batch[batch_id] = rows.rdd.getNumPartitions()
        with self._turned:
            self.rows_by_batch[batch_id] = kept
            self._turned.notify_all()
        if kept and self._after_first is not None:
            call, self._after_first = self._after_first, None
            call()

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in sorted(self.rows_by_batch.items()) for row in rows]

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in sorted(self.rows_by_batch.items())]

    @property
    def values(self) -> list[str]:
        return sorted(row.value.decode() for row in self.rows)

    def start(self, rows: DataFrame, **options: str) -> StreamingQuery:
        return rows.writeStream.foreachBatch(self).options(**options).start()

    def run(self, rows: DataFrame, **options: str) -> StreamingQuery:
        """All that is there now, to the end."""
        writer = rows.writeStream.foreachBatch(self).options(**options)
        return finished(writer.trigger(availableNow=True).start())

    def wait_for_rows(self, query: StreamingQuery, count: int) -> None:
        """Until so many rows came; the query's own error if it ends before."""
        deadline = time.monotonic() + WAIT_SECONDS
        with self._turned:
            while sum(self.sizes) < count:
                if not query.isActive:
                    query.awaitTermination()
                    raise AssertionError(f"the query ended after {self.sizes} rows")
                if time.monotonic() > deadline:
                    raise AssertionError(f"{count} rows were expected, {self.sizes} came")
                self._turned.wait(0.1)


def finished(query: StreamingQuery) -> StreamingQuery:
    """Waits for the query's end and raises its error, if it has one."""
    if not query.awaitTermination(WAIT_SECONDS):
        query.stop()
        raise AssertionError(f"the query did not end: {query.status}")
    return query


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {WAIT_SECONDS} s: {what}")
        time.sleep(0.05)
