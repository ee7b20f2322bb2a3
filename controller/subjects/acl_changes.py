"""Access control entries are created and deleted (KIP-801), each with an outcome of its own.

An entry that is there already is no error and makes no record; neither does one that a request repeats. What
is wrong with an entry or a filter is told at its place in the answer, and the others are decided all the
same. A request that would make more records than one may changes nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from config.limits import ACL_MATCHES_PER_REQUEST, ACLS_WALKED_PER_REQUEST, METADATA_RECORDS_PER_REQUEST
from config.ports import RandomSource
from controller.metadata.acl_filters import (
    AclFilter,
    PatternType,
    Permission,
    code_name,
    matching,
    unknown_part,
)
from controller.metadata.image.acls import ANY, MATCH, Acl
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.random_ids import random_uuid
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.metadata_log.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.refusals import TOO_LARGE, create_acls_refused, delete_acls_refused
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType

__all__ = ["create_acls", "delete_acls"]

Creation = CreateAclsRequest.AclCreation
Created = CreateAclsResponse.AclCreationResult
FilterResult = DeleteAclsResponse.DeleteAclsFilterResult
Matched = DeleteAclsResponse.DeleteAclsMatchingAcl

_SAYS_NOTHING: Final = ("ANY", "UNKNOWN")
"""Names of codes that an entry cannot have."""


def create_acls(
    image: ClusterImage, request: CreateAclsRequest, random_source: RandomSource
) -> Decision[CreateAclsResponse]:
    """The records of the entries that are new."""
    new: dict[tuple[int, str, int, str, str, int, int], Message] = {}
    results = []
    for wanted in request.creations:
        fault = _fault(wanted)
        if fault is not None:
            results.append(Created(ErrorCode.INVALID_REQUEST, fault))
            continue
        record = AccessControlEntryRecord(
            random_uuid(random_source), wanted.resource_type, wanted.resource_name,
            wanted.resource_pattern_type, wanted.principal, wanted.host, wanted.operation,
            wanted.permission_type,
        )  # fmt: skip
        if not image.acls.has(record):
            new.setdefault(_key(wanted), record)
        results.append(Created())
    if len(new) > METADATA_RECORDS_PER_REQUEST:
        return Decision((), create_acls_refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE))
    return Decision(tuple(new.values()), CreateAclsResponse(results=results))


def _key(wanted: Creation) -> tuple[int, str, int, str, str, int, int]:
    return (
        wanted.resource_type, wanted.resource_name, wanted.resource_pattern_type, wanted.principal,
        wanted.host, wanted.operation, wanted.permission_type,
    )  # fmt: skip


def _fault(wanted: Creation) -> str | None:
    """Kafka's sentence on an entry that cannot be, in its order of checks."""
    if wanted.resource_type == ResourceType.CLUSTER and wanted.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not wanted.resource_name:
        return "Invalid empty resource name"
    name = code_name(ResourceType, wanted.resource_type)
    if name in _SAYS_NOTHING:
        return f"Invalid resourceType {name}"
    name = code_name(PatternType, wanted.resource_pattern_type)
    if name in _SAYS_NOTHING or wanted.resource_pattern_type == MATCH:
        return f"Invalid patternType {name}"
    name = code_name(Operation, wanted.operation)
    if name in _SAYS_NOTHING:
        return f"Invalid operation {name}"
    name = code_name(Permission, wanted.permission_type)
    if name in _SAYS_NOTHING:
        return f"Invalid permissionType {name}"
    if ":" not in wanted.principal:
        return (
            f"Could not parse principal from `{wanted.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return None


def delete_acls(image: ClusterImage, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """The records that remove what the filters mean. An entry that two filters mean is told of both, and
    removed once."""
    wanted = [filter_of(each) for each in request.filters]
    try:
        _check_walk(image, wanted)
        removed: dict[bytes, Message] = {}
        matches, results = 0, []
        for each in wanted:
            result = _removed_by(image, each, removed)
            matches += len(result.matching_acls)
            if len(removed) > METADATA_RECORDS_PER_REQUEST or matches > ACL_MATCHES_PER_REQUEST:
                raise ControllerError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
            results.append(result)
    except ControllerError as fault:
        return Decision((), delete_acls_refused(request, fault.code, fault.message))
    return Decision(tuple(removed.values()), DeleteAclsResponse(filter_results=results))


def filter_of(each: DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        each.resource_type_filter, each.resource_name_filter, each.pattern_type_filter,
        each.principal_filter, each.host_filter, each.operation, each.permission_type,
    )  # fmt: skip


def _check_walk(image: ClusterImage, wanted: Sequence[AclFilter]) -> None:
    """Filters that leave their resource open walk over all patterns. A request may not hold the controller up
    with many of them."""
    walks = sum(each.resource_type == ANY or each.name is None for each in wanted)
    if walks > 1 and walks * len(image.acls.by_id) > ACLS_WALKED_PER_REQUEST:
        raise ControllerError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)


def _removed_by(
    image: ClusterImage, wanted: AclFilter, removed: dict[bytes, Message]
) -> DeleteAclsResponse.DeleteAclsFilterResult:
    unknown = unknown_part(wanted)
    if unknown is not None:
        return FilterResult(ErrorCode.INVALID_REQUEST, f"Unknown {unknown}.")
    result = FilterResult(ErrorCode.NONE, None)
    for found in matching(image.acls, wanted):
        for acl in () if found is None else found[1]:
            result.matching_acls.append(_matched(acl))
            removed[acl.id] = RemoveAccessControlEntryRecord(id=acl.id)
    return result


def _matched(acl: Acl) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    return Matched(
        ErrorCode.NONE, None, acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal,
        acl.host, acl.operation, acl.permission_type,
    )  # fmt: skip
