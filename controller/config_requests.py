"""What both requests that change configs do before a resource is decided: strangers, repetitions and those
who may not are sorted out, and the operator's policy is asked; and levels of loggers, which brokers change in
the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from config.errors import InvalidValue, RefusedChange
from config.limits import NAMED_PER_REQUEST
from config.log_levels import LevelChange, Loggers, apply_levels, validate_levels
from controller.metadata.image.configs import ConfigResourceType
from controller.policies import decide_by_policies
from controller.services import ControllerServices
from controller.subjects.config_changes import (
    Change,
    ConfigChangeResult,
    ConfigOperation,
    ResourceChange,
    alter_configs,
    too_large,
)
from protocol.errors import ErrorCode
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

__all__ = ["LoggerRequest", "alter", "alter_loggers", "node_fault", "too_many"]

_ON_THE_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.CLIENT_METRICS)
_OPERATIONS: Final = MappingProxyType({int(each): each.name for each in ConfigOperation})


class LoggerRequest(NamedTuple):
    """What is asked of one node's loggers; `name` is the node's id as it was written."""

    name: str
    changes: Sequence[Change]
    validate_only: bool


def alter(
    services: ControllerServices,
    context: RequestContext,
    resources: Sequence[ResourceChange],
    *,
    validate_only: bool,
) -> Pending[list[ConfigChangeResult]]:
    """The outcome of each resource; one that stands there twice has a single outcome, a refusal."""
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


def too_many(resources: Sequence[ResourceChange]) -> bool:
    """Whether more resources and configs are named than one request may."""
    return len(resources) + sum(len(each.changes) for each in resources) > NAMED_PER_REQUEST


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


def alter_loggers(
    loggers: Loggers, node_id: int, asked: LoggerRequest, *, allowed: bool
) -> ConfigChangeResult:
    """Changes levels here and now, all of them or none."""
    kind = int(ConfigResourceType.BROKER_LOGGER)
    if not allowed:
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ConfigChangeResult(kind, asked.name, error, error.message)
    fault = node_fault(asked.name, node_id, "Unexpected node id. Expected {}, but received {}")
    if fault is not None:
        return ConfigChangeResult(kind, asked.name, ErrorCode.INVALID_REQUEST, fault)
    if any(change.operation not in _OPERATIONS for change in asked.changes):
        return ConfigChangeResult(kind, asked.name, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    changes = [LevelChange(name, _OPERATIONS.get(code), level) for name, code, level in asked.changes]
    try:
        validate_levels(changes, loggers)
    except RefusedChange as refused:
        return ConfigChangeResult(kind, asked.name, ErrorCode.INVALID_REQUEST, str(refused))
    except InvalidValue as invalid:
        return ConfigChangeResult(kind, asked.name, ErrorCode.INVALID_CONFIG, str(invalid))
    if not asked.validate_only:
        apply_levels(changes, loggers)
    return ConfigChangeResult(kind, asked.name, ErrorCode.NONE, None)


def node_fault(name: str, node_id: int, unexpected: str) -> str | None:
    """Kafka's sentence on a resource that is not this node; None if it is. `unexpected` has two gaps: this
    node's id, and the other's."""
    try:
        received = int(name)
    except ValueError:
        return f"Node id must be an integer, but it is: {name}"
    return None if received == node_id else unexpected.format(node_id, received)
