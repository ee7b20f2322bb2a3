"""Archives topics: each record becomes a row of Parquet, in folders by topic and day.

    python archive.py --topic flights --output /srv/archive

reads what is there, writes ``/srv/archive/topic=flights/date=2026-11-21/….parquet``
and ends; called again, it goes on where it stopped. With ``--interval "30 seconds"`` it
runs on until SIGTERM or Ctrl-C. A row holds key, value, headers, partition, offset,
timestamp, timestampType, topic and date (the timestamp's day in UTC); with ``--schema``
also the value's JSON as columns under ``data``.

Each record is archived once, whatever happens in between: Spark writes the offsets of a
batch into the checkpoint before the batch, and the list of its files into
``_spark_metadata`` of the archive after it. Spark reads an archive by that list;
other readers may meet files of a batch that a kill cut short, which no list names.
The checkpoint belongs to one archive; its topics may change, moving or deleting it
begins anew. Dead letters (``--dead-letter-topic``) are read and written by a second query:
Spark's sink promises at least once for them.

Spark needs Java 17 or newer. The connector must be of PySpark's own release. Started with
plain Python the job asks Maven Central for it; with spark-submit, or without Central, name
it yourself:

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 archive.py …
    python archive.py --spark spark.jars=connector.jar,token-provider.jar,… …

Stop it by SIGTERM to the Python process, which lets the batch under way finish;
spark-submit forwards no signals, but killing it costs no more than that batch's work.
Exit codes: 0 done or stopped as asked, 1 a query failed, 2 the arguments are wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
JAVA_NEEDED: Final = "It needs Java 17 or newer, on the PATH or where JAVA_HOME points"
JAVA_OR_CONNECTOR: Final = (
    "Either there is no Java 17 or newer, on the PATH or where JAVA_HOME points, or {connector} could not be "
    "fetched from Maven Central: the lines above say which. For the connector, pip install pyspark==4.0.0, "
    "or name its jars with --spark spark.jars=…"
)
POLL_SECONDS: Final = 0.3
LAST_BATCH_SECONDS: Final = 60
MALFORMED: Final = "_malformed"
WITH_JARS: Final = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of the command line. Either ``topics`` or ``pattern`` is given."""

    bootstrap_servers: str
    topics: tuple[str, ...]
    pattern: str | None
    output: str
    checkpoint: str
    interval: str | None  # None: what is there now, then end
    starting: str
    max_offsets_per_trigger: int
    schema: str | None
    dead_letter_topic: str | None
    tolerate_data_loss: bool
    kafka: Mapping[str, str]
    spark: Mapping[str, str]


def parse_arguments(arguments: Sequence[str] | None = None) -> Settings:
    """Parses the command line. As argparse does, it ends the process with a message if the arguments are
    wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.dead_letter_topic and not given.schema:
        parser.error("--dead-letter-topic needs --schema: without one every value is welcome")
    topics = tuple(topic for named in given.topic for topic in named)
    if given.dead_letter_topic in topics or given.dead_letter_topic == "":
        parser.error("--dead-letter-topic must be a topic that is not archived by the same call")
    return Settings(
        bootstrap_servers=given.bootstrap_servers,
        topics=topics,
        pattern=given.pattern,
        output=given.output,
        checkpoint=given.checkpoint or f"{given.output.rstrip('/')}/_checkpoint",
        interval=given.interval,
        starting=given.starting,
        max_offsets_per_trigger=given.max_offsets_per_trigger,
        schema=given.schema,
        dead_letter_topic=given.dead_letter_topic,
        tolerate_data_loss=given.tolerate_data_loss,
        kafka=dict(given.kafka),
        spark=dict(given.spark),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="archive.py",
        description="Archives topics as Parquet, in folders by topic and day, each record once.",
        epilog="Called again with the same --output it goes on where it stopped.",
    )
    add = parser.add_argument
    add("--bootstrap-servers", default="127.0.0.1:9092", metavar="HOST:PORT,…", help="default: %(default)s")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--topic", action="append", default=[], type=_topics, metavar="TOPIC,…",
        help="may be given several times",
    )  # fmt: skip
    source.add_argument(
        "--pattern", metavar="REGEX",
        help="all topics whose whole name matches, later ones too, but never the --dead-letter-topic (Java "
        "regex)",
    )  # fmt: skip
    add("--output", required=True, help="the archive: a folder, or any address that Spark can write to")
    add("--checkpoint", help="where progress is kept; default: _checkpoint in the archive")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--available-now", action="store_true", help="archive what is there and end (default)")
    when.add_argument("--interval", help='run on, one batch in each interval, as in "30 seconds"')
    add("--starting", default="earliest", help="earliest, latest or Spark's JSON of offsets; first run only")
    add(
        "--max-offsets-per-trigger", type=_positive, default=1_000_000, metavar="N",
        help="the size of a batch at most; default: %(default)s",
    )  # fmt: skip
    add("--schema", help='parse values as JSON of these columns, as in "id LONG, name STRING"')
    add("--dead-letter-topic", help="where values go that do not fit --schema; else they stay, data is NULL")
    add(
        "--tolerate-data-loss",
        action="store_true",
        help="go on where offsets are gone (retention, new topic)",
    )
    add("--kafka", action="append", default=[], type=_named, metavar="NAME=VALUE", help="a client property")
    add("--spark", action="append", default=[], type=_named, metavar="NAME=VALUE", help="a Spark property")
    return parser


def _topics(text: str) -> list[str]:
    """The names between the commas, which Spark would part anyway."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} names no topic between its commas")
    return names


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) < 19 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def client_options(settings: Settings) -> dict[str, str]:
    named = {f"kafka.{name}": value for name, value in settings.kafka.items()}
    return {"kafka.bootstrap.servers": settings.bootstrap_servers, **named}


