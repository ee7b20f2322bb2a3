"""Clients that are many, that leave in bad ways, or that never read their answers: memory has a bound."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.framing import encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.clients.raw_connection import (
    RawConnection,
    await_that,
    processor_seconds,
    resident_bytes,
    serves_others,
)
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches

pytestmark = barnabas_only

MIB = 1 << 20
CROWD = 5_000
RESIDENT_BOUND = 64 * MIB
PER_IDLE_CONNECTION = 4 * 1024
AT_ONCE = 40


@pytest.fixture
def descriptors() -> Iterator[None]:
    """This process may open as many sockets as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CROWD + 500:
        pytest.skip(f"a process may have {hard} descriptors here, the crowd needs {CROWD + 500}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_sockets(broker: AnyBroker) -> int:
    """Without its files, which come and go."""
    return sum(map(is_socket, Path(f"/proc/{broker.pid}/fd").iterdir()))


def is_socket(descriptor: Path) -> bool:
    try:
        return str(descriptor.readlink()).startswith("socket:")
    except FileNotFoundError:
        return False


def arrive(broker: AnyBroker, count: int) -> list[RawConnection]:
    """Connections forty at once, accepted before the next forty knock: the backlog is short."""
    connections: list[RawConnection] = []
    while len(connections) < count:
        connections += [RawConnection(broker.bootstrap_servers) for _ in range(AT_ONCE)]
        connections[-1].ask(ApiVersionsRequest("x", "1"), 3)
    return connections


def test_five_thousand_connections_opened_and_left(victim: AnyBroker, descriptors: None) -> None:
    before, sockets_before = resident_bytes(victim.pid), open_sockets(victim)
    crowd = arrive(victim, CROWD)
    for client in crowd[::3]:
        client.send_bytes(b"\0\0\0")
    await_that("all are there", lambda: open_sockets(victim) - sockets_before >= CROWD)
    serves_others(victim.bootstrap_servers)
    grown = resident_bytes(victim.pid) - before
    assert grown < CROWD * PER_IDLE_CONNECTION, grown
    assert resident_bytes(victim.pid) < RESIDENT_BOUND
    for client in crowd:
        client.close()
    await_that("all are forgotten", lambda: open_sockets(victim) - sockets_before < 20)


def test_connections_that_come_and_go_leave_nothing(victim: AnyBroker) -> None:
    """Half of them leave with RST, and most with half a frame."""
    sockets_before = open_sockets(victim)
    whole = encode_request_frame(ApiVersionsRequest("x", "1"), 3, 1, None)

    def visit(count: int) -> None:
        for number, client in enumerate(arrive(victim, count)):
            client.send_bytes((whole * 2)[: number % 40])
            if number % 2:
                client.reset()
            else:
                client.close()

    visit(500)
    before = resident_bytes(victim.pid)
    visit(2000)
    await_that("all are forgotten", lambda: open_sockets(victim) - sockets_before < 20)
    assert resident_bytes(victim.pid) - before < 4 * MIB


def test_idle_connections_cost_no_processor_time(victim: AnyBroker) -> None:
    """Half closed, cut in the middle, or silent: nobody turns in circles over them."""
    clients = [RawConnection(victim.bootstrap_servers) for _ in range(30)]
    for number, client in enumerate(clients):
        client.send_bytes(b"\0\0\0\x50\0" if number % 2 else b"")
        if number % 3 == 0:
            client.half_close()
    time.sleep(0.2)
    serves_others(victim.bootstrap_servers)  # so it has heard all of them
    before, began = processor_seconds(victim.pid), time.monotonic()
    time.sleep(1)
    assert processor_seconds(victim.pid) - before < 0.3 * (time.monotonic() - began)
    for client in clients:
        client.close()


def test_a_client_that_repeats_a_large_request_and_never_reads(victim: AnyBroker) -> None:
    """Its answers wait for it, up to the output queue's bound; then it is not heard any more."""
    names = [MetadataRequest.MetadataRequestTopic(name=f"{number:0200}") for number in range(2_000)]
    frame = encode_request_frame(MetadataRequest(names, allow_auto_topic_creation=False), 9, 1, None)
    before = resident_bytes(victim.pid)
    with RawConnection(victim.bootstrap_servers, timeout_seconds=1) as client:
        with pytest.raises(TimeoutError):
            client.send_bytes(frame * 400)
        assert resident_bytes(victim.pid) - before < 40 * MIB
        serves_others(victim.bootstrap_servers)


@pytest.fixture(scope="module")
def filled(broker: AnyBroker) -> str:
    """A topic with 16 MB in it."""
    topic = Topics(broker.bootstrap_servers).create("filled")
    with RawConnection(broker.bootstrap_servers) as client:
        for _ in range(32):
            partition = ProduceRequest.PartitionProduceData(0, bad_batches.good(1, value=bytes(512 * 1024)))
            request = ProduceRequest(
                None, -1, 5000, [ProduceRequest.TopicProduceData(topic, partition_data=[partition])]
            )
            answer = client.ask_for(ProduceResponse, request, 12)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return topic


def fetch_frame(topic: str) -> bytes:
    partition = FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=16 * MIB)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=16 * MIB, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic, partitions=[partition])],
    )  # fmt: skip
    return encode_request_frame(request, 12, 1, None)


def test_consumers_that_never_read(victim: AnyBroker, filled: str) -> None:
    """Twenty of them, each with requests for gigabytes: others are served, memory stands still."""
    frame = fetch_frame(filled)
    before, sockets_before = resident_bytes(victim.pid), open_sockets(victim)
    clients = [RawConnection(victim.bootstrap_servers, timeout_seconds=1) for _ in range(20)]
    for client in clients:
        client.socket.setblocking(False)
        try:
            for _ in range(20):
                client.socket.send(frame * 500)
        except BlockingIOError:
            pass
    serves_others(victim.bootstrap_servers)
    with RawConnection(victim.bootstrap_servers) as reader:
        reader.send_bytes(frame)
        assert len(reader.receive()) > 15 * MIB
    assert resident_bytes(victim.pid) - before < 40 * MIB
    for client in clients:
        client.reset()
    await_that("all are forgotten", lambda: open_sockets(victim) - sockets_before < 20)


def test_a_consumer_that_leaves_in_the_middle_of_its_answer(victim: AnyBroker, filled: str) -> None:
    frame = fetch_frame(filled)
    sockets_before = open_sockets(victim)
    for number in range(50):
        client = RawConnection(victim.bootstrap_servers)
        client.send_bytes(frame * 3)
        client.socket.recv(1 + number * 1000)
        client.reset()
    await_that("all are forgotten", lambda: open_sockets(victim) - sockets_before < 20)


def test_a_large_frame_that_never_ends_does_not_stop_the_others(victim: AnyBroker) -> None:
    """Fifty clients send 1 MB each of a request of 90 MB and fall silent."""
    clients = [RawConnection(victim.bootstrap_servers) for _ in range(50)]
    before = resident_bytes(victim.pid)
    for client in clients:
        client.send_bytes((90 * MIB).to_bytes(4) + bytes(MIB))
    with RawConnection(victim.bootstrap_servers) as other:
        other.ask_for(ApiVersionsResponse, ApiVersionsRequest("x", "1"), 3)
    assert resident_bytes(victim.pid) - before < 50 * 3 * MIB
    for client in clients:
        client.close()
    await_that("the memory comes back", lambda: resident_bytes(victim.pid) - before < 40 * MIB)
