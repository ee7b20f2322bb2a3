"""Offsets, files, configs, groups, resets: exercises 1-E11, 1-E12, and of chapter 3 what one broker can do.

Same book as in ``test_book_first_steps``. What the book waits a minute for (segment.ms, retention.ms) is set
to a second or two here, and the checks that Apache Kafka makes every five minutes come every half second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import AnyBroker, broker_under_test
from tests.support.clients.book import (
    FLIGHT,
    KEYED,
    WITH_KEY,
    by_key,
    consume,
    create,
    ends,
    fields,
    produce,
)
from tests.support.clients.librdkafka import until
from tests.support.genuine.kafka_tools import read_lines, run_tool, running_tool
from tests.support.genuine.tool_server import Tool, ToolServer

pytestmark = pytest.mark.java

OFTEN = {
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with broker_under_test(tmp_path_factory.mktemp("book") / "data", OFTEN) as running:
        yield running


def checkpoint(file: Path) -> dict[str, int]:
    """Version, count, then ``topic partition offset`` a line."""
    version, count, *lines = file.read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    return {
        f"{topic}-{partition}": int(offset) for topic, partition, offset in (line.split() for line in lines)
    }


def logs(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.glob("*.log"))


def described(tool: Tool, topic: str, until_it_says: str) -> list[str]:
    """The topic, as soon as the broker has heard what the controller has done."""
    told: list[str] = []

    def says() -> bool:
        told[:] = tool("kafka-topics", "--describe", "--topic", topic).lines
        return any(until_it_says in line for line in told)

    until(says, f"{topic} shows {until_it_says}")
    return told


def alter(tool: Tool, topic: str, config: str) -> None:
    altered = tool("kafka-configs", "--alter", "--topic", topic, "--add-config", config)
    assert altered.out == f"Completed updating config for topic {topic}.\n"


def test_e11_and_e12_a_topic_grows_and_never_shrinks(tool: Tool) -> None:
    create(tool, "flugdaten", 2)
    before = described(tool, "flugdaten", "PartitionCount: 2")
    assert fields(before[0])["PartitionCount"] == "2"

    grown = tool("kafka-topics", "--alter", "--topic", "flugdaten", "--partitions", "3")
    assert (grown.code, grown.out) == (0, "")
    after = described(tool, "flugdaten", "PartitionCount: 3")
    assert fields(after[0])["PartitionCount"] == "3"
    assert after[1:3] == before[1:3]
    assert fields(after[3])["Partition"] == "2"

    refused = tool("kafka-topics", "--alter", "--topic", "flugdaten", "--partitions", "2")
    assert refused.code == 1
    assert "The topic flugdaten currently has 3 partition(s); 2 would not be an increase." in refused.out


def test_2e7_to_2e10_a_new_topic_s_files(tool: Tool, broker: AnyBroker) -> None:
    """Apache Kafka also shows files that are empty yet: indexes, and checkpoints of nothing (README)."""
    create(tool, "datei-struktur", 3)
    names = ["datei-struktur-0", "datei-struktur-1", "datei-struktur-2"]
    expected = {"meta.properties", *names}
    until(lambda: {each.name for each in broker.data.iterdir()} >= expected, "the directories are there")
    file = broker.data / "replication-offset-checkpoint"
    until(lambda: file.exists() and set(names) <= set(checkpoint(file)), "the high watermarks are written")
    assert [checkpoint(file)[name] for name in names] == [0, 0, 0]
    files = {each.name for each in (broker.data / names[0]).iterdir()}
    assert files >= {"00000000000000000000.log", "partition.metadata"}
    head, *lines = (
        fields(line) for line in tool("kafka-topics", "--describe", "--topic", "datei-struktur").lines
    )
    assert head["PartitionCount"] == "3"
    assert [(line["Leader"], line["Replicas"], line["Isr"]) for line in lines] == [("1", "1", "1")] * 3


def test_2e12_and_2e13_nine_messages_and_their_bytes(
    tool: Tool, tool_server: ToolServer, broker: AnyBroker
) -> None:
    produce(tool, "datei-struktur", [f"M{number}" for number in range(1, 10)])

    def high_watermarks() -> list[int]:
        found = checkpoint(broker.data / "replication-offset-checkpoint")
        return [found[f"datei-struktur-{partition}"] for partition in range(3)]

    until(lambda: sum(high_watermarks()) == 9, "nine messages are below the high watermarks")
    for partition, count in enumerate(high_watermarks()):
        file = broker.data / f"datei-struktur-{partition}" / "00000000000000000000.log"
        dumped = tool_server.run("kafka-dump-log", "--files", str(file)).out
        batches = re.findall(r"count: (\d+) .*?position: (\d+) .*? size: (\d+)", dumped)
        assert sum(int(each[0]) for each in batches) == count
        assert [int(each[1]) for each in batches] == [
            sum(int(each[2]) for each in batches[:index]) for index in range(len(batches))
        ]
        assert sum(int(each[2]) for each in batches) == file.stat().st_size


def test_2e14_a_segment_is_rolled_by_age_on_append(tool: Tool, broker: AnyBroker) -> None:
    create(tool, "segmente", 1)
    produce(tool, "segmente", ["M1", "M2", "M3"])
    directory = broker.data / "segmente-0"
    alter(tool, "segmente", "segment.ms=1000")
    until(
        lambda: "segment.ms=1000" in tool("kafka-configs", "--describe", "--topic", "segmente").out,
        "the broker knows the config",
    )
    assert tool("kafka-configs", "--describe", "--topic", "segmente").lines[1].strip() == (
        "segment.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=1000}"
    )

    def rolled() -> bool:
        produce(tool, "segmente", ["M4"])
        return len(logs(directory)) > 1

    until(rolled, "an append finds the segment too old")
    assert logs(directory)[0] == "00000000000000000000.log"
    base = logs(directory)[1].removesuffix(".log")
    assert int(base) >= 3
    complete = {"00000000000000000000.index", "00000000000000000000.timeindex", f"{base}.snapshot"}
    until(lambda: {each.name for each in directory.iterdir()} >= complete, "the old segment is flushed")


def test_2e15_a_deleted_topic_s_files_wait_under_another_name(tool: Tool, broker: AnyBroker) -> None:
    assert tool("kafka-topics", "--delete", "--topic", "datei-struktur").out == ""

    def names() -> list[str]:
        return [each.name for each in broker.data.iterdir() if each.name.startswith("datei-struktur")]

    pattern = re.compile(r"datei-struktur-[012]\.[0-9a-f]{32}-delete")
    until(lambda: all(pattern.fullmatch(name) for name in names()), "the directories are renamed")
    assert len(names()) == 3


def test_2e16_a_given_partition_from_a_given_offset(tool: Tool) -> None:
    create(tool, "start", 1)
    produce(tool, "start", ["Countdown gestartet", *FLIGHT])
    place = ("--partition", "0", "--max-messages", "1")
    assert consume(tool, "start", "--offset", "0", *place, seconds=60).lines == ["Countdown gestartet"]
    assert consume(tool, "start", "--offset", "2", *place, seconds=60).lines == ["Liftoff"]
    assert consume(tool, "start", "--offset", "earliest", *place, seconds=60).lines == ["Countdown gestartet"]
    refused = consume(tool, "start", "--offset", "zwei", *place)
    assert refused.code == 1


GROUP = ("--group", "flugueberwachung")
TOPIC = "flugdaten-2partitions"


def progress(tool: Tool) -> dict[str, tuple[str, ...]]:
    """Offset, end and lag of each partition."""
    rows = [line.split() for line in tool("kafka-consumer-groups", "--describe", *GROUP).lines]
    return {row[2]: tuple(row[3:6]) for row in rows if row[:2] == [GROUP[1], TOPIC]}


def test_2e17_a_group_s_offsets_and_lag(tool: Tool, broker: AnyBroker) -> None:
    create(tool, TOPIC, 2)
    sent = ["rakete0:Countdown beendet", "rakete1:Countdown beendet", "rakete1:Liftoff"]
    produce(tool, TOPIC, sent, *KEYED)
    at = ("--bootstrap-server", broker.bootstrap_servers)
    arguments = ("--topic", TOPIC, *GROUP, "--from-beginning", *WITH_KEY, *at)
    with running_tool("kafka-console-consumer", *arguments) as consumer:
        assert by_key(read_lines(consumer, 3)) == {
            "rakete0": ["Countdown beendet"], "rakete1": ["Countdown beendet", "Liftoff"],
        }  # fmt: skip
        # The book's own numbers: murmur2 puts rakete1 into partition 0 and rakete0 into partition 1.
        until(lambda: progress(tool) == {"0": ("2", "2", "0"), "1": ("1", "1", "0")}, "all is committed")
        row = tool("kafka-consumer-groups", "--describe", *GROUP).lines[-1].split()
        assert row[6].startswith("console-consumer-")
        assert (row[7], row[8]) == ("/127.0.0.1", "console-consumer")
        consumer.terminate()
        consumer.wait(120)

    produce(tool, TOPIC, ["rakete1:Landung", *(f"rakete0:{line}" for line in FLIGHT[:4])], *KEYED)
    assert progress(tool) == {"0": ("2", "3", "1"), "1": ("1", "5", "4")}
    rest = consume(tool, TOPIC, *GROUP, "--max-messages", "5", seconds=60)
    assert sorted(rest.lines) == sorted(["Landung", *FLIGHT[:4]])
    assert progress(tool) == {"0": ("3", "3", "0"), "1": ("5", "5", "0")}


def test_a_group_is_set_back(tool: Tool) -> None:
    """Chapter 3's remark on the time index: a group may start again at the beginning, or at a date."""

    def reset(*whither: str) -> dict[str, str]:
        words = ("--reset-offsets", "--topic", TOPIC, *GROUP, *whither)
        rows = [line.split() for line in tool("kafka-consumer-groups", *words).lines]
        return {row[2]: row[3] for row in rows if row[:1] == [GROUP[1]]}

    until(
        lambda: "Empty" in tool("kafka-consumer-groups", "--describe", *GROUP, "--state").out, "nobody reads"
    )
    assert reset("--to-earliest", "--dry-run") == {"0": "0", "1": "0"}
    assert progress(tool)["0"][0] == "3"
    assert reset("--to-earliest", "--execute") == {"0": "0", "1": "0"}
    assert len(consume(tool, TOPIC, *GROUP, "--max-messages", "8", seconds=60).lines) == 8
    assert reset("--shift-by", "-2", "--execute") == {"0": "1", "1": "3"}
    assert reset("--to-datetime", "2020-01-01T00:00:00.000", "--execute") == {"0": "0", "1": "0"}
    assert reset("--to-datetime", "2099-01-01T00:00:00.000", "--execute") == {"0": "3", "1": "5"}
    assert reset("--to-offset", "1", "--execute") == {"0": "1", "1": "1"}
    assert progress(tool) == {"0": ("1", "3", "2"), "1": ("1", "5", "4")}


