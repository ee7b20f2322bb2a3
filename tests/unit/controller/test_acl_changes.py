"""Access control entries are created and deleted: outcomes, records, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from config.limits import ACL_MATCHES_PER_REQUEST, ACLS_WALKED_PER_REQUEST, METADATA_RECORDS_PER_REQUEST
from controller.appends import appends
from controller.metadata.image.acls import ALLOW, ANY, DENY, LITERAL, MATCH, PREFIXED, Acl
from controller.metadata.metadata_version import LATEST_METADATA_VERSION
from protocol.codec.compiler import encode
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.metadata_log.cluster import BeginTransactionRecord, EndTransactionRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from tests.support.rigs.controllers import ControllerFixture, one_node_config
from tests.support.rigs.peer_channels import ControllerPeer

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READ, TOPIC = Operation.READ, ResourceType.TOPIC


@pytest.fixture
def fixture() -> ControllerFixture:
    fixture = ControllerFixture(config=one_node_config(authorizer__class__name=AUTHORIZER))
    fixture.bring_up(1)
    return fixture


def entry(name: str = "t", **changes: Any) -> CreateAclsRequest.AclCreation:
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


def everything(**changes: Any) -> DeleteAclsRequest.DeleteAclsFilter:
    fields: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsRequest.DeleteAclsFilter(**(fields | changes))


def create(
    fixture: ControllerFixture, *entries: CreateAclsRequest.AclCreation
) -> list[tuple[int, str | None]]:
    answer = fixture.call(ApiKey.CREATE_ACLS, CreateAclsRequest(list(entries)))
    return [(each.error_code, each.error_message) for each in answer.results]


def delete(fixture: ControllerFixture, *filters: DeleteAclsRequest.DeleteAclsFilter) -> Any:
    return fixture.call(ApiKey.DELETE_ACLS, DeleteAclsRequest(list(filters))).filter_results


def names(fixture: ControllerFixture) -> list[str]:
    return sorted(acl.resource_name for acl in fixture.controller.image.acls.by_id.values())


def test_what_is_there_already_makes_no_record(fixture: ControllerFixture) -> None:
    assert create(fixture, entry("a"), entry("a"), entry("b")) == [(0, "")] * 3
    assert names(fixture) == ["a", "b"]
    end = fixture.log.end_offset
    assert create(fixture, entry("b")) == [(0, "")]
    assert fixture.log.end_offset == end
    assert create(fixture, entry("b", host="10.0.0.1"), entry("b", permission_type=DENY)) == [(0, "")] * 2
    assert names(fixture) == ["a", "b", "b", "b"]


REFUSED = {
    "no name": (entry(""), "Invalid empty resource name"),
    "another cluster": (
        entry("here", resource_type=ResourceType.CLUSTER),
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    "any type": (entry(resource_type=ANY), "Invalid resourceType ANY"),
    "a type nobody knows": (entry(resource_type=99), "Invalid resourceType UNKNOWN"),
    "any pattern": (entry(resource_pattern_type=ANY), "Invalid patternType ANY"),
    "a matching pattern": (entry(resource_pattern_type=MATCH), "Invalid patternType MATCH"),
    "any operation": (entry(operation=ANY), "Invalid operation ANY"),
    "an operation nobody knows": (entry(operation=-5), "Invalid operation UNKNOWN"),
    "any permission": (entry(permission_type=ANY), "Invalid permissionType ANY"),
    "no principal": (
        entry(principal="ann"),
        (
            "Could not parse principal from `ann` (no colon is present separating the principal type from "
            "the principal name)"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_entry_is_told_at_its_place(fixture: ControllerFixture, name: str) -> None:
    bad, sentence = REFUSED[name]
    outcomes = create(fixture, entry("good"), bad, entry(CLUSTER_NAME, resource_type=ResourceType.CLUSTER))
    assert outcomes == [(0, ""), (ErrorCode.INVALID_REQUEST, sentence), (0, "")]
    assert names(fixture) == ["good", "kafka-cluster"]


def test_filters_are_told_what_they_remove_and_each_entry_goes_once(fixture: ControllerFixture) -> None:
    create(fixture, entry("a"), entry("ab", resource_pattern_type=PREFIXED), entry("c", principal="User:bob"))
    end = fixture.log.end_offset
    named = everything(resource_type_filter=TOPIC, resource_name_filter="abc", pattern_type_filter=MATCH)
    of_ann = everything(principal_filter="User:ann")
    first, second, third = delete(fixture, named, of_ann, everything(operation=99))
    assert [acl.resource_name for acl in first.matching_acls] == ["ab"]
    assert sorted(acl.resource_name for acl in second.matching_acls) == ["a", "ab"]
    assert {acl.error_code for acl in second.matching_acls} == {0}
    assert (third.error_code, third.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    assert names(fixture) == ["c"]
    assert fixture.log.end_offset == end + 2
    assert delete(fixture, named)[0].matching_acls == []


def test_they_outlive_a_restart_and_a_snapshot(fixture: ControllerFixture) -> None:
    create(fixture, entry("a"), *(entry(f"t{number}") for number in range(7000)))
    ControllerPeer(fixture).settle()
    snapshot = fixture.log.latest_snapshot()
    assert snapshot is not None
    assert snapshot.end_offset == fixture.controller.image.offset + 1
    delete(fixture, everything(resource_type_filter=TOPIC, resource_name_filter="a"))
    create(fixture, entry("behind the snapshot"))
    before = fixture.controller.image.acls
    fixture.files.kill_process()
    after = fixture.restart().controller.image.acls
    assert after == before
    assert len(after.by_id) == 7001


def test_a_request_that_is_too_large_changes_nothing(fixture: ControllerFixture) -> None:
    many = [entry(f"t{number}") for number in range(METADATA_RECORDS_PER_REQUEST + 1)]
    sentence = "Unable to perform excessively large batch operation."
    assert set(create(fixture, *many)) == {(ErrorCode.POLICY_VIOLATION, sentence)}
    assert names(fixture) == []
    create(fixture, *many[:-1])
    create(fixture, many[-1])
    for filters in ([everything()], [everything()] * (ACLS_WALKED_PER_REQUEST // len(many) + 1)):
        results = delete(fixture, *filters)
        assert {(each.error_code, each.error_message) for each in results} == {
            (ErrorCode.POLICY_VIOLATION, sentence)
        }
    repeated = [everything(resource_type_filter=TOPIC, resource_name_filter="t1", pattern_type_filter=MATCH)]
    results = delete(fixture, *repeated * (ACL_MATCHES_PER_REQUEST // 5000))
    assert len(names(fixture)) == len(many) - 1, "only t1, of which all of them are told"
    assert [len(each.matching_acls) for each in results] == [1] * len(results)


def test_long_entries_are_spread_over_batches() -> None:
    long = [Acl(bytes([n]) * 16, 2, "n" * 30_000, 3, "User:" + "p" * 30_000, "*", 3, 3) for n in range(9)]
    parts = appends(long, LATEST_METADATA_VERSION, max_bytes=300_000)
    assert len(parts) > 2
    assert isinstance(parts[0][0], BeginTransactionRecord)
    assert isinstance(parts[-1][-1], EndTransactionRecord)
    assert all(sum(len(encode(record, 0)) for record in part) < 300_000 for part in parts)


def test_a_controller_tells_them_too(fixture: ControllerFixture) -> None:
    create(fixture, entry("a"), entry("a", operation=Operation.WRITE), entry("b"))
    request = DescribeAclsRequest(TOPIC, "a", LITERAL, None, None, ANY, ANY)
    (resource,) = fixture.call(ApiKey.DESCRIBE_ACLS, request).resources
    assert (resource.resource_name, [acl.operation for acl in resource.acls]) == ("a", [3, 4])
    request.pattern_type_filter = 0
    refused = fixture.call(ApiKey.DESCRIBE_ACLS, request)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown patternFilter.",
    )


def test_without_an_authorizer_security_is_disabled() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    assert create(fixture, entry()) == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")]
    assert delete(fixture, everything())[0].error_message == "No Authorizer is configured."
    request = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    told = fixture.call(ApiKey.DESCRIBE_ACLS, request)
    assert (told.error_code, told.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
