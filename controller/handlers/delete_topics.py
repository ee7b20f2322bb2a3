"""DeleteTopics (20): topics go, by name or by id. KIP-4, KIP-516, KIP-599.

Versions 1-6. 5 brings error messages and a quota's refusal, 6 topic ids. Done when the removal is committed;
the brokers remove the data when they see it. With delete.topic.enable=false every topic is refused, and so is
a request without any time (REQUEST_TIMED_OUT).

Authorization: DELETE on the cluster, or on the topic. Who may not DESCRIBE a topic does not learn whether it
exists, nor, if he named it by id, what it is called.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from controller.services import ControllerServices
from controller.subjects.result import names_too_much
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.refusals import TOO_LARGE, delete_topics_refused
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.values import ZERO_UUID

Result = DeleteTopicsResponse.DeletableTopicResult

IDS_SINCE: Final = 6
DISABLED_CODE_SINCE: Final = 3
STRICT_QUOTA_SINCE: Final = 5


def handle(
    services: ControllerServices, context: RequestContext, request: DeleteTopicsRequest
) -> Pending[DeleteTopicsResponse] | DeleteTopicsResponse:
    if context.version >= IDS_SINCE:
        names = [each.name for each in request.topics if each.name is not None and each.topic_id == ZERO_UUID]
        ids = [each.topic_id for each in request.topics if each.name is None and each.topic_id != ZERO_UUID]
    else:
        names, ids = list(request.topic_names), []
    if not services.controller.deletes_topics:
        return _disabled(context.version, request)
    if request.timeout_ms <= 0:
        return delete_topics_refused(request, ErrorCode.REQUEST_TIMED_OUT, None)
    if names_too_much(request):
        return delete_topics_refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    refused = _contradictions(request) if context.version >= IDS_SINCE else []
    results = [*refused, *_repeated(names, ids)]
    wanted = _resolve(services, context, names, ids, results)
    quota = services.mutation_quota(context, STRICT_QUOTA_SINCE)

    def answer(outcome: dict[bytes, ErrorCode]) -> DeleteTopicsResponse:
        for topic_id, name in wanted.items():
            error = outcome[topic_id]
            results.append(_result(name, topic_id, error))
        return DeleteTopicsResponse(quota.throttle_ms(services.clock.monotonic_ms()), results)

    return services.controller.delete_topics(list(wanted), quota).then(answer)


def _result(name: str | None, topic_id: bytes, error: ErrorCode, message: str | None = None) -> Result:
    told = error not in (ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    text = message or error.message if told else None
    return Result(name=name, topic_id=topic_id, error_code=error, error_message=text)


def _contradictions(request: DeleteTopicsRequest) -> list[Result]:
    """The entries that name both a name and an id, or neither."""
    results = []
    for state in request.topics:
        if state.name is None and state.topic_id == ZERO_UUID:
            sentence = "Neither topic name nor id were specified."
        elif state.name is not None and state.topic_id != ZERO_UUID:
            sentence = "You may not specify both topic name and topic id."
        else:
            continue
        results.append(_result(state.name, state.topic_id, ErrorCode.INVALID_REQUEST, sentence))
    return results


def _repeated(names: list[str], ids: list[bytes]) -> list[Result]:
    """One refusal for each name and id that stands more than once in the request."""
    invalid = ErrorCode.INVALID_REQUEST
    return [
        *(
            _result(n, ZERO_UUID, invalid, "Duplicate topic name.")
            for n, k in Counter(names).items()
            if k > 1
        ),
        *(_result(None, i, invalid, "Duplicate topic id.") for i, k in Counter(ids).items() if k > 1),
    ]


def _resolve(
    services: ControllerServices,
    context: RequestContext,
    names: list[str],
    ids: list[bytes],
    results: list[Result],
) -> dict[bytes, str | None]:
    """The names, by id, of the topics that may be deleted. The others are refused in `results`."""
    wanted: dict[bytes, str | None] = {}
    everywhere = context.may_see_cluster(Operation.DELETE)

    def may(operation: Operation, name: str) -> bool:
        return everywhere or context.allows(operation, ResourceType.TOPIC, name)

    once_ids = [topic_id for topic_id, count in Counter(ids).items() if count == 1]
    known_names = services.controller.topic_names(once_ids)
    for topic_id in once_ids:
        name = known_names.get(topic_id)
        if name is None:
            results.append(_result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not may(Operation.DESCRIBE, name):
            results.append(_result(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif not may(Operation.DELETE, name):
            results.append(_result(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            wanted[topic_id] = name
    named_by_id = set(ids)
    once_names = [name for name, count in Counter(names).items() if count == 1]
    known_ids = services.controller.topic_ids(once_names)
    for name in once_names:
        topic_id = known_ids.get(name, ZERO_UUID)
        if not may(Operation.DESCRIBE, name):
            results.append(_result(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic_id == ZERO_UUID:
            results.append(_result(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif not may(Operation.DELETE, name):
            results.append(_result(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic_id in named_by_id:
            wanted.pop(topic_id, None)
            sentence = "The provided topic name maps to an ID that was already supplied."
            results.append(_result(name, topic_id, ErrorCode.INVALID_REQUEST, sentence))
        else:
            wanted[topic_id] = name
    return wanted


def _disabled(version: int, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    error = ErrorCode.TOPIC_DELETION_DISABLED if version >= DISABLED_CODE_SINCE else ErrorCode.INVALID_REQUEST
    return delete_topics_refused(request, error, error.message)
