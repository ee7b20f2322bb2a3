"""Changes of configs as broker and controller both see them: the changes for a resource, and their result.

A broker looks at a request before it passes it on (`broker.metadata.config_requests`), and the controller
decides it (`controller.config_requests`). Levels of loggers belong to both: each node changes its own, at
once and in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from config.errors import InvalidValue, RefusedChange
from config.limits import NAMED_PER_REQUEST
from config.log_levels import LevelChange, Loggers, apply_levels, validate_levels
from config.values import java_whole
from controller.metadata.image.configs import ConfigResourceType
from protocol.errors import ErrorCode
from protocol.refusals import TOO_LARGE

__all__ = [
    "Change",
    "ConfigChangeResult",
    "ConfigOperation",
    "LoggerRequest",
    "ResourceChange",
    "alter_loggers",
    "node_fault",
    "replaced_by",
    "too_large",
    "too_many",
]


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """The change of one config of a resource. `operation` is the code in the request; an unknown code is
    refused."""

    name: str
    operation: int
    value: str | None


class ResourceChange(NamedTuple):
    """The changes of one resource. `replaces`: configs that are not named are removed."""

    kind: int
    name: str
    changes: Sequence[Change]
    replaces: bool = False


class ConfigChangeResult(NamedTuple):
    """The result for one resource."""

    kind: int
    name: str
    error: ErrorCode
    message: str | None


def replaced_by(kind: int, name: str, configs: Mapping[str, str | None]) -> ResourceChange:
    """The changes that replace the whole configuration of a resource. A config with null counts as not
    named."""
    changes = [Change(key, ConfigOperation.SET, value) for key, value in configs.items()]
    return ResourceChange(kind, name, changes, replaces=True)


def too_many(resources: Sequence[ResourceChange]) -> bool:
    """Whether a request names more resources and configs than it may."""
    return len(resources) + sum(len(each.changes) for each in resources) > NAMED_PER_REQUEST


def too_large(resources: Sequence[ResourceChange]) -> list[ConfigChangeResult]:
    """Refuses all resources, because their changes together do not fit into one batch."""
    return [
        ConfigChangeResult(each.kind, each.name, ErrorCode.POLICY_VIOLATION, TOO_LARGE) for each in resources
    ]


# Loggers


class LoggerRequest(NamedTuple):
    """The changes of one node's loggers. `name` is the node's id as the request has it."""

    name: str
    changes: Sequence[Change]
    validate_only: bool


_OPERATIONS: Final = MappingProxyType({int(each): each.name for each in ConfigOperation})


def alter_loggers(
    loggers: Loggers, node_id: int, asked: LoggerRequest, *, allowed: bool
) -> ConfigChangeResult:
    """Changes levels of loggers at once, all of them or none."""
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
    """Kafka's sentence on a resource that is not this node; None if it is. `unexpected` has two gaps: for
    this node's id, and for the other one."""
    received = java_whole(name)
    if received is None:
        return f"Node id must be an integer, but it is: {name}"
    return None if received == node_id else unexpected.format(node_id, received)
