"""Strings that are too long, too short or no text; the tests ask Barnabas or Apache Kafka."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from protocol.codec.compiler import encode
from protocol.codec.writing import uvarint_bytes
from protocol.framing import decode_response
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.registry import ApiKey, api
from tests.hostile.conftest import AnyBroker
from tests.support.clients.raw_connection import RawConnection
from tests.support.clients.wire_client import WireClient

MAX: Final = 0x7FFF


def header(key: int, version: int) -> bytes:
    flexible = api(key).request.declaration.flexible.covers(version)
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\0\4long" + bytes(flexible)


def ask_raw(address: str, payload: bytes) -> bytes | None:
    with RawConnection(address, timeout_seconds=90) as client:
        client.send_frame(payload)
        return client.answer_or_end()


@pytest.mark.parametrize("size", [MAX, MAX + 1, 40_000, 1 << 20])
def test_a_compact_string_beyond_the_bound_is_no_request(victim: AnyBroker, size: int) -> None:
    for field in range(2):
        strings = [b"g", b"m"]
        strings[field] = b"s" * size
        group, member = (uvarint_bytes(len(each) + 1) + each for each in strings)
        payload = header(ApiKey.HEARTBEAT, 4) + group + bytes(4) + member + b"\0\0"
        assert (ask_raw(victim.bootstrap_servers, payload) is None) == (size > MAX)


@pytest.mark.parametrize("length", [b"\xff\xff", b"\xff\xfb", b"\x80\0"])
def test_any_length_below_zero_is_null(victim: AnyBroker, length: bytes) -> None:
    whole = header(ApiKey.HEARTBEAT, 3) + b"\0\1g" + bytes(4) + b"\0\1m"
    assert ask_raw(victim.bootstrap_servers, whole + length) is not None
    broken = header(ApiKey.HEARTBEAT, 3) + length + bytes(4) + b"\0\1m\xff\xff"
    assert ask_raw(victim.bootstrap_servers, broken) is None
    topics = length + b"\xff\xff"
    assert ask_raw(victim.bootstrap_servers, header(ApiKey.METADATA, 1) + topics) is not None


MALFORMED = {
    b"\xff": "\ufffd",
    b"a\xc0\x80": "a" + "\ufffd" * 2,
    b"\xed\xa0\x80\xed\xb0\x80": "\ufffd" * 2,
    b"\xed\xa0": "\ufffd",
    b"\xf0\x90\x80A": "\ufffdA",
    b"\xf4\x90\x80\x80": "\ufffd" * 4,
    b"\xff" * (MAX // 3): "\ufffd" * (MAX // 3),
}


@pytest.mark.parametrize("raw", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.parametrize("version", [4, 12])
def test_a_name_that_is_no_utf8_comes_back_with_replacement_characters(
    victim: AnyBroker, raw: bytes, version: int
) -> None:
    topic = MetadataRequest.MetadataRequestTopic(name="?" * len(raw))
    with RawConnection(victim.bootstrap_servers) as client:
        request = encode(MetadataRequest([topic], allow_auto_topic_creation=False), version)
        client.send_frame(header(ApiKey.METADATA, version) + request.replace(b"?" * len(raw), raw))
        answer = decode_response(MetadataResponse, version, client.receive())[1]
    assert [(each.name, each.error_code) for each in answer.topics] == [(MALFORMED[raw], 17)]


def joining(group: str, **options: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
    fields: dict[str, Any] = {
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 500,
        "protocol_type": "consumer",
    }
    return JoinGroupRequest(group_id=group, protocols=protocols, **(fields | options))


def join(address: str, request: JoinGroupRequest, version: int, client_id: str = "me") -> JoinGroupResponse:
    """The answer of a coordinator that is there: on first use its topic has to be made."""
    deadline = time.monotonic() + 90
    while True:
        with WireClient(address, client_id=client_id) as client:
            answer = client.ask_for(JoinGroupResponse, request, version)
            if answer.error_code not in (14, 15, 16) or time.monotonic() > deadline:
                return answer
            client.ask(FindCoordinatorRequest(coordinator_keys=[request.group_id]), 4)
        time.sleep(0.05)


@pytest.mark.parametrize("version", [3, 5, 9])
@pytest.mark.parametrize("size", [MAX - 37, MAX - 36, MAX])
def test_a_member_id_is_made_of_a_client_id_and_is_a_string_too(
    victim: AnyBroker, version: int, size: int
) -> None:
    """It has 37 characters more."""
    group = f"long client {version} {size}"
    answer = join(victim.bootstrap_servers, joining(group), version, "c" * size)
    if size > MAX - 37:
        assert (answer.error_code, answer.member_id) == (-1, "")
    else:
        assert (answer.error_code, len(answer.member_id)) == (79 if version >= 4 else 0, size + 37)
    after = join(victim.bootstrap_servers, joining(group), 5)
    assert (after.error_code, len(after.member_id)) == (79, 39)


@pytest.mark.parametrize("version", [5, 9])
def test_a_static_members_id_is_made_of_its_instance_id(victim: AnyBroker, version: int) -> None:
    for size, error in ((MAX, -1), (MAX - 37, 0)):
        request = joining(f"long instance {version} {size}", group_instance_id="i" * size)
        assert join(victim.bootstrap_servers, request, version).error_code == error


@pytest.mark.parametrize("version", [5, 9])
def test_a_group_whose_record_is_as_long_as_it_can_be(victim: AnyBroker, version: int) -> None:
    """The record is written when the join phase is over: in a timer."""
    request = joining(f"g{version}" * (MAX // 2), group_instance_id="i", protocol_type="t" * MAX)
    answer = join(victim.bootstrap_servers, request, version)
    assert (answer.error_code, answer.generation_id) == (0, 1)
