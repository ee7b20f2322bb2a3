"""A whole request refused with one error, for the APIs that brokers pass on to the controller.

The controller refuses so what nobody may ask, what names too much and what comes when it does not lead; a
broker answers so in its place when it cannot be asked. Most of these answers have no error of their own and
say it of each thing that was named.

version: of the request; where it is missing, all versions answer alike.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

TOO_LARGE: Final = "Unable to perform excessively large batch operation."
NO_AUTHORIZER: Final = "No Authorizer is configured."
"""With POLICY_VIOLATION: Kafka's sentence on a request that would make more records than one may."""

_WHOLE_ELECTION_ERROR_SINCE: Final = 1


def alter_client_quotas_refused(
    request: AlterClientQuotasRequest, error: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """The response with the same error for each entity."""
    part = AlterClientQuotasResponse.EntityData
    answer = AlterClientQuotasResponse.EntryData
    return AlterClientQuotasResponse(
        entries=[
            answer(error, message, [part(each.entity_type, each.entity_name) for each in entry.entity])
            for entry in request.entries
        ]
    )


def alter_user_scram_credentials_refused(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """The response with the same error for each user."""
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    users = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[result(user, error, message) for user in dict.fromkeys(users)]
    )


def create_acls_refused(
    request: CreateAclsRequest, error: ErrorCode, message: str | None
) -> CreateAclsResponse:
    """The response with the same error for each entry."""
    result = CreateAclsResponse.AclCreationResult
    return CreateAclsResponse(results=[result(error, message) for _ in request.creations])


def delete_acls_refused(
    request: DeleteAclsRequest, error: ErrorCode, message: str | None
) -> DeleteAclsResponse:
    """The response with the same error for each filter."""
    result = DeleteAclsResponse.DeleteAclsFilterResult
    return DeleteAclsResponse(filter_results=[result(error, message) for _ in request.filters])


def create_topics_refused(
    request: CreateTopicsRequest, error: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    """The response with the same error for each topic."""
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[result(topic.name, error_code=error, error_message=message) for topic in request.topics]
    )


def delete_topics_refused(
    request: DeleteTopicsRequest, error: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """The same error for whatever is named: `topics` in the newest version, `topic_names` in the others."""
    result = DeleteTopicsResponse.DeletableTopicResult
    results = [result(topic.name, topic.topic_id, error, message) for topic in request.topics]
    results += [result(name, error_code=error, error_message=message) for name in request.topic_names]
    return DeleteTopicsResponse(responses=results)


def create_partitions_refused(
    request: CreatePartitionsRequest, error: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """The response with the same error for each topic."""
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(results=[result(topic.name, error, message) for topic in request.topics])


def elect_leaders_refused(
    request: ElectLeadersRequest, error: ErrorCode, message: str | None, version: int
) -> ElectLeadersResponse:
    """The same error for each partition that is named and, where the version has a place for it, the
    whole."""
    topic_result = ElectLeadersResponse.ReplicaElectionResult
    result = ElectLeadersResponse.PartitionResult
    return ElectLeadersResponse(
        error_code=error if version >= _WHOLE_ELECTION_ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            topic_result(named.topic, [result(index, error, message) for index in named.partitions])
            for named in request.topic_partitions or ()
        ],
    )


def alter_partition_reassignments_refused(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    """The same error for the whole request and each of its partitions."""
    topic_result = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    result = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        responses=[
            topic_result(topic.name, [result(each.partition_index, error, None) for each in topic.partitions])
            for topic in request.topics
        ],
    )


def list_partition_reassignments_refused(
    request: ListPartitionReassignmentsRequest, error: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """The error, with the partitions that were asked for and nothing about them."""
    topic_result = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    result = ListPartitionReassignmentsResponse.OngoingPartitionReassignment
    return ListPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        topics=[
            topic_result(asked.name, [result(index) for index in asked.partition_indexes])
            for asked in request.topics or ()
        ],
    )
