"""Apache Kafka's own programs on what we write, and ours on what they write."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from broker.ports.files import RealFiles
from config.broker_config import BrokerConfig
from config.loading import default_settings, layered, load
from controller.format import Formatter, read_bootstrap_records
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.log_opening import open_replica, raft_config
from controller.quorum_controller import QuorumController
from controller.raft.snapshot_files import snapshot_name
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from storage.meta_properties import read_meta_properties
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.controllers import (
    CLUSTER_ID,
    METADATA_LOG,
    ControllerFixture,
    HandOffload,
    SeededRandomSource,
    no_channel,
)
from tests.support.rigs.hand_clock import HandClock, HandTimers

pytestmark = pytest.mark.java

LOG = "00000000000000000000.log"


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in names
        ]
    )


@pytest.fixture
def written(tmp_path: Path) -> tuple[ControllerFixture, Path]:
    """A cluster's log and snapshot as we write them, on a real disk."""
    fixture = ControllerFixture()
    fixture.bring_up(1, 2)
    fixture.call(ApiKey.CREATE_TOPICS, topics("orders", "a.b"))
    fixture.timers.advance(9_000)
    fixture.settle()
    fixture.log.write_snapshot(fixture.controller.image)
    fixture.log.shut_down()
    fixture.settle()
    for name in fixture.files.listdir(METADATA_LOG):
        (tmp_path / name).write_bytes(fixture.files.read_bytes(f"{METADATA_LOG}/{name}"))
    return fixture, tmp_path


def test_kafkas_dump_reads_our_log_and_its_indexes(written: tuple[ControllerFixture, Path]) -> None:
    fixture, directory = written
    result = run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(directory / LOG))
    assert result.code == 0, result.err
    assert "isvalid: false" not in result.out
    payloads = [json.loads(line.partition("payload: ")[2]) for line in result.lines if "payload: " in line]
    kinds = [payload["type"] for payload in payloads]
    assert kinds[:4] == [
        "BEGIN_TRANSACTION_RECORD",
        "FEATURE_LEVEL_RECORD",
        "END_TRANSACTION_RECORD",
        "REGISTER_CONTROLLER_RECORD",
    ]
    assert kinds.count("TOPIC_RECORD") == 2
    assert kinds.count("PARTITION_RECORD") == 4
    assert {p["data"]["name"] for p in payloads if p["type"] == "TOPIC_RECORD"} == set(
        fixture.controller.image.topics.by_name
    )
    assert "LeaderChange" in result.out
    assert "KRaftVoters" in result.out
    indexes = [str(path) for path in (directory / LOG[:-4]).parent.glob("*index")]
    checked = run_tool("kafka-dump-log", "--files", ",".join(indexes), "--index-sanity-check")
    assert checked.code == 0
    assert "Mismatches" not in checked.out


def test_kafkas_metadata_shell_walks_through_our_snapshot(written: tuple[ControllerFixture, Path]) -> None:
    fixture, directory = written
    snapshot = fixture.log.latest_snapshot()
    assert snapshot is not None
    path = directory / snapshot_name(snapshot)
    expected = {
        "./image/cluster/brokers/2",
        "./image/cluster/controllers/1",
        "./image/features/metadataVersion",
        "./image/topics/byName/orders/1",
        "./image/topics/byName/a.b/0",
    }
    # The shell runs its command as soon as anything of the snapshot is applied, while another of its threads
    # reads the other batches (MetadataShell.waitUntilCaughtUp): a busy machine may not show what comes later.
    for _ in range(10):
        result = run_tool("kafka-metadata-shell", "--snapshot", str(path), "find")
        assert result.code == 0, result.err
        if expected <= set(result.lines):
            break
    assert expected <= set(result.lines)


class OnDisk:
    """Our controller on a real directory, for one life."""

    def __init__(self, config: BrokerConfig) -> None:
        self.offload = HandOffload()
        clock = HandClock(wall_ms=1_800_000_000_000)
        files = RealFiles()
        properties = read_meta_properties(files, f"{config.metadata_log_directory}/meta.properties")
        assert properties is not None
        assert properties.directory_id is not None
        listener = config.controller_listeners[0]
        endpoints = {listener.listener: BrokerEndpoint(listener.host, listener.port, 0)}
        quorum = raft_config(
            config, cluster_id=CLUSTER_ID, directory_id=properties.directory_id, endpoints=endpoints
        )
        self.timers = timers = HandTimers(clock)
        self.log = open_replica(
            config,
            quorum,
            files=files,
            clock=clock,
            timers=timers,
            offload=self.offload,
            random_source=SeededRandomSource(),
            make_channel=no_channel,
        )
        self.log.start()
        self.controller = QuorumController(
            node_id=1,
            cluster_id=CLUSTER_ID,
            log=self.log,
            config=config,
            clock=clock,
            timers=timers,
            random_source=SeededRandomSource(),
            bootstrap_records=read_bootstrap_records(config, files),
            endpoints=endpoints,
        )
        self.controller.start()
        self.settle()

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def settle(self) -> None:
        while self.timers.run_soon() or self.offload:
            self.offload.run()

    def finish(self, pending: Pending[object]) -> None:
        self.settle()
        assert pending.done


@pytest.mark.slow
def test_a_directory_goes_from_us_to_kafka_and_back_and_forth(tmp_path: Path) -> None:
    kafka = GenuineKafka(tmp_path / "data")
    config = load(layered(default_settings(kafka.properties))).config
    Formatter(
        cluster_id=CLUSTER_ID,
        config=config,
        files=RealFiles(),
        clock=HandClock(),
        random_source=SeededRandomSource(),
    ).run(io.StringIO())

    def tool(*arguments: str) -> str:
        result = run_tool("kafka-topics", "--bootstrap-server", kafka.bootstrap_servers, *arguments)
        assert result.code == 0, result.err
        return result.out

    with kafka:
        tool("--create", "--topic", "theirs", "--partitions", "3", "--config", "retention.ms=12345")

    ours = OnDisk(config)
    assert list(ours.image.topics.by_name) == ["theirs"]
    assert len(ours.image.topics.by_name["theirs"].partitions) == 3
    assert ours.image.configs.of(2, "theirs") == {"retention.ms": "12345"}
    broker = ours.image.brokers.by_id[1]
    assert broker.fenced
    ours.log.shut_down()

    with kafka:
        tool("--create", "--topic", "more", "--partitions", "1")
        assert tool("--list").split() == ["more", "theirs"]
        quorum = run_tool(
            "kafka-metadata-quorum", "--bootstrap-server", kafka.bootstrap_servers, "describe", "--status"
        )
        assert quorum.code == 0, quorum.err
        epoch = next(line.split()[-1] for line in quorum.lines if line.startswith("LeaderEpoch"))
        assert int(epoch) == 3, "each life of either took one epoch"
    assert sorted(OnDisk(config).image.topics.by_name) == ["more", "theirs"]
