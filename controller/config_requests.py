"""What both requests that change configs do before a resource is decided: resources of unknown types,
repeated ones and those that the client may not alter are refused, and the operator's policy is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.resource_changes import (
    ConfigChangeResult,
    ResourceChange,
    too_large,
    too_many,
)
from controller.policies import decide_by_policies
from controller.services import ControllerServices
from controller.subjects.config_changes import alter_configs
from protocol.errors import ErrorCode
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

__all__ = ["alter"]

_ON_THE_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.CLIENT_METRICS)


def alter(
    services: ControllerServices,
    context: RequestContext,
    resources: Sequence[ResourceChange],
    *,
    validate_only: bool,
) -> Pending[list[ConfigChangeResult]]:
    """The outcome of each resource. A resource that is named twice has a single outcome, a refusal."""
    pending: Pending[list[ConfigChangeResult]] = Pending()
    if too_many(resources):
        pending.complete(too_large(resources))
        return pending
    counts = Counter((each.kind, each.name) for each in resources)
    refused: dict[tuple[int, str], ConfigChangeResult] = {}
    wanted = []
    for resource in resources:
        kind, name = key = resource.kind, resource.name
        if counts[key] > 1:
            refused[key] = ConfigChangeResult(kind, name, ErrorCode.INVALID_REQUEST, "Duplicate resource.")
            continue
        refusal = _refusal(context, kind, name)
        if refusal is None:
            wanted.append(resource)
        else:
            refused[key] = refusal
    rules = services.controller.rules
    return decide_by_policies(
        services.controller,
        services.policies,
        lambda image, judge: alter_configs(image, wanted, rules, judge, validate_only=validate_only),
        lambda error: [ConfigChangeResult(each.kind, each.name, error, error.message) for each in wanted],
    ).then(lambda outcomes: [*refused.values(), *outcomes])


def _refusal(context: RequestContext, kind: int, name: str) -> ConfigChangeResult | None:
    if kind == ConfigResourceType.BROKER_LOGGER:
        return ConfigChangeResult(
            kind, name, ErrorCode.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER."
        )
    if kind in _ON_THE_CLUSTER:
        allowed, error = (
            context.allows_cluster(Operation.ALTER_CONFIGS),
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
    elif kind == ConfigResourceType.TOPIC:
        allowed = context.allows(Operation.ALTER_CONFIGS, ResourceType.TOPIC, name)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif kind == ConfigResourceType.GROUP:
        allowed = context.allows(Operation.ALTER_CONFIGS, ResourceType.GROUP, name)
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        return ConfigChangeResult(kind, name, ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {kind}.")
    return None if allowed else ConfigChangeResult(kind, name, error, error.message)
