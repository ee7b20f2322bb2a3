"""kafka-dump-log and kafka-metadata-shell read every file that a broker leaves behind."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.conftest import AnyBroker, broker_under_test
from tests.support.clients.librdkafka import commit, create_topic, fill, settings, until
from tests.support.genuine.kafka_tools import run_tool
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*compresscodec: (\w+) .*isvalid: true")
RECORD = re.compile(r"^\| offset: (\d+) .*? headerKeys: \[(.*?)\](?: key: (\S*))?(?: payload: (.*))?$")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that has worked, and was stopped."""
    broker = broker_under_test(tmp_path_factory.mktemp("dumped") / "data")
    with broker:
        work(broker)
    return broker.data


def work(broker: AnyBroker) -> None:
    address = broker.bootstrap_servers
    create_topic(address, "codecs")
    create_topic(address, "rolled", 1, segment_bytes="1048576", index_interval_bytes="1024")
    for codec in CODECS:
        fill(
            address,
            "codecs",
            [f"{codec} {number}" * 4 for number in range(20)],
            partition=0,
            compression_type=codec,
        )
    fill(address, "rolled", ["x" * 1000 + str(n) for n in range(2500)], partition=0, batch_size=20_000)
    producer = Producer(settings(address))
    producer.produce("codecs", key=b"schl\xc3\xbcssel", value=None, headers=[("trace", b"1"), ("leer", None)])
    assert producer.flush(30) == 0
    commit(address, "leser", TopicPartition("codecs", 0, 17, metadata="bis hier"))


def dump(tool_server: ToolServer, file: Path, *arguments: str) -> list[str]:
    done = tool_server.run("kafka-dump-log", "--files", str(file), *arguments)
    assert (done.code, done.err) == (0, ""), done
    return done.lines


def test_records_of_every_codec(tool_server: ToolServer, data: Path) -> None:
    segment = data / "codecs-0" / f"{0:020}.log"
    lines = dump(tool_server, segment, "--print-data-log", "--deep-iteration")
    batches = [found for line in lines if line.startswith("baseOffset") if (found := BATCH.match(line))]
    assert len(batches) == sum(line.startswith("baseOffset") for line in lines), "each batch is valid"
    assert {batch[4] for batch in batches} == set(CODECS)
    records = [found for line in lines if (found := RECORD.match(line))]
    assert [int(record[1]) for record in records] == list(range(101))
    expected = [f"{codec} {number}" * 4 for codec in CODECS for number in range(20)]
    assert [record[4] for record in records[:100]] == expected
    assert (records[100][2], records[100][3]) == ("trace,leer", "schlüssel")


def test_indexes(tool_server: ToolServer, data: Path) -> None:
    segments = sorted((data / "rolled-0").glob("*.log"))
    assert len(segments) == 3, "2.5 MB in segments of one"
    for segment in segments:
        for suffix in (".index", ".timeindex"):
            index = segment.with_suffix(suffix)
            assert f"{index} passed sanity check." in dump(tool_server, index, "--index-sanity-check")
            # Without the flag every entry is looked up in the log, and what does not fit is printed.
            lines = dump(tool_server, index)
            assert len(lines) > (2 if suffix == ".index" else 1), (
                "a time index has an entry a millisecond at most"
            )
            assert [line for line in lines if "Found" in line or "mismatch" in line.lower()] == []
    verified = dump(tool_server, segments[0].with_suffix(".index"), "--verify-index-only")
    assert [line for line in verified if not line.startswith("Dumping")] == []


def test_producer_snapshots(tool_server: ToolServer, data: Path) -> None:
    snapshots = sorted((data / "rolled-0").glob("*.snapshot"))
    assert snapshots[-1].name == f"{2500:020}.snapshot"
    for snapshot in snapshots:
        (line,) = dump(tool_server, snapshot)[1:]
        end = int(snapshot.stem)
        assert f"lastSequence: {end - 1} lastOffset: {end - 1} " in line
        assert "producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty" in line


def json_records(lines: list[str]) -> list[tuple[Any, Any]]:
    found = [re.match(r"^\| offset: .* key: (\{.*\}) payload: (.*)$", line) for line in lines]
    return [
        (json.loads(each[1]), None if each[2] == "<DELETE>" else json.loads(each[2]))
        for each in found
        if each
    ]


def test_committed_offsets(tool_server: ToolServer, data: Path) -> None:
    written = [file for file in data.glob("__consumer_offsets-*/*.log") if file.stat().st_size]
    records = [
        record
        for file in written
        for record in json_records(dump(tool_server, file, "--offsets-decoder", "--print-data-log"))
    ]
    (value,) = (
        value["data"]
        for key, value in records
        if key == {"type": "1", "data": {"group": "leser", "topic": "codecs", "partition": 0}}
    )
    # confluent-kafka counts the terminating zero in.
    assert (value["offset"], value["metadata"].rstrip("\0")) == (17, "bis hier")


def test_the_metadata_log(tool_server: ToolServer, data: Path) -> None:
    lines = dump(
        tool_server,
        data / "__cluster_metadata-0" / f"{0:020}.log",
        "--cluster-metadata-decoder",
        "--print-data-log",
    )
    records = [json.loads(found[1]) for line in lines if (found := re.search(r" payload: (\{.*\})$", line))]
    kinds = [record["type"] for record in records]
    assert {
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "FEATURE_LEVEL_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
    } <= set(kinds)
    topics = {record["data"]["name"] for record in records if record["type"] == "TOPIC_RECORD"}
    assert topics == {"codecs", "rolled", "__consumer_offsets"}
    assert kinds.count("PARTITION_RECORD") == 52


def test_the_snapshot_of_the_format(tool_server: ToolServer, data: Path) -> None:
    checkpoint = data / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    lines = dump(tool_server, checkpoint, "--cluster-metadata-decoder", "--print-data-log")
    assert "Snapshot end offset: 0, epoch: 0" in lines
    text = "\n".join(lines)
    for record in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"):
        assert record in text


SHELL = (
    ("ls /image/topics/byName", ["__consumer_offsets", "codecs", "rolled"]),
    ("cat /image/topics/byName/rolled/name", ["rolled"]),
    ("ls /image/cluster/brokers", ["1"]),
    ("cat /image/features/metadataVersion", ["Optional[4.3-IV0]"]),
)


def test_the_metadata_shell(data: Path) -> None:
    """The shell ends its JVM, so each command has one of its own."""
    segment = data / "__cluster_metadata-0" / f"{0:020}.log"

    def shows(command: str, expected: list[str]) -> bool:
        done = run_tool("kafka-metadata-shell", "--snapshot", str(segment), *command.split())
        assert done.code == 0, done.err
        return sorted(done.out.split()) == expected

    for command, expected in SHELL:
        # The shell may look before it has read the whole file.
        until(partial(shows, command, expected), f"{command} shows {expected}")