def test_2e18_retention_takes_the_active_segment_too(tool: Tool, broker: AnyBroker) -> None:
    create(tool, "retention-test", 1)
    produce(tool, "retention-test", [f"M{number}" for number in range(1, 10)])
    directory = broker.data / "retention-test-0"
    assert logs(directory) == ["00000000000000000000.log"]
    alter(tool, "retention-test", "retention.ms=2000")
    until(lambda: logs(directory) == ["00000000000000000009.log"], "one empty segment is left, at the end")
    assert (directory / "00000000000000000009.log").stat().st_size == 0
    assert (
        tool("kafka-get-offsets", "--topic", "retention-test", "--time", "earliest").out
        == "retention-test:0:9\n"
    )
    assert ends(tool, "retention-test") == ["retention-test:0:9"], "nothing is left between the two"
    assert consume(tool, "retention-test", "--from-beginning", seconds=1).lines == []


def test_2e19_compaction_wants_keys(tool: Tool, broker: AnyBroker) -> None:
    create(tool, "compaction-test", 3, "--config", "cleanup.policy=compact")
    at = ("--topic", "compaction-test", "--bootstrap-server", broker.bootstrap_servers)
    refused = run_tool("kafka-console-producer", *at, stdin="M1\n")  # its log is its standard error
    assert "Error when sending message to topic compaction-test with key: null, value: 2 bytes" in refused.err
    reason = "Compacted topic cannot accept message without key in topic partition compaction-test-"
    assert f"InvalidRecordException: {reason}" in refused.err
    assert ends(tool, "compaction-test") == [f"compaction-test:{index}:0" for index in range(3)]
    assert consume(tool, "compaction-test", "--from-beginning", seconds=1).lines == []


