"""Bytes that are no requests: the connection is closed, and nobody else notices."""

from __future__ import annotations

import random
import struct
import threading

import pytest

from protocol.framing import decode_response, encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.clients.raw_connection import RawConnection, framed, resident_bytes

MIB = 1 << 20
API_VERSIONS = 18
METADATA = 3


@pytest.mark.parametrize("size", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(listener: str, size: int) -> None:
    with RawConnection(listener) as client:
        client.send_bytes(struct.pack(">i", size) + b"\0" * 64)
        assert client.remaining() == b""


@pytest.mark.parametrize("payload", [b"", b"\0", bytes(7), bytes(9)])
def test_a_frame_too_short_for_a_header_closes_the_connection(listener: str, payload: bytes) -> None:
    with RawConnection(listener) as client:
        client.send_frame(payload)
        assert client.remaining() == b""


@barnabas_only
def test_memory_follows_what_arrived_and_not_what_was_announced(victim: AnyBroker) -> None:
    """A hundred clients announce the largest frame that is allowed, 10 GB in all, and send 1 KiB each."""
    clients = [RawConnection(victim.bootstrap_servers) for _ in range(100)]
    before = resident_bytes(victim.pid)
    for client in clients:
        client.send_bytes(struct.pack(">i", 100 * MIB) + bytes(1024))
    with RawConnection(victim.bootstrap_servers) as asks:
        asks.ask(ApiVersionsRequest("x", "1"), 3)
    grown = resident_bytes(victim.pid) - before
    for client in clients:
        client.close()
    assert grown < 16 * MIB


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(listener: str, seed: int) -> None:
    random_source = random.Random(seed)
    for _ in range(20):
        with RawConnection(listener) as client:
            data = random_source.randbytes(random_source.choice((1, 3, 4, 5, 14, 100, 5000)))
            if random_source.random() < 0.5:
                data = framed(data)
            client.send_bytes(data)
            client.half_close()
            client.remaining()


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"]
)
def test_somebody_who_speaks_another_language(listener: str, greeting: bytes) -> None:
    with RawConnection(listener) as client:
        client.send_bytes(greeting + bytes(512))
        client.half_close()
        assert client.remaining() == b""


def test_a_frame_that_is_cut_off_is_forgotten_with_its_connection(listener: str) -> None:
    whole = encode_request_frame(ApiVersionsRequest("name", "1.0"), 3, 1, "cut")
    for size in range(1, len(whole)):
        with RawConnection(listener) as client:
            client.send_bytes(whole[:size])
            client.half_close()
            assert client.remaining() == b""


def test_a_client_that_sends_a_byte_now_and_then_holds_up_nobody(listener: str) -> None:
    """Ten of them, and in between each byte of theirs another client's request is answered."""
    whole = encode_request_frame(ApiVersionsRequest("slow", "1.0"), 3, 1, "slow")
    slow = [RawConnection(listener) for _ in range(10)]
    for position in range(len(whole)):
        for client in slow:
            client.send_bytes(whole[position : position + 1])
        with RawConnection(listener) as other:
            other.ask_for(ApiVersionsResponse, ApiVersionsRequest("x", "1"), 3)
    for client in slow:
        assert decode_response(ApiVersionsResponse, 3, client.receive())[1].error_code == 0
        client.close()


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (-1, 0),
        (77, 0),
        (999, 0),
        (32767, 1),
        (4, 0),
        (7, 3),
        (METADATA, -1),
        (METADATA, 14),
        (0, 2),
        (1, 99),
        (11, 10),
    ],
)
def test_what_nobody_serves_closes_the_connection(listener: str, key: int, version: int) -> None:
    with RawConnection(listener) as client:
        client.send_header(key, version, body=bytes(32))
        assert client.remaining() == b""


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(listener: str, version: int) -> None:
    with RawConnection(listener) as client:
        client.send_header(API_VERSIONS, version, correlation_id=77, body=b"\0never parsed")
        correlation_id, answer = decode_response(ApiVersionsResponse, 0, client.receive())
        assert (correlation_id, answer.error_code) == (77, 35)
        assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [
            (18, 0, 4)
        ]
        client.ask_for(ApiVersionsResponse, ApiVersionsRequest("x", "1"), 4)


@pytest.mark.parametrize("name", ["", "with space", "-minus", "ünïcode", "x" * 300 + "-"])
def test_a_name_of_client_software_that_is_none(listener: str, name: str) -> None:
    with RawConnection(listener) as client:
        answer = client.ask_for(ApiVersionsResponse, ApiVersionsRequest(name, "1.0"), 3)
        assert answer.error_code == 42


def test_garbage_behind_good_requests(victim: AnyBroker) -> None:
    """The good ones are answered, in order; then the connection ends."""
    good = b"".join(encode_request_frame(MetadataRequest([]), 12, number, "good") for number in range(20))
    with RawConnection(victim.bootstrap_servers) as client:
        client.send_bytes(good + struct.pack(">i", -5) + good)
        answers = client.remaining()
    at, numbers = 0, []
    while at < len(answers):
        size = int.from_bytes(answers[at : at + 4])
        numbers.append(decode_response(MetadataResponse, 12, answers[at + 4 : at + 4 + size])[0])
        at += 4 + size
    assert numbers == list(range(20))


def test_twenty_threads_of_garbage_do_not_stop_a_client(victim: AnyBroker) -> None:
    def attack(seed: int) -> None:
        random_source = random.Random(seed)
        for _ in range(10):
            with RawConnection(victim.bootstrap_servers) as client:
                client.send_bytes(random_source.randbytes(200))
                if random_source.random() < 0.3:
                    client.reset()

    attackers = [threading.Thread(target=attack, args=(seed,)) for seed in range(20)]
    for each in attackers:
        each.start()
    with RawConnection(victim.bootstrap_servers) as client:
        for _ in range(50):
            client.ask_for(MetadataResponse, MetadataRequest([]), 12)
    for each in attackers:
        each.join()


def test_resets_in_the_middle_of_a_frame_and_of_an_answer(victim: AnyBroker) -> None:
    request = encode_request_frame(MetadataRequest(None), 12, 1, "rst")
    for size in (1, 4, 6, len(request) - 1, len(request), len(request) + 3):
        for _ in range(10):
            client = RawConnection(victim.bootstrap_servers)
            client.send_bytes((request * 2)[:size])
            client.reset()


def test_a_half_closed_connection_is_still_answered(listener: str) -> None:
    with RawConnection(listener) as client:
        client.send_bytes(encode_request_frame(ApiVersionsRequest("x", "1"), 3, 5, None))
        client.half_close()
        assert decode_response(ApiVersionsResponse, 3, client.receive())[0] == 5
        assert client.remaining() == b""


@barnabas_only
def test_a_malformed_frame_is_counted_and_logged_once_with_its_peer(victim: AnyBroker) -> None:
    before = victim.log_file.read_text().count("127.0.0.1")
    for _ in range(50):
        with RawConnection(victim.bootstrap_servers) as client:
            client.send_bytes(struct.pack(">i", -1))
            client.remaining()
    assert victim.log_file.read_text().count("127.0.0.1") - before <= 3
