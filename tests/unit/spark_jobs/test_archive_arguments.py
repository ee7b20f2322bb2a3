"""What the archive job makes of its command line, without Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.archive import (
    BatchProgress,
    parse_arguments,
    session_settings,
    source_options,
    what_spark_needs,
)

LEAST = ["--topic", "flights", "--output", "/srv/archive"]


def test_two_arguments_are_enough() -> None:
    settings = parse_arguments(LEAST)
    assert settings.checkpoint == "/srv/archive/_checkpoint"
    assert settings.interval is None
    assert source_options(settings) == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "subscribe": "flights",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "1000000",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }


def test_all_that_concerns_the_source_reaches_it() -> None:
    source = ["--topic", "bookings", "--bootstrap-servers", "a:1,b:2", "--starting", '{"flights":{"0":7}}']
    limits = ["--max-offsets-per-trigger", "50", "--tolerate-data-loss"]
    client = ["--kafka", "max.poll.records=20000", "--kafka", "sasl.jaas.config=x y=z;"]
    settings = parse_arguments([*LEAST, *source, *limits, *client])
    assert source_options(settings) == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.max.poll.records": "20000",
        "kafka.sasl.jaas.config": "x y=z;",
        "subscribe": "flights,bookings",
        "startingOffsets": '{"flights":{"0":7}}',
        "maxOffsetsPerTrigger": "50",
        "includeHeaders": "true",
        "failOnDataLoss": "false",
    }


def test_a_pattern_means_whole_names() -> None:
    options = source_options(parse_arguments(["--pattern", "a|b", "--output", "out"]))
    assert options["subscribePattern"] == "^(?:a|b)$"
    assert "subscribe" not in options


def test_several_topics_may_stand_in_one_word() -> None:
    settings = parse_arguments(["--topic", "a, b", "--topic", "c", "--output", "out"])
    assert source_options(settings)["subscribe"] == "a,b,c"


@pytest.mark.parametrize("pattern", [".*", "bad|flights", "bad.topic", "[a-z.]+"])
def test_a_pattern_never_matches_the_dead_letters(pattern: str) -> None:
    schema = ["--schema", "id LONG", "--dead-letter-topic", "bad.topic"]
    options = source_options(parse_arguments(["--pattern", pattern, "--output", "out", *schema]))
    anchored = options["subscribePattern"]
    assert re.search(anchored, "bad.topic") is None
    for other in ("bad", "flights", "bad.topic.2", "bad-topic"):
        assert bool(re.search(anchored, other)) == bool(re.fullmatch(pattern, other))


def test_the_checkpoint_may_lie_elsewhere() -> None:
    assert parse_arguments([*LEAST, "--checkpoint", "/srv/state"]).checkpoint == "/srv/state"
    assert parse_arguments(["--topic", "t", "--output", "s3a://b/a/"]).checkpoint == "s3a://b/a/_checkpoint"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--output", "out"], "one of the arguments --topic --pattern is required"),
        (["--topic", "t"], "the following arguments are required: --output"),
        ([*LEAST, "--pattern", "x"], "not allowed with argument"),
        ([*LEAST, "--available-now", "--interval", "1 second"], "not allowed with argument"),
        ([*LEAST, "--max-offsets-per-trigger", "0"], "'0' is not a whole number above 0"),
        ([*LEAST, "--max-offsets-per-trigger", "abc"], "'abc' is not a whole number above 0"),
        ([*LEAST, "--max-offsets-per-trigger", "1e6"], "'1e6' is not a whole number above 0"),
        ([*LEAST, "--kafka", "acks"], "'acks' is not of the form NAME=VALUE"),
        ([*LEAST, "--dead-letter-topic", "dead"], "--dead-letter-topic needs --schema"),
        ([*LEAST, "--schema", "id LONG", "--dead-letter-topic", "flights"], "not archived by the same call"),
        (
            ["--topic", "a,bad", "--output", "o", "--schema", "id LONG", "--dead-letter-topic", "bad"],
            "not archived by the same call",
        ),
        (["--topic", "a,", "--output", "out"], "'a,' names no topic between its commas"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_help_needs_no_spark(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(["--help"])
    assert ended.value.code == 0
    assert "goes on where it stopped" in capsys.readouterr().out


PACKAGES = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


@pytest.mark.parametrize(
    ("given", "environment", "packages"),
    [
        ([], {}, PACKAGES),
        ([], {"PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}, PACKAGES),
        ([], {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}, None),
        ([], {"PYSPARK_SUBMIT_ARGS": "--packages a:b:1 pyspark-shell"}, None),
        ([], {"PYSPARK_GATEWAY_PORT": "40001"}, None),
        (["--spark", "spark.jars=a.jar"], {}, None),
        (["--spark", "spark.jars.packages=a:b:1"], {}, "a:b:1"),
        (["--spark", "spark.master=local[2]"], {}, PACKAGES),
    ],
)
def test_the_connector_is_fetched_where_nobody_brings_it(
    given: list[str], environment: dict[str, str], packages: str | None
) -> None:
    settings = session_settings(parse_arguments([*LEAST, *given]), environment, "4.0.0")
    assert settings.get("spark.jars.packages") == packages
    assert settings["spark.sql.session.timeZone"] == "UTC"


def _batch(number: int, rows: int, *, read: int | None = None, behind: str | None = "0.0") -> dict[str, Any]:
    return {
        "batchId": number,
        "numInputRows": rows if read is None else read,
        "batchDuration": 1234,
        "observedMetrics": {"written": {"rows": rows}},
        "sources": [{"metrics": {"maxOffsetsBehindLatest": behind} if behind else None}],
    }


def test_progress_tells_each_batch_once() -> None:
    said: list[str] = []
    progress = BatchProgress(said.append)
    idle = {"batchId": 2, "numInputRows": 0}
    progress.report("archive", [_batch(0, 1000, behind="2500.0")])
    progress.report("archive", [_batch(0, 1000, behind="2500.0"), _batch(1, 500, behind=None), idle])
    progress.report("dead-letters", [_batch(0, 0, read=9)])
    assert said == [
        "archive: batch 0: 1,000 rows in 1,234 ms, 1,000 in all, at most 2,500 behind in a partition",
        "archive: batch 1: 500 rows in 1,234 ms, 1,500 in all, at most 0 behind in a partition",
        "dead-letters: batch 0: 0 rows in 1,234 ms, 0 in all, at most 0 behind in a partition",
    ]
    assert progress.rows == {"archive": 1500, "dead-letters": 0}


JAVA_ENDING = "It needs Java 17 or newer, on the PATH or where JAVA_HOME points"


@pytest.mark.parametrize(
    ("given", "connector"),
    [
        ([], "spark-sql-kafka-0-10_2.13:4.1.0"),
        (["--spark", "spark.master=local[2]"], "spark-sql-kafka-0-10_2.13:4.1.0"),
        (["--spark", "spark.jars=a.jar"], None),
        (["--spark", "spark.jars.packages=a:b:1"], None),
    ],
)
def test_a_connector_that_was_to_be_fetched_may_be_what_is_missing(
    given: list[str], connector: str | None
) -> None:
    settings = parse_arguments([*LEAST, *given])
    told = what_spark_needs(settings, session_settings(settings, {}, "4.1.0"))
    if connector is None:
        assert told == JAVA_ENDING
    else:
        assert f"or {connector} could not be fetched from Maven Central" in told
        assert "Java 17" in told


@pytest.mark.parametrize(
    ("given", "ending"),
    [([], "--spark spark.jars=…"), (["--spark", "spark.jars=a.jar"], JAVA_ENDING)],
)
def test_without_java_it_says_what_spark_needs(tmp_path: Path, given: list[str], ending: str) -> None:
    pytest.importorskip("pyspark")
    job = Path(__file__).resolve().parents[3] / "spark_jobs" / "archive.py"
    without_java = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, str(job), *LEAST, *given],
        env=without_java | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("archive.py: Spark does not start: [JAVA_GATEWAY_EXITED] ")
    assert "Java 17 or newer, on the PATH or where JAVA_HOME points" in last
    assert last.endswith(ending)
    assert "Traceback" not in done.stderr