def source_options(settings: Settings) -> dict[str, str]:
    """Spark's options for the source. It finds a pattern anywhere in a name, so ours is anchored; it leaves
    out the dead letters, which would come back as dead letters for ever."""
    if settings.pattern is not None:
        dead = settings.dead_letter_topic
        others = "" if dead is None else f"(?!{re.escape(dead)}$)"
        topics = {"subscribePattern": f"^{others}(?:{settings.pattern})$"}
    else:
        topics = {"subscribe": ",".join(settings.topics)}
    return {
        **client_options(settings),
        **topics,
        "startingOffsets": settings.starting,
        "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
        "includeHeaders": "true",
        "failOnDataLoss": "false" if settings.tolerate_data_loss else "true",
    }


def session_settings(settings: Settings, environment: Mapping[str, str], pyspark: str) -> dict[str, str]:
    """Spark's properties: the user's own, days in UTC, and the connector where nobody else brings it."""
    ours = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    named = {**ours, **settings.spark}
    submitted = "PYSPARK_GATEWAY_PORT" in environment
    arguments = environment.get("PYSPARK_SUBMIT_ARGS", "")
    brought = any(name in named for name in WITH_JARS) or "--jars" in arguments or "--packages" in arguments
    return named if submitted or brought else {**named, "spark.jars.packages": f"{CONNECTOR}:{pyspark}"}


def what_spark_needs(settings: Settings, properties: Mapping[str, str]) -> str:
    """What to do where Spark does not start: it ends with the same error without Java and without a connector
    that it was to fetch. properties: those of `session_settings`."""
    packages = properties.get("spark.jars.packages")
    if packages is None or "spark.jars.packages" in settings.spark:
        return JAVA_NEEDED
    return JAVA_OR_CONNECTOR.format(connector=packages.partition(":")[2])


def archive_rows(records: DataFrame, settings: Settings) -> DataFrame:
    """The rows of the archive: all columns of the source, the day, and ``data`` if there is a schema."""
    rows = records.selectExpr("*", "to_date(timestamp) AS date")
    if settings.schema is None:
        return rows
    parsed = _parsed(rows, settings.schema)
    if settings.dead_letter_topic is not None:
        parsed = parsed.where(f"NOT {MALFORMED}")
    return parsed.drop(MALFORMED)


def dead_letters(records: DataFrame, schema: str) -> DataFrame:
    """Key, value and headers of what does not fit the schema; two more headers tell where it was, and why."""
    return (
        _parsed(records, schema)
        .where(MALFORMED)
        .selectExpr(
            "key",
            "value",
            """concat(coalesce(headers, array()), array(
                named_struct('key', 'archive.source',
                    'value', cast(concat_ws('-', topic, partition, offset) AS binary)),
                named_struct('key', 'archive.reason', 'value', cast('not JSON of the schema' AS binary))
            )) AS headers""",
        )
    )


def _parsed(rows: DataFrame, schema: str) -> DataFrame:
    """With ``data``, NULL for a null value and for one that does not fit, which is marked."""
    from pyspark.sql import functions

    text = functions.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    parsed = rows.withColumn("data", functions.from_json(text, f"{schema}, {MALFORMED} STRING", options))
    misfit = f"value IS NOT NULL AND (data IS NULL OR data.{MALFORMED} IS NOT NULL)"
    marked = parsed.withColumn(MALFORMED, functions.expr(misfit))
    fitting = functions.when(~functions.col(MALFORMED), functions.col("data").dropFields(MALFORMED))
    return marked.withColumn("data", fitting)


