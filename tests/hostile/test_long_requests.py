"""Requests of a few megabytes that are nothing but long arrays, while somebody else asks for little.

Each took the loop for seconds once, and up to gigabytes of memory. What is asked here is generous, and time
in which broker or client waited for a processor does not count: a machine that is busy with something else
must not fail it, and what it is to find was ten times as much.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.clients.raw_connection import RawConnection, await_that, resident_bytes
from tests.support.clients.topics import Topics
from tests.support.clients.wire_client import WireClient
from tests.support.fuzz.watcher import ProcessorWait, own_ns

pytestmark = barnabas_only

MIB = 1 << 20
PATIENCE_SECONDS = 3.0
MOST_MEMORY_BYTES = 256 * MIB

Topic = OffsetFetchRequest.OffsetFetchRequestTopic
Group = OffsetFetchRequest.OffsetFetchRequestGroup
Resource = DescribeConfigsRequest.DescribeConfigsResource

REFUSED: dict[str, tuple[Message, int]] = {
    "two million groups without a name": (DescribeGroupsRequest(groups=[""] * 2_000_000), 5),
    "four million coordinators": (FindCoordinatorRequest(coordinator_keys=[""] * 4_000_000), 4),
    "a million topics to fetch from": (FetchRequest(topics=[FetchRequest.FetchTopic("")] * MIB), 12),
    "a million protocols of a member": (
        JoinGroupRequest("g", protocols=[JoinGroupRequest.JoinGroupRequestProtocol("")] * MIB),
        9,
    ),
    "a million topics without records": (
        ProduceRequest(None, 1, 100, [ProduceRequest.TopicProduceData("")] * MIB),
        9,
    ),
}

ANSWERED: dict[str, tuple[Message, int]] = {
    "a quarter of a million groups": (DescribeGroupsRequest(groups=["g"] * 250_000), 5),
    "a quarter of a million coordinators": (FindCoordinatorRequest(coordinator_keys=["g"] * 250_000), 4),
    "offsets of 1.9 MB of partitions": (OffsetFetchRequest("g", [Topic("t", list(range(400_000)))]), 5),
    "offsets of a hundred thousand topics": (
        OffsetFetchRequest("g", [Topic(f"{number}", [0]) for number in range(100_000)]),
        5,
    ),
    "offsets of fifty thousand groups": (
        OffsetFetchRequest(groups=[Group(f"{number}", topics=None) for number in range(50_000)]),
        8,
    ),
    "a hundred thousand topics that are not there": (
        MetadataRequest(
            [MetadataRequest.MetadataRequestTopic(name=f"{number}!") for number in range(100_000)]
        ),
        9,
    ),
    "configs of fifty thousand topics that are not there": (
        DescribeConfigsRequest([Resource(2, f"{number}", None) for number in range(50_000)]),
        4,
    ),
}


class Other(threading.Thread):
    """Asks for versions every few milliseconds.

    longest_seconds: of its round trips, without the time in which broker or client waited for a processor.
    """

    def __init__(self, victim: AnyBroker) -> None:
        super().__init__(daemon=True)
        self._client = WireClient(victim.bootstrap_servers, client_id="other")
        self._pid = victim.pid
        self._ended = threading.Event()
        self.longest_seconds = 0.0

    def run(self) -> None:
        request = ApiVersionsRequest("other", "1")
        wait = ProcessorWait(self._pid)  # in here, because it reads what this thread has waited
        while not self._ended.is_set():
            before, began_ns = wait.read(), time.perf_counter_ns()
            self._client.ask(request, 4)
            took_ns = time.perf_counter_ns() - began_ns
            self.longest_seconds = max(self.longest_seconds, own_ns(took_ns, before, wait.read()) / 1e9)
            time.sleep(0.005)

    def end(self) -> None:
        self._ended.set()
        self.join(120)
        self._client.close()


@contextmanager
def somebody_else(victim: AnyBroker) -> Iterator[None]:
    """Waits for nobody, and memory stays within its bound."""
    other = Other(victim)
    other.start()
    most_bytes = 0
    watched = threading.Event()

    def watch() -> None:
        nonlocal most_bytes
        while not watched.wait(0.01):
            most_bytes = max(most_bytes, resident_bytes(victim.pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        other.end()
        watched.set()
        watcher.join(5)
    assert other.longest_seconds < PATIENCE_SECONDS
    assert most_bytes < MOST_MEMORY_BYTES


@pytest.mark.parametrize("name", REFUSED)
def test_more_than_anybody_needs_is_refused(victim: AnyBroker, name: str) -> None:
    frame = encode_request_frame(*REFUSED[name], 7, "long")
    with somebody_else(victim), RawConnection(victim.bootstrap_servers) as client:
        client.send_bytes(frame)
        assert client.answer_or_end() is None


@pytest.mark.parametrize("name", ANSWERED)
def test_what_an_administrator_may_ask_is_answered_and_nobody_waits(victim: AnyBroker, name: str) -> None:
    frame = encode_request_frame(*ANSWERED[name], 7, "long")
    with somebody_else(victim), RawConnection(victim.bootstrap_servers, timeout_seconds=120) as client:
        client.send_bytes(frame)
        answer = client.receive()
    assert int.from_bytes(answer[:4]) == 7


def test_a_small_commit_of_a_group_with_a_long_name_takes_no_gigabytes(victim: AnyBroker) -> None:
    """The name stands in each record; nobody else waits while the commit is refused."""
    name = Topics(victim.bootstrap_servers).create("here")
    with WireClient(victim.bootstrap_servers) as client:
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await_that("one offset is committed", lambda: not _codes(client.ask(*_commit(name, 1)))[0])
    frame = encode_request_frame(*_commit(name, 16_000), 7, "long")
    with somebody_else(victim), RawConnection(victim.bootstrap_servers, timeout_seconds=120) as client:
        client.send_bytes(frame)
        answer = decode_response(OffsetCommitResponse, 8, client.receive())[1]
    assert _codes(answer) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 16_000


def _commit(topic: str, count: int) -> tuple[OffsetCommitRequest, int]:
    entry = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[entry] * count)
    return OffsetCommitRequest("g" * 32_767, topics=[named]), 8


def _codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def test_ten_at_once_take_no_more_than_one(victim: AnyBroker) -> None:
    request, version = ANSWERED["a quarter of a million groups"]
    frame = encode_request_frame(request, version, 7, "long")
    clients = [RawConnection(victim.bootstrap_servers, timeout_seconds=120) for _ in range(10)]
    with somebody_else(victim):
        for client in clients:
            client.send_bytes(frame)
        clients.pop().reset()
        for client in clients:
            response = decode_response(DescribeGroupsResponse, version, client.receive())[1]
            assert len(response.groups) == 250_000
            del response
            client.close()
