"""Every API and version that the broker advertises is answered, and answered as Apache Kafka answers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.registry import ApiKey, api
from tests.conftest import AnyBroker, broker_under_test
from tests.support.brokers.against import AGAINST_KAFKA, barnabas_only
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.questions.answers import SETTINGS, Answers, recorded
from tests.support.questions.every_api import CASES


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with broker_under_test(tmp_path_factory.mktemp("broker") / "data", SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def answers(broker: AnyBroker) -> dict[tuple[str, int], Any]:
    """All questions in their order, for later ones build on what earlier ones made."""
    given = Answers(broker.bootstrap_servers).all()
    return {(name, version): json.loads(json.dumps(answer)) for name, version, answer in given}


@pytest.fixture
def client(broker: AnyBroker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_the_answer_is_kafka_s(answers: dict[tuple[str, int], Any], case: str) -> None:
    expected = recorded(case)
    assert expected, "python -m tests.support.questions.answers records a new case"
    assert {version: answer for (name, version), answer in answers.items() if name == case} == expected


def advertised(client: WireClient) -> dict[int, tuple[int, int]]:
    response = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("wire", "1"), 4)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def test_what_is_advertised_is_what_is_asked_here(client: WireClient) -> None:
    asked = {int(case.key) for case in CASES}
    if AGAINST_KAFKA:
        assert asked <= advertised(client).keys()
    else:
        assert advertised(client).keys() == asked


def test_the_versions_are_kafka_s(client: WireClient) -> None:
    for key, (first, last) in advertised(client).items():
        versions = api(key).stable_versions
        # librdkafka up to 2.8 would not speak to a broker without Produce 0 (KAFKA-18659).
        assert (first, last) == (0 if key == ApiKey.PRODUCE else versions.first, versions.last), api(key)


@barnabas_only
def test_the_features_are_those_that_work(client: WireClient) -> None:
    response = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("wire", "1"), 4)
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    assert finalized == {
        "metadata.version": 30,
        "kraft.version": 1,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }
    assert {each.name for each in response.supported_features} == finalized.keys()
    assert response.finalized_features_epoch >= 0


def test_an_unknown_version_of_api_versions_is_answered_as_version_0(client: WireClient) -> None:
    client.socket.sendall(bytes.fromhex("0000000b 0012 0063 0000002a ffff 00"))
    frame = client.receive()
    assert frame[:4] == b"\0\0\0\x2a"
    assert frame[4:].hex() == "0023" + "00000001" + "0012" + "0000" + "0004"


@pytest.mark.parametrize(
    ("key", "version"), [(0, 2), (0, 14), (1, 3), (3, 14), (4, 0), (22, 6), (99, 0), (-1, 0)]
)
def test_what_nobody_speaks_ends_the_connection(broker: AnyBroker, key: int, version: int) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        head = key.to_bytes(2, signed=True) + version.to_bytes(2) + b"\0\0\0\1" + b"\xff\xff" + b"\0" * 8
        client.socket.sendall(len(head).to_bytes(4) + head)
        with pytest.raises(ConnectionEnded):
            client.receive()


@pytest.mark.parametrize("version", range(10))
def test_a_member_s_life_in_each_version(client: WireClient, version: int) -> None:
    group = f"leben-{version}"
    joined = join(client, group, version)
    assert (joined.generation_id, joined.leader, len(joined.members)) == (1, joined.member_id, 1)
    assert joined.members[0].metadata == b"was ich will"
    sync = SyncGroupRequest(group, 1, joined.member_id)
    sync.assignments.append(SyncGroupRequest.SyncGroupRequestAssignment(joined.member_id, b"was du kriegst"))
    if version >= 5:
        sync.protocol_type, sync.protocol_name = "eigen", "mein"
    synced = client.ask_for(SyncGroupResponse, sync, min(version, 5))
    assert (synced.error_code, synced.assignment) == (0, b"was du kriegst")
    beat = HeartbeatRequest(group, 1, joined.member_id)
    assert client.ask_for(HeartbeatResponse, beat, min(version, 4)).error_code == 0
    beat.generation_id = 0
    assert client.ask_for(HeartbeatResponse, beat, min(version, 4)).error_code == ErrorCode.ILLEGAL_GENERATION
    leave = LeaveGroupRequest(group)
    if min(version, 5) < 3:
        leave.member_id = joined.member_id
    else:
        leave.members.append(LeaveGroupRequest.MemberIdentity(joined.member_id))
    left = client.ask_for(LeaveGroupResponse, leave, min(version, 5))
    assert (left.error_code, [each.error_code for each in left.members]) == (0, [0] if version >= 3 else [])
    assert client.ask_for(HeartbeatResponse, beat, min(version, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def join(client: WireClient, group: str, version: int) -> JoinGroupResponse:
    request = JoinGroupRequest(group, 60_000, 60_000, protocol_type="eigen")
    request.protocols.append(JoinGroupRequest.JoinGroupRequestProtocol("mein", b"was ich will"))
    joined = client.ask_for(JoinGroupResponse, request, version)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request.member_id = joined.member_id
        joined = client.ask_for(JoinGroupResponse, request, version)
    assert joined.error_code == 0
    assert joined.protocol_name == "mein"
    return joined
