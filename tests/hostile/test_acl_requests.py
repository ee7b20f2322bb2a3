"""Requests about access control entries, good and bad: outcomes and sentences of Apache Kafka 4.3.1.

BARNABAS_TEST_AGAINST=kafka asks it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import pytest

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from tests.conftest import AnyBroker, broker_under_test
from tests.support.brokers.against import barnabas_only
from tests.support.clients.librdkafka import until
from tests.support.clients.raw_connection import RawConnection

ANY, MATCH, LITERAL, PREFIXED, DENY, ALLOW = 1, 2, 3, 4, 2, 3
TOPIC, CLUSTER, READ = 2, 4, 3
INVALID: Final = ErrorCode.INVALID_REQUEST
VERSIONS: Final = (1, 2, 3)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with broker_under_test(tmp_path_factory.mktemp("broker") / "data", settings) as running:
        yield running


@pytest.fixture(params=["broker", "controller"])
def address(request: pytest.FixtureRequest, broker: AnyBroker) -> str:
    return broker.bootstrap_servers if request.param == "broker" else broker.bootstrap_controllers


def ask(address: str, request: Message, version: int = 3) -> Any:
    with RawConnection(address) as client:
        return client.ask(request, version)


def entry(name: str, **changes: Any) -> CreateAclsRequest.AclCreation:
    fields: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return CreateAclsRequest.AclCreation(**(fields | changes))


def about(
    name: str | None, pattern_type: int = LITERAL, **changes: Any
) -> DeleteAclsRequest.DeleteAclsFilter:
    fields: dict[str, Any] = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": pattern_type,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsRequest.DeleteAclsFilter(**(fields | changes))


def create(address: str, *entries: CreateAclsRequest.AclCreation, version: int = 3) -> list[tuple[int, Any]]:
    answer: CreateAclsResponse = ask(address, CreateAclsRequest(list(entries)), version)
    return [(each.error_code, each.error_message) for each in answer.results]


def listed(address: str, name: str | None, pattern_type: int = LITERAL) -> list[tuple[str, int, int]]:
    """Name, pattern type and number of entries of each pattern, in order."""
    request = DescribeAclsRequest(TOPIC, name, pattern_type, None, None, ANY, ANY)
    answer: DescribeAclsResponse = ask(address, request)
    assert (answer.error_code, answer.error_message) == (0, "")
    return sorted((each.resource_name, each.pattern_type, len(each.acls)) for each in answer.resources)


BAD: Final = {
    "no name": (entry(""), "Invalid empty resource name"),
    "another cluster": (
        entry("mine", resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    "no principal": (
        entry("bad", principal="ann"),
        (
            "Could not parse principal from `ann` (no colon is present separating the principal type from "
            "the principal name)"
        ),
    ),
}  # fmt: skip
OF_FILTERS: Final = {
    "any type": (entry("bad", resource_type=ANY), "Invalid resourceType ANY"),
    "any pattern": (entry("bad", resource_pattern_type=ANY), "Invalid patternType ANY"),
    "matching": (entry("bad", resource_pattern_type=MATCH, operation=ANY), "Invalid patternType MATCH"),
    "any operation": (entry("bad", operation=ANY, permission_type=ANY), "Invalid operation ANY"),
    "any permission": (entry("bad", permission_type=ANY, principal="ann"), "Invalid permissionType ANY"),
}
"""Codes that only filters have. Apache Kafka answers UNKNOWN_SERVER_ERROR to the whole request."""


def told(address: str, bad: CreateAclsRequest.AclCreation, sentence: str) -> None:
    outcomes = [(0, ""), (INVALID, sentence), (0, "")]
    for version in VERSIONS:
        assert create(address, entry("good"), bad, entry("good"), version=version) == outcomes
    assert listed(address, "bad", MATCH) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_beside_a_good_one(address: str, name: str) -> None:
    told(address, *BAD[name])


@barnabas_only
@pytest.mark.parametrize("name", OF_FILTERS)
def test_an_entry_with_codes_of_filters(address: str, name: str) -> None:
    told(address, *OF_FILTERS[name])


@pytest.mark.parametrize("version", VERSIONS)
def test_patterns_of_a_filter(address: str, broker: AnyBroker, version: int) -> None:
    stem = f"x{version}{address.rpartition(':')[2]}"
    made = [
        entry(stem), entry(stem, operation=4), entry(stem, resource_pattern_type=PREFIXED),
        entry(f"{stem}y"), entry(stem[:2], resource_pattern_type=PREFIXED),
    ]  # fmt: skip
    assert create(address, *made, version=version) == [(0, "")] * 5
    for each in (broker.bootstrap_servers, broker.bootstrap_controllers):
        until(lambda each=each: listed(each, f"{stem}y") == [(f"{stem}y", LITERAL, 1)], "it is known")  # type: ignore[misc]
        assert listed(each, stem) == [(stem, LITERAL, 2)]
        assert listed(each, stem, PREFIXED) == [(stem, PREFIXED, 1)]
        assert listed(each, stem, ANY) == [(stem, LITERAL, 2), (stem, PREFIXED, 1)]
        assert (
            listed(each, f"{stem}z", MATCH) == [(stem, PREFIXED, 1), (stem[:2], PREFIXED, 1)][:: _order(stem)]
        )
    request = DeleteAclsRequest(
        [about(f"{stem}y", MATCH), about(stem, principal_filter="User:bob"), about(stem, ANY, operation=4)]
    )
    answer: DeleteAclsResponse = ask(address, request, version)
    found = [sorted(acl.resource_name for acl in each.matching_acls) for each in answer.filter_results]
    assert found == [sorted([f"{stem}y", stem, stem[:2]]), [], [stem]]
    assert {(each.error_code, each.error_message) for each in answer.filter_results} == {(0, None)}
    assert {
        (a.error_code, a.error_message) for each in answer.filter_results for a in each.matching_acls
    } == {(0, None)}
    until(lambda: listed(broker.bootstrap_servers, stem, ANY) == [(stem, LITERAL, 1)], "one is left")


def _order(stem: str) -> int:
    return 1 if stem < stem[:2] else -1


UNKNOWN: Final = {
    "an entry": CreateAclsRequest([entry("t", operation=99)]),
    "a filter of patterns": DeleteAclsRequest([about("t", 99)]),
    "a filter of entries": DeleteAclsRequest([about("t", operation=0)]),
    "a question": DescribeAclsRequest(0, None, ANY, None, None, ANY, ANY),
}


@barnabas_only
@pytest.mark.parametrize("name", UNKNOWN)
def test_codes_that_nobody_knows(address: str, name: str) -> None:
    """Apache Kafka closes the connection."""
    assert str(int(INVALID)) in repr(ask(address, UNKNOWN[name]))


def test_a_reader_of_an_idle_partition_loses_its_right(broker: AnyBroker) -> None:
    address, name = broker.bootstrap_servers, "idle-one"
    made: CreateTopicsResponse = ask(
        address, CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1)], 10_000), 5
    )
    assert [each.error_code for each in made.topics] == [0]
    until(lambda: 0 in fetched(address, opening(name)), "the partition is led")
    with RawConnection(address) as reader:
        first: Any = reader.ask(opening(name), 12)
        epochs = count(1)

        def told() -> list[int]:
            request = FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=next(epochs))
            answer: Any = reader.ask(request, 12)
            assert answer.error_code == 0
            return [each.error_code for topic in answer.responses for each in topic.partitions]

        assert told() == []
        assert create(address, entry(name, principal="User:*", permission_type=DENY)) == [(0, "")]
        until(lambda: told() == [ErrorCode.TOPIC_AUTHORIZATION_FAILED], "the reader is told")


def opening(name: str) -> FetchRequest:
    """A fetch that opens a session of one partition."""
    asked = FetchRequest.FetchTopic(name, partitions=[FetchRequest.FetchPartition(0, partition_max_bytes=9)])
    return FetchRequest(max_wait_ms=0, session_epoch=0, topics=[asked])


def fetched(address: str, request: FetchRequest) -> list[int]:
    answer: FetchResponse = ask(address, request, 12)
    return [each.error_code for topic in answer.responses for each in topic.partitions]
