"""Clients that send their requests and close the sending side: all of them are answered, then the end comes.

The tests ask Barnabas or Apache Kafka.
"""

from __future__ import annotations

import time
from typing import Final

import pytest

from protocol.codec.message import Message
from protocol.framing import encode_request_frame
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.hostile.conftest import AnyBroker
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.wire_client import WireClient

TOPIC: Final = "half-closed"
LONG_POLL_MS: Final = 500
REBALANCE_MS: Final = 1_000


@pytest.fixture(scope="module")
def address(broker: AnyBroker) -> str:
    with WireClient(broker.bootstrap_servers) as client:
        topic = CreateTopicsRequest.CreatableTopic(TOPIC, 1, 1)
        answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 30_000), 7)
        assert answer.topics[0].error_code == 0
        wait_for_the_leader(client)
    return broker.bootstrap_servers


def wait_for_the_leader(client: WireClient) -> None:
    """Until then a fetch is refused at once."""
    deadline = time.monotonic() + 90
    while client.ask_for(FetchResponse, *fetch()).responses[0].partitions[0].error_code:
        assert time.monotonic() < deadline, "the topic has no leader"
        time.sleep(0.05)


def metadata() -> tuple[Message, int]:
    return MetadataRequest([]), 9


def fetch() -> tuple[Message, int]:
    """Of an empty partition: it waits."""
    partition = FetchRequest.FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])
    return FetchRequest(max_wait_ms=LONG_POLL_MS, min_bytes=1, session_epoch=-1, topics=[topic]), 11


def join(group: str, instance: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=REBALANCE_MS,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", b"")],
    )


def is_at_work(client: WireClient, group: str) -> bool:
    """It has joined and asked for its share: nobody waits for a member that is late with that."""
    joined = client.ask_for(JoinGroupResponse, join(group, "first"), 5)
    share = SyncGroupRequest(group, joined.generation_id, joined.member_id, "first")
    return joined.error_code == 0 and client.ask_for(SyncGroupResponse, share, 3).error_code == 0


def half_closed(address: str, *requests: tuple[Message, int], after_seconds: float) -> list[int]:
    """Correlation ids of the answers until the end, to requests numbered from 1."""
    with RawConnection(address, timeout_seconds=90) as client:
        for number, (request, version) in enumerate(requests, 1):
            client.send_bytes(encode_request_frame(request, version, number, "half"))
        time.sleep(after_seconds)
        client.half_close()
        answered = []
        while (frame := client.answer_or_end()) is not None:
            answered.append(int.from_bytes(frame[:4], "big"))
        return answered


@pytest.mark.parametrize("after_seconds", [0, 0.1])
def test_requests_that_are_answered_at_once(address: str, after_seconds: float) -> None:
    for count in (1, 5, 100):
        requests = [metadata()] * count
        assert half_closed(address, *requests, after_seconds=after_seconds) == list(range(1, count + 1))


@pytest.mark.parametrize("after_seconds", [0, 0.1])
def test_long_polls_and_what_stands_behind_them(address: str, after_seconds: float) -> None:
    began = time.monotonic()
    requests = [metadata(), fetch(), metadata(), fetch(), metadata(), metadata()]
    assert half_closed(address, *requests, after_seconds=after_seconds) == [1, 2, 3, 4, 5, 6]
    assert time.monotonic() - began > 2 * LONG_POLL_MS / 1000 * 0.9, "they have waited"


@pytest.mark.parametrize("after_seconds", [0, 0.1])
def test_a_join_that_waits_for_the_other_members(address: str, after_seconds: float) -> None:
    group = f"half-closed {after_seconds}"
    deadline = time.monotonic() + 90
    with WireClient(address) as first:
        while not is_at_work(first, group):
            assert time.monotonic() < deadline, "the first member cannot join"
            first.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
            time.sleep(0.1)
        began = time.monotonic()
        requests = [(join(group, "second"), 5), metadata()]
        assert half_closed(address, *requests, after_seconds=after_seconds) == [1, 2]
        assert time.monotonic() - began > REBALANCE_MS / 1000 * 0.9, "it has waited"


def test_a_request_that_is_cut_off_is_none(address: str) -> None:
    whole = encode_request_frame(*metadata(), 1, "half")
    with RawConnection(address, timeout_seconds=90) as client:
        client.send_bytes(whole + whole[:-1])
        client.half_close()
        assert client.receive()[:4] == (1).to_bytes(4, "big")
        assert client.remaining() == b""
