"""Batches whose header and checksum are good and whose records are nonsense, already in the log.

With the default validation a leader takes most batches on the word of their header, so such batches get
stored. Whoever reads them later must survive: consumers get the bytes as they are, look-ups by time answer
something, a restart finds the log whole, a coordinator loads what it can.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.header import headers, read_header
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.produced import fetched_bytes, list_offset, produce
from tests.support.clients.raw_connection import RawConnection, await_that, serves_others
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

pytestmark = barnabas_only

WALKED = 8
NONSENSE: dict[str, bad.Maker] = {
    "longer": lambda: bad.wrong_inner_length(1),
    "shorter": lambda: bad.wrong_inner_length(-1),
    "negative": bad.negative_record_length,
    "varint": bad.endless_varint,
    "key": lambda: bad.record_with(100),
    "headers": lambda: bad.record_with(3, 10**9),
    "missing": lambda: bad.with_records(bad.plain_records(2), 3),
    "empty": lambda: bad.with_records(b"", 1),
    **{f"random {codec}": partial(bad.random_stream, codec) for codec in (1, 2, 3, 4)},
    **{f"cut {codec}": partial(bad.cut_stream, codec) for codec in (1, 2, 3, 4)},
    "largest count": lambda: bad.with_records(bad.plain_records(1), 2**20),
    "end of time": lambda: bad.lying(max_timestamp=2**63 - 1 - 10**15, base_timestamp=2**62),
}


def store_nonsense(client: RawConnection, topic: str) -> list[bytes]:
    """The first batches of a connection are looked into; so good ones come first. What was stored."""
    sent = [bytes(bad.good()) for _ in range(WALKED)]
    for make in NONSENSE.values():
        sent += [bytes(make()), bytes(bad.good())]
    stored = []
    for batch in sent:
        answer = produce(client, topic, batch)
        if answer.error_code == 0:
            stored.append(batch)
    return stored


def batches_of(data: bytes) -> list[bytes]:
    """Each batch without what the leader writes: base offset and epoch."""
    return [bytes(data[at + 16 : at + header.size_bytes]) for at, header in headers(memoryview(data))]


def assert_readable(address: str, topic: str, stored: list[bytes]) -> None:
    with RawConnection(address) as client:
        records = fetched_bytes(client, topic)
        assert batches_of(records) == [batch[16:] for batch in stored]
        end = sum(read_header(batch).record_count for batch in stored)
        assert list_offset(client, topic, -1).offset == end
        assert list_offset(client, topic, -2).offset == 0
        for timestamp in (0, bad.now_ms() - 1000, bad.now_ms() + 10**9, 2**61, 2**62, 2**63 - 1, -3):
            answer = list_offset(client, topic, timestamp)
            assert answer.error_code in (0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR), (
                timestamp
            )
            assert -1 <= answer.offset <= end
        assert produce(client, topic, bad.good()).base_offset == end


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_readers_and_restarts_survive(new_broker: Callable[..., BarnabasProcess], how: str) -> None:
    broker = new_broker()
    Topics(broker.bootstrap_servers).create("nonsense", config={"segment.bytes": "1048576"})
    with RawConnection(broker.bootstrap_servers) as client:
        stored = store_nonsense(client, "nonsense")
    assert len(stored) > 35, "most are stored on the word of their header"
    assert_readable(broker.bootstrap_servers, "nonsense", stored)
    getattr(broker, how)()
    for index in broker.data.glob("nonsense-0/*index"):
        index.unlink()  # whoever rebuilds them must read the batches
    broker.start_anywhere()
    with RawConnection(broker.bootstrap_servers) as client:
        after = fetched_bytes(client, "nonsense")
        stored = [bytes(16) + batch for batch in batches_of(after)[:-1]]
        assert list_offset(client, "nonsense", bad.now_ms()).error_code == 0
    assert len(stored) > 35
    assert "Traceback" not in broker.log_file.read_text()


GARBAGE_RECORDS = [
    SimpleRecord(b"", b"", 1),
    SimpleRecord(b"\0", b"\0", 1),
    SimpleRecord(b"\0\1", b"\0\1", 1),
    SimpleRecord(b"\0\1\xff\xff", b"", 1),
    SimpleRecord(b"\0\1\0\5group", b"\0\4", 1),
    SimpleRecord(b"\0\2\0\5group", b"\0\3\0\x7fconsumer", 1),
    SimpleRecord(b"\0\2\0\5group", b"\0\x63", 1),
    SimpleRecord(b"\x7f\xff\0\0", b"\x7f\xff", 1),
    SimpleRecord(b"\xff\xff", None, 1),
    SimpleRecord(
        b"\0\1" + struct.pack(">h", 5) + b"group" + struct.pack(">h", 1) + b"t" + b"\0\0\0\0",
        b"\0\3" + bytes(3),
        1,
    ),
]


def group_works(address: str) -> None:
    """The group commits an offset and reads it back."""
    with RawConnection(address) as client:

        def found() -> bool:
            request = FindCoordinatorRequest(coordinator_keys=["group"])
            answer = client.ask_for(FindCoordinatorResponse, request, 4)
            return answer.coordinators[0].error_code == 0

        await_that("a coordinator is there", found)
        part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7)
        commit = OffsetCommitRequest(
            "group", topics=[OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[part])]
        )

        def committed() -> bool:
            answer = client.ask_for(OffsetCommitResponse, commit, 8)
            code = answer.topics[0].partitions[0].error_code
            assert code in (
                0,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
            return code == 0

        await_that("the offset is committed", committed)
        ask = OffsetFetchRequest("group", [OffsetFetchRequest.OffsetFetchRequestTopic("t", [0])])
        answer = client.ask_for(OffsetFetchResponse, ask, 7)
        assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, 7)


def partition_of(group: str) -> int:
    """Where the group lives: Java's String.hashCode, and fifty partitions."""
    number = 0
    for character in group:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % 50


def test_a_coordinator_loads_past_garbage(new_broker: Callable[..., BarnabasProcess]) -> None:
    """Records that are whole and mean nothing, written by one who may; then batches that are not even whole,
    put into the segment by a disk or a tool gone wrong."""
    broker = new_broker()
    Topics(broker.bootstrap_servers).create("t")
    group_works(broker.bootstrap_servers)
    index = partition_of("group")
    with RawConnection(broker.bootstrap_servers, client_id="__admin_client") as client:
        for record in GARBAGE_RECORDS:
            assert produce(client, "__consumer_offsets", build_batch([record]), index).error_code == 0
    broker.stop()
    broker.start_anywhere()
    group_works(broker.bootstrap_servers)
    broker.stop()
    end = append_to_segment(broker.data / f"__consumer_offsets-{index}")
    broker.start_anywhere()
    with RawConnection(broker.bootstrap_servers) as client:
        assert list_offset(client, "__consumer_offsets", -1, index).offset >= end
    group_works(broker.bootstrap_servers)
    serves_others(broker.bootstrap_servers)
    text = broker.log_file.read_text()
    assert "Traceback" not in text
    assert f"__consumer_offsets-{index}" in text, "what is passed over is reported"


def append_to_segment(directory: Path) -> int:
    """Nonsense with good headers and the offsets that follow, behind a clean stop's last byte; the new
    end."""
    segment = max(directory.glob("*.log"))
    offset = 0
    for _, header in headers(segment.read_bytes()):
        offset = header.next_offset
    with open(segment, "ab") as file:
        for make in NONSENSE.values():
            batch = bad.lying(bytearray(make()), leader_epoch=0, base_offset=offset)
            offset += read_header(batch).record_count
            file.write(batch)
    return offset
