"""DescribeClientQuotas (48): the quotas of those entities that a filter lets through. KIP-546.

Versions 0-1. 1 is flexible. A component of the filter asks for an entity by its name, for the default, or for
any name of a type; strict leaves out entities with parts of which the filter does not speak. A filter that
contradicts itself is INVALID_REQUEST, a type that nobody knows UNSUPPORTED_VERSION, for the whole request.

Authorization: DESCRIBE_CONFIGS on the cluster. Answered from this broker's image of the metadata log.
"""

from __future__ import annotations

from typing import Final

from broker.services import HasMetadata
from controller.metadata.client_quotas import CLIENT_ID, IP, USER
from controller.metadata.image.quotas import QuotaEntity
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns

Component = DescribeClientQuotasRequest.ComponentData
Response = DescribeClientQuotasResponse

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
_NAMES: Final = ("MATCH_TYPE_EXACT", "MATCH_TYPE_DEFAULT", "MATCH_TYPE_SPECIFIED")


@in_turns
def handle(
    services: HasMetadata, context: RequestContext, request: DescribeClientQuotasRequest
) -> Turns[DescribeClientQuotasResponse]:
    if not context.allows_cluster(Operation.DESCRIBE_CONFIGS):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Response(error_code=error, error_message=error.message, entries=None)
    by_type: dict[str, Component] = {}
    for component in request.components:
        fault = _fault(component, by_type)
        if fault is not None:
            return Response(error_code=fault[0], error_message=fault[1], entries=None)
        by_type[component.entity_type] = component
    if IP in by_type and (USER in by_type or CLIENT_ID in by_type):
        sentence = (
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component."
        )
        return Response(error_code=ErrorCode.INVALID_REQUEST, error_message=sentence, entries=None)
    quotas = {} if request.strict and not by_type else services.metadata.image.quotas.by_entity
    for entity, values in quotas.items():
        if not _matches(entity, by_type, strict=request.strict):
            yield None
            continue
        yield Response.EntryData(
            [Response.EntityData(kind, name) for kind, name in entity],
            [Response.ValueData(key, value) for key, value in values.items()],
        )
    return Response()


def _fault(component: Component, others: dict[str, Component]) -> tuple[ErrorCode, str] | None:
    kind, match_type = component.entity_type, component.match_type
    if not kind:
        return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
    if kind in others:
        return ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
    if kind not in (IP, USER, CLIENT_ID):
        return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
    if not EXACT <= match_type <= SPECIFIED:
        return ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}"
    asked = f"Request specified {_NAMES[match_type]}, but"
    if match_type == EXACT and component.match is None:
        return ErrorCode.INVALID_REQUEST, f"{asked} set match string to null."
    if match_type != EXACT and component.match is not None:
        return ErrorCode.INVALID_REQUEST, f"{asked} also specified a match string."
    return None


def _matches(entity: QuotaEntity, by_type: dict[str, Component], *, strict: bool) -> bool:
    if strict and len(entity) != len(by_type):
        return False
    parts = dict(entity)
    return all(
        kind in parts and (component.match_type == SPECIFIED or parts[kind] == component.match)
        for kind, component in by_type.items()
    )
