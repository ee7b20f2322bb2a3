"""Directories that Apache Kafka 4.3.1 wrote, ended in order or killed: every record is there for us."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from broker.ports.files import RealFiles
from protocol.records.reader import batch_records
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.partition_log import PartitionLog
from tests.support.rigs.log_rig import everything, found_largest_timestamp, found_since
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce

GOLDEN = Path(__file__).parent / "golden"
KAFKA_INTERVAL_BYTES = 1024


def unpack(name: str, target: Path) -> Path:
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target


def opened(path: Path) -> LogManager:
    return LogManager(
        RealFiles(),
        [str(path)],
        clock=ManualClock(),
        random_source=NoRandomSource(),
        offload=RunsAtOnce(),
        default_config=LogConfig(index_interval_bytes=KAFKA_INTERVAL_BYTES),
    )


def seen(log: PartitionLog) -> list[list[object]]:
    return [
        [record.offset, record.timestamp, (record.key or b"").decode(), len(record.value or b"")]
        for record in batch_records(everything(log))
    ]


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_every_record_is_there(name: str, tmp_path: Path) -> None:
    manager = opened(unpack(name, tmp_path))
    report = manager.start()
    log = manager.logs["orders", 0]
    expected = json.loads((GOLDEN / f"{name}.json").read_text())
    assert seen(log) == expected
    assert log.log_end_offset == len(expected)
    assert report.problems == []
    assert report.scanned_segments == (0 if name == "clean" else 2)
    assert len(log.producer_state) == 5
    assert log.leader_epochs.entries() == [(0, 0)]
    assert found_since(log, 1_700_000_039_000) == (1_700_000_039_000, 39, 0)
    assert found_largest_timestamp(log) == (1_700_000_039_000, 39, 0)
    assert found_since(log, 1_700_000_039_001) is None


def test_our_indexes_of_kafkas_log_are_kafkas_to_the_byte(tmp_path: Path) -> None:
    directory = unpack("clean", tmp_path) / "orders-0"
    theirs = {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.suffix in (".index", ".timeindex")
    }
    for name in theirs:
        (directory / name).unlink()
    manager = opened(tmp_path)
    manager.start()
    manager.shut_down()
    assert {name: (directory / name).read_bytes() for name in theirs} == theirs
    assert sum(map(len, theirs.values())) > 100


def test_our_snapshot_of_kafkas_producers_is_kafkas_to_the_byte(tmp_path: Path) -> None:
    directory = unpack("clean", tmp_path) / "orders-0"
    snapshot = directory / "00000000000000000400.snapshot"
    theirs = snapshot.read_bytes()
    snapshot.unlink()
    manager = opened(tmp_path)
    manager.start()
    manager.shut_down()
    entry = 46
    ours = snapshot.read_bytes()
    assert ours[6:10] == theirs[6:10]
    assert sorted(ours[at : at + entry] for at in range(10, len(ours), entry)) == sorted(
        theirs[at : at + entry] for at in range(10, len(theirs), entry)
    )


def test_identity_and_checkpoints_are_understood(tmp_path: Path) -> None:
    manager = opened(unpack("clean", tmp_path))
    manager.start()
    directory = manager.directories[0]
    assert directory.had_clean_shutdown
    assert directory.properties is not None
    assert directory.properties.node_id == 1
    assert directory.properties.cluster_id == "bWVhc3VyZW9mYWxsdGhpbg"
    assert len(directory.directory_id or b"") == 16
    assert directory.recovery_points["orders", 0] == 400
    assert manager.logs["orders", 0].high_watermark == 400
    assert len(manager.logs["orders", 0].topic_id) == 16
    manager.shut_down(broker_epoch=9)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":9}'
