"""`barnabas dump` beside kafka-dump-log: the same lines for every kind of file and every option."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import msgspec
import pytest

from broker.__main__ import main
from broker.ports.files import RealFiles
from protocol.codec.compiler import encode
from protocol.codec.message import Message
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.group_log.classic_groups import GroupMetadataKey, GroupMetadataValue
from protocol.group_log.offsets import OffsetCommitKey, OffsetCommitValue
from protocol.metadata_log.cluster import ConfigRecord
from protocol.metadata_log.frame import encode_metadata_record
from protocol.records.builder import BatchBuilder
from protocol.records.reader import Record
from storage.dump.decoders import REDACTED, as_cluster_metadata
from storage.producer_snapshot import encode_snapshot
from storage.producer_state import ProducerBatch, ProducerEntry
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.log_rig import NOW_MS, LogRig
from tests.support.rigs.transactions import TransactionWriter
from tests.unit.storage.test_dump_log import filled

pytestmark = pytest.mark.java

GOLDEN_METADATA = Path(__file__).parents[1] / "controller" / "metadata" / "golden"
SUBSCRIPTION = encode(ConsumerProtocolSubscription(topics=["t"]), 3)
OLD_SUBSCRIPTION = encode(ConsumerProtocolSubscription(topics=["t"], user_data=b"u"), 1)
ASSIGNMENT = encode(
    ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignment.TopicPartition("t", [0, 1])], user_data=b"u"
    ),
    3,
)
SECRETS = re.compile(r'"(salt|storedKey|serverKey)":"[^"]*"')
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


def compare(
    capsys: pytest.CaptureFixture[str], files: list[Path], *options: str, complaints: bool = True
) -> str:
    """Both tools on the same files; what they both said."""
    genuine = run_tool("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
    code = main(["dump", *map(str, files), *options])
    ours = capsys.readouterr()
    assert one_newline(ours.out) == without_secrets(one_newline(genuine.out))
    if complaints:
        assert ours.err.splitlines() == [line for line in genuine.err.splitlines() if "\tat " not in line]
    assert code == 0
    return ours.out


def without_secrets(text: str) -> str:
    """What Kafka prints of SCRAM credentials, as we show it."""
    lines = text.split("\n")
    hidden = [
        SECRETS.sub(r'"\1":"(redacted)"', line) if '"USER_SCRAM_CREDENTIAL_RECORD"' in line else line
        for line in lines
    ]
    return "\n".join(hidden)


def one_newline(text: str) -> str:
    """Values hold carriage returns too; what a pipe makes of them is not our matter."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """A log with all codecs, transactions, tombstones, headers, and everything beside it."""
    rig = filled(tmp_path)
    writer = TransactionWriter(rig.log)
    writer.write(77, key=b"key")
    writer.end(77, commit=False)
    writer.write(77)
    builder = BatchBuilder()
    builder.append(b"key", None, NOW_MS + 1, (("h", b"v"), ("nothing", None)))
    builder.append(b"", b"", NOW_MS + 2)
    rig.log.append_as_leader(memoryview(builder.build()), leader_epoch=3, now_ms=NOW_MS)
    builder = BatchBuilder(delete_horizon_ms=NOW_MS + 5)
    builder.append(b"key", None, NOW_MS)
    rig.log.append_internal(builder.build(), leader_epoch=3, now_ms=NOW_MS)
    rig.close()
    return sorted(path for path in Path(rig.directory).iterdir() if path.suffix in SUFFIXES)


@pytest.mark.parametrize(
    "options", [(), ("--deep-iteration",), ("--print-data-log",), ("--verify-index-only",),
                ("--index-sanity-check",), ("--skip-record-metadata", "--print-data-log"),
                ("--max-bytes", "5000")],
)  # fmt: skip
def test_a_log_and_all_beside_it(
    logs: list[Path], options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    # With records Kafka's tool complains of each segment that does not begin at 0; we do not.
    is_deep = {"--deep-iteration", "--print-data-log"} & set(options)
    out = compare(capsys, logs, *options, complaints=not is_deep)
    assert out.count("Dumping ") == len(logs) > 8


def coordinator_record(
    key: Message, key_type: int, value: Message | None, version: int
) -> tuple[bytes, bytes | None]:
    head = struct.pack(">h", key_type)
    body = None if value is None else struct.pack(">h", version) + bytes(encode(value, version))
    return head + bytes(encode(key, 0)), body


def test_records_of_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig = LogRig(RealFiles(), directory=str(tmp_path / "__consumer_offsets-0"))
    member = GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="c", client_host="/127.0.0.1", rebalance_timeout=1000,
        session_timeout=2000, subscription=b"\0\1abc", assignment=b"",
    )  # fmt: skip
    offset_key, group_key = OffsetCommitKey("g", "t", 3), GroupMetadataKey("g")
    builder = BatchBuilder()
    for key, value in (
        coordinator_record(
            offset_key, 1, OffsetCommitValue(offset=5, metadata="é", commit_timestamp=NOW_MS), 3
        ),
        coordinator_record(offset_key, 1, OffsetCommitValue(offset=6, topic_id=bytes(range(16))), 4),
        coordinator_record(offset_key, 1, None, 0),
        coordinator_record(
            group_key, 2, GroupMetadataValue(protocol_type="consumer", generation=2, members=[member]), 3
        ),
        *(
            coordinator_record(
                group_key,
                2,
                GroupMetadataValue(
                    protocol_type=protocol_type,
                    members=[
                        msgspec.structs.replace(member, subscription=subscription, assignment=assignment)
                    ],
                ),
                3,
            )
            for protocol_type in ("consumer", "connect")
            for subscription in (b"", b"\0\1abc", b"\0\3" + SUBSCRIPTION, b"\0\1" + OLD_SUBSCRIPTION)
            for assignment in (b"", b"\0\1", b"\0\0" + ASSIGNMENT, b"\0\1" + ASSIGNMENT)
        ),
        (struct.pack(">h", 99) + b"of a later release", b"\0\0"),
        (b"\0", b"\0\0"),
    ):
        builder.append(key, value, NOW_MS)
    rig.log.append_internal(builder.build(), leader_epoch=0, now_ms=NOW_MS)
    rig.close()
    out = compare(capsys, [Path(rig.log.segments[0].path(".log"))], "--offsets-decoder")
    assert '"topicId":"AAECAwQFBgcICQoLDA0ODw"' in out
    assert "Unknown record type 99" in out


def test_the_metadata_log_and_its_snapshots(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(path for path in GOLDEN_METADATA.iterdir() if path.name[0] == "0" or "boot" in path.name)
    assert len(files) >= 3
    out = compare(capsys, files, "--cluster-metadata-decoder")
    assert "KRaftVoters" in out
    assert '"salt":"(redacted)","storedKey":"(redacted)","serverKey":"(redacted)"' in out
    assert '"type":"PARTITION_RECORD"' in out
    assert "KRaft bootstrap snapshot" in out


def test_producers_without_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a group coordinator is one, in the log of offsets that belong to transactions."""
    entries = [
        ProducerEntry(6, 0, (ProducerBatch(-1, -1, 10, 10, NOW_MS),), NOW_MS, 0),
        ProducerEntry(7, 1, (ProducerBatch(-1, -1, 11, 14, NOW_MS),), NOW_MS, 0, 11),
        ProducerEntry(8, 2, (ProducerBatch(2147483646, 1, 15, 18, NOW_MS),), NOW_MS),
    ]
    file = tmp_path / "__consumer_offsets-0" / "00000000000000000019.snapshot"
    file.parent.mkdir()
    file.write_bytes(encode_snapshot(entries))
    out = compare(capsys, [file])
    first = [line.partition("firstSequence: ")[2].split()[0] for line in out.splitlines()[1:]]
    assert first == ["2147483647", "2147483644", "2147483646"]


