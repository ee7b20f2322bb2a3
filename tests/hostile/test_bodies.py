"""Requests that begin well: every API and version that a listener serves, with bodies that somebody damaged.

Whatever comes, the connection is answered or closed, nobody else notices, nothing is logged as our fault, and
memory stays where it was. What is sent comes from seeds that name the API and the version, so a failure can
be repeated.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from protocol.codec.compiler import encoder
from protocol.codec.message import Message
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.registry import ApiKey, api
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.clients.raw_connection import RawConnection, await_that, resident_bytes
from tests.support.samples.messages import RandomChoice, build

pytestmark = barnabas_only

MIB = 1 << 20
MUTANTS_PER_VERSION = 40
OUR_FAULT = "this is our fault"


def served(address: str) -> Iterator[tuple[int, int]]:
    """(API key, version) of all that the listener says it serves."""
    with RawConnection(address) as client:
        answer = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("fuzz", "1"), 4)
    for each in answer.api_keys:
        for version in range(max(each.min_version, 3 if each.api_key == 0 else 0), each.max_version + 1):
            yield each.api_key, version


def mutate(random_source: random.Random, body: bytearray) -> bytes:
    """The body with one to three faults."""
    for _ in range(random_source.randint(1, 3)):
        if not body:
            return random_source.randbytes(random_source.randint(0, 8))
        at = random_source.randrange(len(body))
        match random_source.randrange(6):
            case 0:
                body[at] = random_source.choice((0, 1, 0x7F, 0x80, 0xFF, random_source.randrange(256)))
            case 1:
                del body[at:]
            case 2:
                body[at : at + 4] = struct.pack(
                    ">i", random_source.choice((-1, -2, 2**31 - 1, -(2**31), 65536))
                )
            case 3:
                body[at:at] = random_source.randbytes(random_source.randint(1, 8))
            case 4:
                body[at : at + 5] = b"\xff\xff\xff\xff\x0f"
            case _:
                del body[at : at + random_source.randint(1, 4)]
    return bytes(body)


def bodies(key: int, version: int) -> Iterator[bytes]:
    request = api(key).request
    random_source = random.Random(f"{key} {version}")
    yield b""
    yield random_source.randbytes(64)
    yield b"\xff" * 64
    yield b"\x7f" * 64
    for number in range(MUTANTS_PER_VERSION):
        whole = build(request, version, RandomChoice(f"{key} {version} {number}"))
        tame(whole)
        data = bytearray(encoder(request, version)(whole))
        yield bytes(data) if number < 4 else mutate(random_source, data)


def tame(request: Message) -> None:
    """Random requests may ask to wait for weeks, or for a million partitions: both are allowed."""
    for name in ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms"):
        if hasattr(request, name):
            setattr(request, name, 10)
    for topic in getattr(request, "topics", None) or ():
        if hasattr(topic, "num_partitions"):
            topic.num_partitions = min(topic.num_partitions, 3)


def test_damaged_bodies(listener: str, victim: AnyBroker) -> None:
    faults_before = victim.log_file.read_text().count(OUR_FAULT)
    memory_before = resident_bytes(victim.pid)
    asked = 0
    for key, version in served(listener):
        for number, body in enumerate(bodies(key, version)):
            header = struct.pack(">hhih", key, version, number, -1)
            flexible = b"\0" if api(key).request.declaration.flexible.covers(version) else b""
            with RawConnection(listener, timeout_seconds=90) as client:
                client.send_frame(header + flexible + body)
                client.half_close()
                client.remaining()
            asked += 1
    assert asked > 500
    text = victim.log_file.read_text()
    assert text.count(OUR_FAULT) == faults_before, text[-3000:]
    assert resident_bytes(victim.pid) - memory_before < 32 * MIB


ARRAYS = {  # the most that an int32 can say; what lies beyond is below zero, and null
    ApiKey.METADATA: (9, b"\xff\xff\xff\xff\x07"),
    ApiKey.PRODUCE: (9, b"\0" + struct.pack(">hi", 1, 1000) + b"\xff\xff\xff\xff\x07"),
    ApiKey.FETCH: (12, struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, 0) + b"\xff\xff\xff\xff\x07"),
    ApiKey.CREATE_TOPICS: (5, b"\xff\xff\xff\xff\x07"),
    ApiKey.DELETE_TOPICS: (4, b"\xff\xff\xff\xff\x07"),
}


@pytest.mark.parametrize("key", ARRAYS)
@pytest.mark.parametrize("padding", [0, 1, 1000, 200_000])
def test_an_array_that_announces_two_billion_elements(victim: AnyBroker, key: ApiKey, padding: int) -> None:
    version, body = ARRAYS[key]
    before = resident_bytes(victim.pid)
    with RawConnection(victim.bootstrap_servers) as client:
        client.send_header(key, version, body=b"\0" + body + bytes(padding))
        assert client.remaining() == b""
    assert resident_bytes(victim.pid) - before < 16 * MIB


@pytest.mark.parametrize("length", [-2, 32767, -32768])
def test_a_string_longer_than_its_request(victim: AnyBroker, length: int) -> None:
    """Metadata version 1, one topic whose name announces what is not there."""
    with RawConnection(victim.bootstrap_servers) as client:
        client.send_header(ApiKey.METADATA, 1, body=struct.pack(">ih", 1, length) + b"abc")
        assert client.remaining() == b""


def test_a_hundred_thousand_topics_that_do_not_exist(victim: AnyBroker) -> None:
    """An honest large request: answered for each, others are served meanwhile, memory comes back."""
    names = [MetadataRequest.MetadataRequestTopic(name=f"missing-{number}") for number in range(100_000)]
    before = resident_bytes(victim.pid)
    request = MetadataRequest(names, allow_auto_topic_creation=False)
    with RawConnection(victim.bootstrap_servers) as client:
        answer = client.ask_for(MetadataResponse, request, 9)
    assert len(answer.topics) == 100_000
    assert {topic.error_code for topic in answer.topics} == {3}
    await_that("memory comes back", lambda: resident_bytes(victim.pid) - before < 64 * MIB)
