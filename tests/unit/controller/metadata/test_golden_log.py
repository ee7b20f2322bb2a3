"""A metadata log that Apache Kafka 4.3.1 wrote, read by us; `golden/regenerate.py` makes it anew."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, image_records, replay
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch
from controller.metadata.metadata_version import record_version
from controller.metadata.records import build_metadata_batch, read_metadata_batches
from controller.metadata.snapshots import BOOTSTRAP_FILE, decode_snapshot
from controller.metadata.supported_features import SUPPORTED_FEATURES, unsupported_levels
from controller.raft.quorum_state import QuorumStateFile, encode
from controller.raft.quorum_state import read as read_quorum_state
from controller.raft.voters import NO_VOTERS, VoterHistory
from protocol.codec.message import Message
from protocol.metadata_log.cluster import FeatureLevelRecord
from protocol.metadata_log.registrations import RegisterBrokerRecord, RegisterControllerRecord
from protocol.record_types import MetadataRecordType
from protocol.records.header import headers
from storage.memory_files import MemoryFiles

GOLDEN = Path(__file__).parent / "golden"
LOG = (GOLDEN / "00000000000000000000.log").read_bytes()


def batches() -> list[MetadataBatch]:
    return read_metadata_batches(LOG)


def dumped() -> list[Mapping[str, object]]:
    """What kafka-dump-log printed, a record a line."""
    return [json.loads(line) for line in (GOLDEN / "records.jsonl").read_text().splitlines()]


def replayed(up_to_offset: int | None = None) -> ClusterImage:
    replayer = ImageReplayer()
    for batch in batches():
        if up_to_offset is not None and batch.last_offset >= up_to_offset:
            break
        replayer.replay_batch(batch)
    return replayer.image


def the_snapshot() -> Path:
    (path,) = GOLDEN.glob("0*.checkpoint")
    return path


def test_every_record_reads_as_kafkas_own_tool_reads_it() -> None:
    ours = [record for batch in batches() for record in batch.records]
    theirs = dumped()
    assert len(ours) == len(theirs) > 80
    for record, line in zip(ours, theirs, strict=True):
        assert record.declaration.key == MetadataRecordType[str(line["type"])]
        data = line["data"]
        assert isinstance(data, dict)
        for name, value in data.items():
            field = re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match[1].lower(), name)
            assert hasattr(record, field), (line["type"], name)
            own = getattr(record, field)
            if isinstance(own, int | str | bool | float) and not isinstance(value, str | dict | list):
                assert own == value, (line["type"], name)


def test_our_versions_are_those_that_kafka_writes() -> None:
    ours = [record for batch in batches() for record in batch.records]
    for record, line in zip(ours, dumped(), strict=True):
        assert record_version(record) == line["version"], line


def test_a_batch_written_by_us_is_kafkas_byte_for_byte() -> None:
    compared = 0
    for position, header in headers(LOG):
        if header.is_control:
            continue
        size = header.size_bytes
        (batch,) = read_metadata_batches(LOG[position : position + size])
        again = build_metadata_batch(
            batch.records, base_offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=batch.timestamp_ms
        )
        assert bytes(again) == LOG[position : position + size]
        compared += 1
    assert compared > 30


def test_our_image_is_the_one_of_kafkas_snapshot() -> None:
    path = the_snapshot()
    end_offset, epoch = int(path.name[:20]), int(path.name[21:31])
    snapshot = decode_snapshot(path.read_bytes(), path.name)
    from_snapshot, _ = replay(EMPTY_IMAGE, snapshot.records, offset=end_offset - 1, epoch=epoch)
    from_log = replayed(end_offset)
    assert from_log.offset == end_offset - 1
    assert msgspec.structs.replace(from_log, timestamp_ms=0) == from_snapshot
    assert len(from_snapshot.topics.by_name) == 2
    assert snapshot.last_contained_timestamp_ms == from_log.timestamp_ms
    assert snapshot.kraft_version == 1


def test_our_snapshot_of_it_has_the_records_of_kafkas() -> None:
    path = the_snapshot()
    snapshot = decode_snapshot(path.read_bytes(), path.name)
    theirs = list(snapshot.records)
    for record in image_records(replayed(int(path.name[:20]))):
        matching = [other for other in theirs if _in_one_order(other) == _in_one_order(record)]
        assert len(matching) == 1, record
        theirs.remove(matching[0])
    assert theirs == []


def _in_one_order(record: Message) -> Message:
    """Kafka keeps a registration's features in a hash map: their order means nothing."""
    if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
        ordered = sorted(record.features, key=lambda feature: feature.name)
        return msgspec.structs.replace(record, features=ordered)
    return record


def test_the_whole_log_ends_with_what_the_tools_had_done() -> None:
    image = replayed()
    assert sorted(image.topics.by_name) == ["a.b", "last", "orders"]
    assert list(image.topics.by_name["orders"].partitions) == [0, 1, 2, 3, 4]
    assert image.configs.of(2, "orders") == {"segment.ms": "60000"}
    assert image.configs.of(2, "gone") == {}
    assert image.configs.of(4, "") == {"log.segment.bytes": "2000000", "min.insync.replicas": "1"}
    assert [key[1] for key in image.scram.by_key] == ["alice"]
    assert len(image.acls.by_id) == 1
    assert dict(image.quotas.by_entity) == {(("user", "alice"),): {"producer_byte_rate": 1000.0}}
    assert image.producer_ids.next_producer_id == 1000
    broker = image.brokers.by_id[1]
    assert broker.fenced
    assert broker.in_controlled_shutdown
    partition = image.topics.by_name["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))
    assert list(image.controllers.by_id) == [1]


def test_its_features_are_beyond_ours_and_each_is_named() -> None:
    sentences = unsupported_levels(replayed().features, SUPPORTED_FEATURES)
    assert len(sentences) == 2
    assert "share.version is finalized at level 1, and this version does not know it" in sentences


def test_its_voters_are_in_the_log() -> None:
    history = VoterHistory(NO_VOTERS)
    for position, header in headers(LOG):
        if header.is_control:
            history.read(LOG, position, header.base_offset)
    assert history.version == 1
    assert list(history.voters.by_id) == [1]
    formatted = decode_snapshot((GOLDEN / "format.checkpoint").read_bytes(), "format")
    assert formatted.voters == history.voters.to_record()
    assert formatted.records == []


def test_the_bootstrap_file_lists_feature_levels() -> None:
    bootstrap = decode_snapshot((GOLDEN / BOOTSTRAP_FILE).read_bytes(), BOOTSTRAP_FILE)
    assert bootstrap.voters is None
    assert bootstrap.records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_the_quorum_state_file_is_kafkas_byte_for_byte() -> None:
    files = MemoryFiles()
    content = (GOLDEN / "quorum-state").read_bytes()
    files.write_atomically("/quorum-state", content)
    state = read_quorum_state(files, "")
    assert state == QuorumStateFile(leader_epoch=2, leader_id=1)
    assert encode(state) == content


@pytest.mark.parametrize("cut", [1, 60, 61, 80])
def test_a_cut_off_last_batch_is_left_out(cut: int) -> None:
    whole = [batch.last_offset for batch in batches()]
    assert [batch.last_offset for batch in read_metadata_batches(LOG[:-cut])] == whole[:-1]
