"""The archive job: each record becomes a row of Parquet once, whatever ends a run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.archive import BatchProgress, parse_arguments, start_queries, watch
from tests.conftest import AnyBroker
from tests.support.clients.topics import Topics
from tests.support.genuine.spark_jars import PUBLISHED
from tests.support.genuine.spark_session import JAVA_OPTIONS

pytestmark = [pytest.mark.spark, pytest.mark.java]

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "spark_jobs" / "archive.py"
NOON_MS = 1_700_049_600_000  # 2023-11-15 12:00 UTC
DAY_MS = 86_400_000
FOREVER = {"retention.ms": "-1"}


class Archive:
    """Runs of the job in the tests' own session, always into the same archive."""

    def __init__(self, spark: SparkSession, broker: AnyBroker, output: Path) -> None:
        self._spark = spark
        self._fixed = ["--bootstrap-servers", broker.bootstrap_servers, "--output", str(output)]
        self.output = output

    def run(self, *arguments: str) -> tuple[dict[str, int], list[str]]:
        """Rows by query, and what was said."""
        said: list[str] = []
        progress = BatchProgress(said.append)
        settings = parse_arguments([*self._fixed, *arguments])
        watch(start_queries(self._spark, settings), progress, lambda: False)
        return progress.rows, said

    def table(self) -> DataFrame:
        return self._spark.read.parquet(str(self.output))

    def distinct(self) -> int:
        return self.table().select("topic", "partition", "offset").distinct().count()


@pytest.fixture
def archive(spark: SparkSession, broker: AnyBroker, tmp_path: Path) -> Iterator[Archive]:
    yield Archive(spark, broker, tmp_path / "archive")
    for query in spark.streams.active:
        query.stop()


def test_a_thousand_messages_are_archived_once(archive: Archive, topics: Topics) -> None:
    topics.create("flights", 2, FOREVER)
    topics.create("bookings", 1, FOREVER)
    for partition in range(2):
        values = [f"flight {partition}-{number}" for number in range(300)]
        topics.produce(
            "flights", values, partition=partition, key="k", timestamp_ms=NOON_MS, headers=[("h", b"1")]
        )
    later = [f"booking {number}" for number in range(400)]
    topics.produce("bookings", later, timestamp_ms=NOON_MS + DAY_MS)

    rows, said = archive.run("--topic", "flights", "--topic", "bookings")
    assert rows == {"archive": 1000}
    assert re.fullmatch(
        r"archive: batch 0: 1,000 rows in [\d,]+ ms, 1,000 in all, at most 0 behind in a partition", said[0]
    )
    assert len(said) == 1
    assert archive.run("--topic", "flights", "--topic", "bookings") == ({}, [])

    table = archive.table()
    assert table.columns == [
        "key", "value", "partition", "offset", "timestamp", "timestampType", "headers", "topic", "date",
    ]  # fmt: skip
    assert table.count() == archive.distinct() == 1000
    assert sorted(row.value.decode() for row in table.where("topic = 'bookings'").collect()) == sorted(later)
    one = table.where("topic = 'flights' AND partition = 1 AND offset = 7").collect()[0]
    assert (bytes(one.key), bytes(one.value)) == (b"k", b"flight 1-7")
    assert [tuple(header) for header in one.headers] == [("h", b"1")]
    folders = {str(file.parent.relative_to(archive.output)) for file in archive.output.rglob("*.parquet")}
    assert folders == {"topic=flights/date=2023-11-15", "topic=bookings/date=2023-11-16"}


def test_later_messages_and_topics_join_the_archive(archive: Archive, topics: Topics) -> None:
    """The pattern must match a whole name."""
    for topic in ("gate-1", "no-gate-1"):
        topics.create(topic)
        topics.produce(topic, [str(number) for number in range(90)])
    limited = ("--pattern", "gate-[0-9]", "--max-offsets-per-trigger", "40")
    rows, said = archive.run(*limited)
    assert rows == {"archive": 90}
    assert [line.split(" in ")[0] for line in said] == [
        "archive: batch 0: 40 rows", "archive: batch 1: 40 rows", "archive: batch 2: 10 rows",
    ]  # fmt: skip
    topics.create("gate-2")
    topics.produce("gate-2", ["new"] * 5)
    topics.produce("gate-1", ["more"] * 5)
    rows, _ = archive.run(*limited)
    assert rows == {"archive": 10}
    assert archive.table().count() == archive.distinct() == 100
    assert {row.topic for row in archive.table().select("topic").distinct().collect()} == {"gate-1", "gate-2"}


MIXED = [
    *(json.dumps({"id": number, "name": f"n{number}"}) for number in range(50)),
    "no JSON at all", '{"id": "seven"}', '{"id": 8, "name"', None,
]  # fmt: skip
SCHEMA = ("--schema", "id LONG, name STRING")