def payloads(tool_server: ToolServer, directory: Path) -> list[tuple[int, str, str]]:
    """Offset, key and value of every record in a partition's files."""
    found = []
    for file in sorted(directory.glob("*.log")):
        dumped = tool_server.run("kafka-dump-log", "--print-data-log", "--files", str(file)).out
        for offset, key, payload in re.findall(r"\| offset: (\d+) .*? key: (\S+) payload: (\S+)", dumped):
            found.append((int(offset), key, payload))
    return found


def test_2e20_to_2e23_the_last_value_of_a_key_remains(
    tool: Tool, tool_server: ToolServer, broker: AnyBroker
) -> None:
    directory = broker.data / "compaction-test-0"
    produce(tool, "compaction-test", [f"K{number}:M{number}" for number in range(1, 9)], *KEYED)
    assert payloads(tool_server, directory) == [(0, "K7", "M7")], "murmur2 puts K7 alone into partition 0"
    produce(tool, "compaction-test", ["K7:M9"], *KEYED)
    assert payloads(tool_server, directory) == [(0, "K7", "M7"), (1, "K7", "M9")], "the active segment stays"

    alter(tool, "compaction-test", "max.compaction.lag.ms=1000")
    produce(tool, "compaction-test", ["K7:M10"], *KEYED)
    sent = ["M7", "M9", "M10"]

    def compacted() -> bool:
        """Each append may roll the segment, as the lag has passed, and what was rolled is cleaned."""
        sent.append(f"M{len(sent) + 8}")
        produce(tool, "compaction-test", [f"K7:{sent[-1]}"], *KEYED)
        return len(payloads(tool_server, directory)) < len(sent) - 1

    until(compacted, "older values are gone")
    left = payloads(tool_server, directory)
    assert left == [(sent.index(value), "K7", value) for _, _, value in left], "a record keeps its offset"
    assert left[-1][2] == sent[-1]
    assert logs(directory)[0] == "00000000000000000000.log", "a compacted segment keeps its name"
