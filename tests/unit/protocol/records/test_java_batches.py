"""Batches of Apache Kafka's own builder: read alike, built alike, and ours read by Kafka."""

import json
import subprocess
from typing import Any

import pytest

from protocol.records.builder import (
    LOG_APPEND_TIME,
    BatchBuilder,
    SimpleRecord,
    build_batch,
    build_empty_batch,
)
from protocol.records.compression import CODECS, decompress
from protocol.records.control import (
    ControlRecordType,
    TransactionMarker,
    build_control_batch,
    build_marker_batch,
    control_type,
    read_marker,
)
from protocol.records.header import HEADER_BYTES, is_intact, read_header
from protocol.records.reader import batch_records, plain_records, records
from protocol.records.walk import walk
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.samples.record_corpus import (
    CORPUS,
    ORACLE,
    T,
    as_row,
    java_batches,
    many_records,
    mixed_records,
)

BATCHES = {case["name"]: case for case in java_batches()}
NAMES = [pytest.param(name, id=name.replace(" ", "-")) for name in BATCHES]


def bytes_of(name: str) -> bytes:
    return bytes.fromhex(BATCHES[name]["hex"])


@pytest.mark.parametrize("name", NAMES)
def test_the_header_says_what_kafka_reads_in_it(name: str) -> None:
    case, data = BATCHES[name], bytes_of(name)
    header = read_header(data)
    assert case["valid"]
    assert is_intact(data, 0, header)
    assert {field: getattr(header, field) for field in case["header"]} == case["header"]


@pytest.mark.parametrize("name", [name for name in BATCHES if not name.startswith("ninety")])
def test_the_records_are_those_that_kafka_finds(name: str) -> None:
    data = bytes_of(name)
    found = list(records(data, check_crc=True))
    assert [as_row(record) for record in found] == BATCHES[name]["records"]
    assert list(batch_records(data + data[:-1])) == found


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name)
def test_large_batches_span_many_compressed_blocks(codec: Any) -> None:
    found = list(records(bytes_of(f"ninety kilobytes, {codec.name}")))
    expected = [(i, r.timestamp, r.key, r.value) for i, r in enumerate(many_records())]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found] == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_walk_agrees_with_the_records(name: str) -> None:
    data = bytes_of(name)
    header = read_header(data)
    found = list(records(data))
    walked = walk(plain_records(data, 0, header), header.record_count)
    assert walked.record_count == len(found)
    if found and not header.timestamp_type:
        times = [record.timestamp for record in found]
        assert header.base_timestamp + walked.max_timestamp_delta == max(times) == header.max_timestamp
        assert header.base_timestamp + walked.min_timestamp_delta == min(times)
        assert walked.max_timestamp_index == times.index(max(times))
    keyless = [index for index, record in enumerate(found) if record.key is None]
    assert walked.first_without_key == (keyless[0] if keyless else -1)
    offsets = [record.offset - header.base_offset for record in found]
    assert walked.offsets_are_sequential == (offsets == list(range(len(found))))


def our_uncompressed_batches() -> dict[str, bytearray]:
    gaps = BatchBuilder(base_offset=100)
    gaps.append(b"a", b"1", T, offset_delta=0)
    gaps.append(b"b", b"2", T + 1, offset_delta=3)
    gaps.append(b"c", b"3", T + 2, offset_delta=8900)
    producer: Any = {"producer_id": 4711, "producer_epoch": 3}
    quorum: Any = {"timestamp_ms": T, "leader_epoch": 2}
    return {
        "mixed records, none": build_batch(mixed_records()),
        "one record, none": build_batch([SimpleRecord(None, b"x", T)]),
        "large value": build_batch([SimpleRecord(b"k", b"0123456789" * 900, T)]),
        "idempotent": build_batch(mixed_records(), base_sequence=2147483646, **producer),
        "transactional": build_batch(
            mixed_records(),
            base_offset=10**6,
            base_sequence=17,
            leader_epoch=9,
            transactional=True,
            **producer,
        ),
        "append time": build_batch(
            mixed_records(), base_offset=42, timestamp_type=LOG_APPEND_TIME, append_time_ms=T + 9
        ),
        "no timestamp": build_batch([SimpleRecord(b"k", b"v")]),
        "offsets with gaps": gaps.build(),
        "empty batch": build_empty_batch(read_header(bytes_of("empty batch"))),
        "marker COMMIT": build_marker_batch(
            TransactionMarker(True, 12), timestamp_ms=T, base_offset=33, leader_epoch=6, **producer
        ),
        "marker ABORT": build_marker_batch(
            TransactionMarker(False, 12), timestamp_ms=T, base_offset=33, leader_epoch=6, **producer
        ),
        **{
            name: build_control_batch([(kind, value_of(name))], base_offset=offset, **quorum)
            for name, kind, offset in QUORUM_RECORDS
        },
    }