def test_damage_is_shown(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    log, index = logs[1], logs[0]
    assert (log.suffix, index.suffix) == (".log", ".index")
    data = bytearray(log.read_bytes())
    data[5100] ^= 0xFF
    log.write_bytes(data[:-7])
    entries = bytearray(index.read_bytes())
    entries[11] += 1
    index.write_bytes(entries)
    out = compare(capsys, [log])
    assert "isvalid: false" in out
    assert "invalid bytes at the end of 00000000000000000000.log" in out
    main(["dump", str(index)])
    assert "Mismatches in :" in capsys.readouterr().err


def test_what_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strange = tmp_path / "nothing.log"
    strange.write_bytes(b"")
    assert main(["dump", str(strange), str(tmp_path / "missing.log")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "the name of a segment is its first offset" in lines[0]
    assert "twenty digits" in lines[1] or "No such file" in lines[1]


@pytest.mark.parametrize("option", [(), ("--verify-index-only",), ("--index-sanity-check",)])
def test_indexes_without_entries(
    tmp_path: Path, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"{0:020}{suffix}" for suffix in (".log", ".index", ".timeindex")]
    for file in files:
        file.touch()
    assert "0.index is empty." in compare(capsys, files[1:], *option)


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        (4, "listener.name.ssl.ssl.keystore.password", REDACTED),
        (4, "listener.name.ssl.ssl.keystore.key", REDACTED),
        (4, "my.plugin.token", REDACTED),
        (4, "listener.name.ssl.ssl.keystore.location", "geheim"),
        (2, "retention.ms", "geheim"),
    ],
)
def test_secrets_of_the_metadata_log_are_not_shown(kind: int, name: str, shown: str) -> None:
    record = ConfigRecord(resource_type=kind, resource_name="1", name=name, value="geheim")
    read = Record(0, 0, None, encode_metadata_record(record, 0), ())
    _, text = as_cluster_metadata(read)
    assert json.loads(text or "")["data"]["value"] == shown
