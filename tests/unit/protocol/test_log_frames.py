"""Records as they lie in the metadata log and in the coordinators' topics."""

from __future__ import annotations

import pytest

from protocol.codec.compiler import decode, encode
from protocol.codec.message import Message
from protocol.coordinator_records import (
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
    read_record_type,
)
from protocol.errors import EncodeError, ProtocolError
from protocol.group_log.classic_groups import GroupMetadataKey, GroupMetadataValue
from protocol.group_log.offsets import OffsetCommitKey, OffsetCommitValue
from protocol.metadata_log.cluster import FeatureLevelRecord
from protocol.metadata_log.frame import (
    decode_metadata_record,
    decode_versioned_record,
    encode_metadata_record,
)
from protocol.metadata_log.topics import PartitionRecord, TopicRecord
from protocol.quorum import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.record_types import remote_log_record, share_log_record, transaction_log_record
from protocol.remote_log import RemotePartitionDeleteMetadataRecord
from protocol.share_log import ShareUpdateKey
from protocol.transaction_log import TransactionLogKey, TransactionLogValue

# What `kafka-storage format` of Apache Kafka 4.3.1 writes for metadata.version 30.
FEATURE_LEVEL = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")


def test_a_metadata_record_of_apache_kafka() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert decode_metadata_record(FEATURE_LEVEL) == record
    assert encode_metadata_record(record, 0) == FEATURE_LEVEL


def test_the_version_in_which_a_record_was_written() -> None:
    record = PartitionRecord(partition_id=3, replicas=[1, 2], isr=[1], leader=1, directories=[bytes(16)] * 2)
    assert decode_versioned_record(encode_metadata_record(record, 1)) == (record, 1)


def test_remote_log_records_have_types_of_their_own() -> None:
    record = RemotePartitionDeleteMetadataRecord(broker_id=7)
    raw = encode_metadata_record(record, 0)
    assert raw[:3] == b"\x01\x02\x00"
    assert decode_metadata_record(raw, remote_log_record) == record


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "cut off in its frame"),
        (b"\x01\x8c", "cut off in its frame"),
        (b"\x02" + FEATURE_LEVEL[1:], "frame version 2"),
        (b"\x01\x06\x00", "no metadata record of type 6"),
        (b"\x01\x0c\x01" + FEATURE_LEVEL[3:], "no version 1"),
        (FEATURE_LEVEL[:-1], "malformed|cut off"),
        (FEATURE_LEVEL + b"\x00", "1 bytes are left"),
        (b"\x01\xff\xff\xff\xff\xff\xff", "longer than five"),
    ],
)
def test_bytes_that_are_no_metadata_record(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_metadata_record(raw)


def test_only_metadata_records_are_framed_as_such() -> None:
    with pytest.raises(EncodeError, match="OffsetCommitKey is no record"):
        encode_metadata_record(OffsetCommitKey(), 0)
    with pytest.raises(EncodeError, match="TopicRecord is no key"):
        encode_key(TopicRecord())
    with pytest.raises(EncodeError, match="OffsetCommitKey is no value"):
        encode_value(OffsetCommitKey(), 0)


def test_an_offset_commit() -> None:
    key = OffsetCommitKey(group="g", topic="tt", partition=5)
    value = OffsetCommitValue(offset=9, metadata="m", commit_timestamp=1)
    raw_key, raw_value = encode_key(key), encode_value(value, 3)
    assert raw_key == bytes.fromhex("0001 0001 67 0002 7474 00000005")
    assert raw_value == bytes.fromhex("0003 0000000000000009 ffffffff 0001 6d 0000000000000001")
    assert decode_record(raw_key, raw_value) == (key, value)
    assert decode_value(OffsetCommitValue, raw_value) == (value, 3)


def test_a_tombstone() -> None:
    key = GroupMetadataKey(group="gone")
    assert decode_record(encode_key(key), None) == (key, None)


def test_the_other_coordinators_topics() -> None:
    key = TransactionLogKey(transactional_id="tx")
    value = TransactionLogValue(producer_id=4, next_producer_id=5)
    raw = encode_key(key), encode_value(value, 1)
    assert decode_record(*raw, transaction_log_record) == (key, value)
    share = ShareUpdateKey(group_id="s", topic_id=bytes(range(16)), partition=1)
    assert read_record_type(encode_key(share)) == 1
    assert decode_key(encode_key(share), share_log_record) == share


@pytest.mark.parametrize(
    "raw", [b"", b"\x00", b"\x00\x02\x00\x05grou", encode_key(GroupMetadataKey()) + b"x"]
)
def test_bytes_that_are_no_key(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_key(raw)


def test_unknown_types_and_versions() -> None:
    with pytest.raises(ProtocolError, match="no record of type 9 in __consumer_offsets"):
        decode_key(b"\x00\x09")
    with pytest.raises(ProtocolError, match="no version 5"):
        decode_value(GroupMetadataValue, b"\x00\x05")
    with pytest.raises(ProtocolError, match="no version -1"):
        decode_value(GroupMetadataValue, b"\xff\xff")


VOTERS = (
    "00000200000001188a91c0d9044b95b96456bf5ab90d68020b434f4e54524f4c4c45520a3132372e302e302e31"
    "4a950000000001000000"
)


@pytest.mark.parametrize(
    ("record", "raw"),
    [
        (SnapshotHeaderRecord(), "0000000000000000000000"),
        (SnapshotFooterRecord(), "000000"),
        (KRaftVersionRecord(k_raft_version=1), "0000000100"),
        (
            VotersRecord(
                voters=[
                    VotersRecord.Voter(
                        voter_id=1,
                        voter_directory_id=bytes.fromhex("188a91c0d9044b95b96456bf5ab90d68"),
                        endpoints=[VotersRecord.Endpoint(name="CONTROLLER", host="127.0.0.1", port=19093)],
                        k_raft_version_feature=VotersRecord.KRaftVersionFeature(max_supported_version=1),
                    )
                ]
            ),
            VOTERS,
        ),
    ],
)
def test_the_control_records_of_a_snapshot_of_apache_kafka(record: Message, raw: str) -> None:
    """As `kafka-storage format --standalone` of Apache Kafka 4.3.1 writes them."""
    assert encode(record, 0) == bytes.fromhex(raw)
    assert decode(type(record), 0, bytes.fromhex(raw)) == record