QUORUM_RECORDS = [
    ("leader change", ControlRecordType.LEADER_CHANGE, 5),
    ("snapshot header", ControlRecordType.SNAPSHOT_HEADER, 0),
    ("snapshot footer", ControlRecordType.SNAPSHOT_FOOTER, 9),
    ("kraft version", ControlRecordType.KRAFT_VERSION, 1),
    ("voters", ControlRecordType.KRAFT_VOTERS, 2),
]


def value_of(name: str) -> bytes:
    (record,) = records(bytes_of(name))
    assert record.value is not None
    return record.value


@pytest.mark.parametrize("name", list(our_uncompressed_batches()))
def test_our_batch_is_kafkas_to_the_byte(name: str) -> None:
    assert our_uncompressed_batches()[name].hex() == BATCHES[name]["hex"]


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    ("title", "contents"), [("mixed records", mixed_records), ("ninety kilobytes", many_records)]
)
def test_compressed_batches_hold_the_same_bytes(codec: Any, title: str, contents: Any) -> None:
    theirs = bytes_of(f"{title}, {codec.name}")
    ours = build_batch(contents(), codec=codec.number)
    limit = 200_000
    plain = decompress(codec.number, memoryview(theirs)[HEADER_BYTES:], limit)
    assert decompress(codec.number, memoryview(ours)[HEADER_BYTES:], limit) == plain
    assert ours[21:HEADER_BYTES] == theirs[21:HEADER_BYTES]


def test_control_records_are_told_apart() -> None:
    for name, kind, _ in QUORUM_RECORDS:
        (record,) = records(bytes_of(name))
        assert control_type(record.key) is kind
        assert read_marker(record.key, record.value) is None
    (commit,) = records(bytes_of("marker COMMIT"))
    (abort,) = records(bytes_of("marker ABORT"))
    assert read_marker(commit.key, commit.value) == TransactionMarker(committed=True, coordinator_epoch=12)
    assert read_marker(abort.key, abort.value) == TransactionMarker(committed=False, coordinator_epoch=12)


def run_oracle(mode: str, text: str = "") -> list[dict[str, Any]]:
    command = ["java", "-Xmx256m", "-cp", f"{kafka_jars()}/*", str(ORACLE), mode]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.java
def test_the_corpus_is_what_kafka_builds_today() -> None:
    """To renew it: `java -cp '<jars>/*' RecordsOracle.java generate > java_batches.jsonl` in its folder."""
    generated = run_oracle("generate")
    assert [case["name"] for case in generated] == list(BATCHES), f"renew {CORPUS / 'java_batches.jsonl'}"
    for case in generated:
        assert case == BATCHES[case["name"]]


@pytest.mark.java
def test_kafka_reads_what_we_build() -> None:
    ours = [build_batch(mixed_records(), codec=codec.number, base_offset=7) for codec in CODECS]
    ours += [build_batch(many_records(), codec=codec.number) for codec in CODECS]
    ours += [build_batch(many_records()[:50], codec=2, level=level) for level in (None, 1)]
    ours += [build_batch(many_records(), codec=3, level=level) for level in (1, 9, 17)]
    ours += [build_batch(many_records(), codec=4, level=level) for level in (-5, 1, 19)]
    ours += [build_batch(mixed_records(), timestamp_type=LOG_APPEND_TIME, append_time_ms=T + 9, codec=4)]
    found = run_oracle("read", "\n".join(batch.hex() for batch in ours))
    assert len(found) == len(ours)
    for batch, case in zip(ours, found, strict=True):
        assert case.get("valid"), case
        assert case["records"] == [as_row(record) for record in records(batch)]