def test_what_does_not_fit_goes_to_the_dead_letters(archive: Archive, topics: Topics) -> None:
    topics.create("orders")
    topics.create("orders-dead")
    topics.produce("orders", MIXED, key="k", headers=[("trace", b"t")])
    call = ("--topic", "orders", *SCHEMA, "--dead-letter-topic", "orders-dead")
    assert archive.run(*call)[0] == {"archive": 51, "dead-letters": 3}
    assert archive.run(*call)[0] == {}

    table = archive.table()
    assert table.count() == archive.distinct() == 51
    assert table.where("data.name = concat('n', data.id)").count() == 50
    assert [row.offset for row in table.where("data IS NULL AND value IS NULL").collect()] == [53]
    letters = topics.consume("orders-dead")
    assert [letter.value for letter in letters] == [
        b"no JSON at all",
        b'{"id": "seven"}',
        b'{"id": 8, "name"',
    ]
    assert letters[0].key == b"k"
    assert letters[0].headers == [
        ("trace", b"t"), ("archive.source", b"orders-0-50"), ("archive.reason", b"not JSON of the schema"),
    ]  # fmt: skip


def test_without_a_place_for_dead_letters_they_stay(archive: Archive, topics: Topics) -> None:
    topics.create("kept")
    topics.produce("kept", MIXED)
    assert archive.run("--topic", "kept", *SCHEMA)[0] == {"archive": 54}
    misfits = archive.table().where("data IS NULL").orderBy("offset").collect()
    assert [row.offset for row in misfits] == [50, 51, 52, 53]
    assert bytes(misfits[0].value) == b"no JSON at all"


def test_lost_offsets_end_a_run_unless_tolerated(archive: Archive, topics: Topics) -> None:
    topics.create("lossy")
    topics.produce("lossy", ["old"] * 50)
    archive.run("--topic", "lossy")
    topics.recreate("lossy")
    topics.produce("lossy", ["new"] * 10)
    with pytest.raises(StreamingQueryException, match="offset was changed from 50 to 10"):
        archive.run("--topic", "lossy")
    assert archive.run("--topic", "lossy", "--tolerate-data-loss")[0] == {}
    topics.produce("lossy", ["newer"] * 3)
    assert archive.run("--topic", "lossy", "--tolerate-data-loss")[0] == {"archive": 3}
    assert archive.table().count() == 53


class Job:
    """The job as its user starts it, a process with a Java process below it."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.lines: list[str] = []
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE, stderr=errors, text=True, cwd="/", start_new_session=True,
                env={name: value for name, value in os.environ.items() if not name.startswith("PYTHONPATH")},
            )  # fmt: skip

    def wait_for(self, pattern: str) -> str:
        """The next line in which the pattern is found."""
        output: Any = self.process.stdout
        for line in output:
            self.lines.append(line.rstrip())
            if re.search(pattern, line):
                return self.lines[-1]
        raise AssertionError(f"the job ended with {self.process.wait()} after {self.lines}")

    def kill(self) -> None:
        """As a machine that loses its power ends Python and Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def test_killed_resumed_and_stopped(
    archive: Archive, broker: AnyBroker, topics: Topics, tmp_path: Path
) -> None:
    """By spark-submit first, killed in the middle; then by Python, until SIGTERM."""
    topics.create("long", 2)
    topics.fill("long", 2000, partitions=2)  # more than the job gets done before it is killed
    jars = ",".join(str(jar) for jar in PUBLISHED.jars())
    small = ["spark.master=local[2]", "spark.ui.enabled=false", f"spark.local.dir={tmp_path}"]
    quiet = f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"
    call = [
        str(JOB), "--bootstrap-servers", broker.bootstrap_servers, "--topic", "long",
        "--output", str(archive.output), "--max-offsets-per-trigger",
    ]  # fmt: skip
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--jars", jars, "--conf", quiet]
    for setting in small:
        submit += ["--conf", setting]
    first = Job([*submit, *call, "100"], tmp_path / "job.log")
    try:
        first.wait_for("archive: batch 2: 100 rows")
    finally:
        first.kill()
    survived = archive.table().count()
    assert 300 <= survived < 4000
    assert archive.distinct() == survived

    python = [sys.executable, *call, "1000", "--interval", "200 milliseconds"]
    for setting in (f"spark.jars={jars}", quiet, *small):
        python += ["--spark", setting]
    second = Job(python, tmp_path / "job.log")
    try:
        second.wait_for(" at most 0 behind")
        topics.fill("long", 10, partitions=2, start=2000)
        second.wait_for(f" {4020 - survived:,} in all")
        second.process.send_signal(signal.SIGTERM)
        assert second.wait_for("rows archived") == f"stopped: {4020 - survived:,} rows archived"
        assert second.process.wait(180) == 0
    finally:
        if second.process.poll() is None:
            second.kill()
    table = archive.table()
    assert table.count() == archive.distinct() == 4020
    values = sorted(row.value.decode() for row in table.collect())
    assert values == sorted(f"{partition}-{number}" for partition in range(2) for number in range(2010))