def start_queries(spark: SparkSession, settings: Settings) -> list[StreamingQuery]:
    """Starts the query of the archive and, if there is a topic for them, that of the dead letters."""
    from pyspark.sql import functions

    trigger: dict[str, Any] = {"availableNow": True}
    if settings.interval is not None:
        trigger = {"processingTime": settings.interval}
    count = functions.count(functions.lit(1)).alias("rows")
    records = spark.readStream.format("kafka").options(**source_options(settings)).load()

    def start(
        name: str, rows: DataFrame, sink: str, options: dict[str, str], *columns: str
    ) -> StreamingQuery:
        writer = rows.observe("written", count).writeStream.queryName(name).format(sink)
        checkpoint = {"checkpointLocation": f"{settings.checkpoint}/{name}"}
        return writer.partitionBy(*columns).options(**options, **checkpoint).trigger(**trigger).start()

    rows = archive_rows(records, settings)
    queries = [start("archive", rows, "parquet", {"path": settings.output}, "topic", "date")]
    if settings.dead_letter_topic is not None and settings.schema is not None:
        target = {**client_options(settings), "topic": settings.dead_letter_topic, "includeHeaders": "true"}
        queries.append(start("dead-letters", dead_letters(records, settings.schema), "kafka", target))
    return queries


class BatchProgress:
    """Reports each batch of a query once, and keeps the totals. Times are milliseconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last_batch: dict[str, int] = {}
        self.rows: dict[str, int] = {}

    def report(self, name: str, recent: Sequence[Mapping[str, Any]]) -> None:
        """``recent`` are Spark's last progress reports, the oldest first."""
        for batch in recent:
            number = batch["batchId"]
            if number <= self._last_batch.get(name, -1) or not batch["numInputRows"]:
                continue
            self._last_batch[name] = number
            written = batch["observedMetrics"]["written"]["rows"]
            self.rows[name] = self.rows.get(name, 0) + written
            took_ms = batch["batchDuration"]
            behind = (batch["sources"][0]["metrics"] or {}).get("maxOffsetsBehindLatest", "0")
            self._say(
                f"{name}: batch {number}: {written:,} rows in {took_ms:,} ms, {self.rows[name]:,} in all, "
                f"at most {int(float(behind)):,} behind in a partition"
            )


def watch(
    queries: Sequence[StreamingQuery], progress: BatchProgress, is_stop_asked: Callable[[], bool]
) -> None:
    """Waits until all queries have ended, one has failed (its error is raised), or a stop was asked for."""

    def report() -> None:
        for query in queries:
            progress.report(query.name, query.recentProgress)

    stopping = False
    while not stopping and any(query.isActive for query in queries):
        time.sleep(POLL_SECONDS)
        report()
        stopping = is_stop_asked() or any(query.exception() is not None for query in queries)
    for query in queries:
        _finish(query)
    report()
    for query in queries:
        query.awaitTermination()


def _finish(query: StreamingQuery) -> None:
    """Lets the running batch end, then stops the query."""

    def batches_done() -> int:
        recent = query.recentProgress
        return -1 if not recent else recent[-1]["batchId"]

    done = batches_done()
    deadline = time.monotonic() + LAST_BATCH_SECONDS
    while query.isActive and query.status["isTriggerActive"] and batches_done() == done:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    query.stop()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse_arguments(arguments)
    try:
        import pyspark
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        print("archive.py needs PySpark: pip install pyspark==4.0.0", file=sys.stderr)
        return 1
    builder = SparkSession.builder.appName("archive")
    properties = session_settings(settings, os.environ, pyspark.__version__)
    for name, value in properties.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        remedy = what_spark_needs(settings, properties)
        print(f"archive.py: Spark does not start: {_first_line(error)} {remedy}", file=sys.stderr)
        return 1
    spark.sparkContext.setLogLevel(settings.spark.get("spark.log.level", "ERROR"))
    signals: list[int] = []  # no Event: its lock may be held by the code that a handler interrupts
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    progress = BatchProgress(lambda line: print(line, flush=True))
    try:
        watch(start_queries(spark, settings), progress, lambda: bool(signals))
    except PySparkException as error:
        print(f"archive.py: {_first_line(error)}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    rows = progress.rows.get("archive", 0)
    letters = f", {progress.rows.get('dead-letters', 0):,} dead letters" if settings.dead_letter_topic else ""
    print(f"{'stopped' if signals else 'done'}: {rows:,} rows archived{letters}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
