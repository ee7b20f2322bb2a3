"""What a broker does with a request that changes configs before the controller hears of it.

Contradictions are refused (a resource or a config twice, a null), levels of this broker's loggers are changed
on the spot, and a broker's own settings are checked against its file, which the controller does not know.
What is left goes to the controller; the client gets both answers as one, in the order of its request.

The controller asks who may do all this. Settings of a broker want ALTER_CONFIGS on the cluster here already,
because to check them files are opened that the request names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from broker.services import ChecksStores, HasConfig, HasController, HasLoggers, HasMetadata, HasNodeId
from config.catalogue import BROKER, unscoped_name
from config.definition import LIST
from config.dynamic import validate_broker_change
from config.errors import ConfigError, some_of
from config.list_changes import changed_list
from controller.metadata.image.configs import ConfigResourceType
from controller.metadata.resource_changes import (
    Change,
    ConfigChangeResult,
    ConfigOperation,
    LoggerRequest,
    ResourceChange,
    alter_loggers,
    node_fault,
    too_large,
    too_many,
)
from protocol.errors import ErrorCode
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

_WORDS: Final = MappingProxyType({ConfigOperation.APPEND: "append", ConfigOperation.SUBTRACT: "subtract"})
_FORWARDED: Final = (ConfigResourceType.TOPIC, ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP)


class AlterConfigsServices(
    HasNodeId, HasConfig, HasMetadata, HasLoggers, HasController, ChecksStores, Protocol
):
    """What a change of configs needs of the broker's services."""


class _RefusedResource(Exception):
    """A resource of the request is refused by the broker, without asking the controller."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def preprocess(
    services: AlterConfigsServices,
    context: RequestContext,
    resources: Sequence[ResourceChange],
    *,
    validate_only: bool,
) -> list[ConfigChangeResult | None]:
    """The answer of this broker for each resource, or None if the controller must answer."""
    counts = Counter((each.kind, each.name) for each in resources)
    outcomes: list[ConfigChangeResult | None] = []
    for resource in resources:
        kind, name = resource.kind, resource.name
        if counts[kind, name] > 1:
            sentence = "Each resource must appear at most once."
            outcomes.append(ConfigChangeResult(kind, name, ErrorCode.INVALID_REQUEST, sentence))
            continue
        try:
            outcomes.append(_preprocess(services, context, resource, validate_only=validate_only))
        except _RefusedResource as refused:
            outcomes.append(ConfigChangeResult(kind, name, refused.code, refused.message))
    return outcomes


def _preprocess(
    services: AlterConfigsServices, context: RequestContext, resource: ResourceChange, *, validate_only: bool
) -> ConfigChangeResult | None:
    _check_form(resource.changes)
    kind, name = resource.kind, resource.name
    if kind == ConfigResourceType.BROKER:
        if name:
            fault = node_fault(name, services.node_id, "Unexpected broker id, expected {}, but received {}")
            if fault is not None:
                raise _RefusedResource(ErrorCode.INVALID_REQUEST, fault)
        if not context.allows_cluster(Operation.ALTER_CONFIGS):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise _RefusedResource(error, error.message)
        _check_broker(services, resource)
        return None
    if kind == ConfigResourceType.BROKER_LOGGER and not resource.replaces:
        asked = LoggerRequest(name, resource.changes, validate_only)
        allowed = context.allows_cluster(Operation.ALTER_CONFIGS)
        return alter_loggers(services.loggers, services.node_id, asked, allowed=allowed)
    if kind not in _FORWARDED:
        raise _RefusedResource(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    return None


def _check_form(changes: Sequence[Change]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise _RefusedResource(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        name for name, operation, value in changes if value is None and operation != ConfigOperation.DELETE
    ]
    if nulls:
        raise _RefusedResource(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {some_of(nulls, ', ')}"
        )


def _check_broker(services: AlterConfigsServices, resource: ResourceChange) -> None:
    """Raises _RefusedResource if this broker could not run with the requested settings."""
    per_broker = bool(resource.name)
    current = services.config
    settings: dict[str, str] = {}
    if not resource.replaces:
        settings |= services.metadata.image.configs.of(ConfigResourceType.BROKER, resource.name)
    for name, operation, value in resource.changes:
        if operation == ConfigOperation.SET:
            settings[name] = value or ""
        elif operation == ConfigOperation.DELETE:
            settings.pop(name, None)
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            settings[name] = _changed_list(name, settings.get(name), value or "", ConfigOperation(operation))
        else:
            raise _RefusedResource(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    try:
        wanted = validate_broker_change(settings, current, per_broker=per_broker)
        if any(unscoped_name(each.name).startswith("ssl.") for each in resource.changes):
            services.check_stores(wanted)
    except ConfigError as fault:
        raise _RefusedResource(ErrorCode.INVALID_REQUEST, str(fault)) from fault


def _changed_list(name: str, stored: str | None, given: str, operation: ConfigOperation) -> str:
    definition = BROKER.get(name)
    if definition is None:
        raise _RefusedResource(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if definition.type is not LIST:
        raise _RefusedResource(
            ErrorCode.INVALID_CONFIG,
            f"Config value {_WORDS[operation]} is not allowed for config key: {name}",
        )
    return changed_list(definition, name, stored, given, operation.name)


class _ResourceAnswer(Protocol):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class _Answer(Protocol):
    throttle_time_ms: int

    @property
    def responses(self) -> Sequence[_ResourceAnswer]: ...


AnswerT = TypeVar("AnswerT", bound=_Answer)


def refused(resources: Sequence[ResourceChange], error: ErrorCode) -> list[ConfigChangeResult]:
    """The response if the controller could not be asked: every resource has the same error."""
    return [ConfigChangeResult(each.kind, each.name, error, error.message) for each in resources]


def in_one_answer(
    resources: Sequence[ResourceChange], here: Sequence[ConfigChangeResult | None], there: _Answer
) -> list[ConfigChangeResult]:
    """The answers of this broker and of the controller, in the order of the request.

    A resource of which the controller says nothing is our bug or the controller's, and the client is told
    that the outcome is not known.
    """
    known = {
        (each.resource_type, each.resource_name): (each.error_code, each.error_message)
        for each in there.responses
    }
    outcomes = []
    for resource, outcome in zip(resources, here, strict=True):
        kind, name = resource.kind, resource.name
        if outcome is None:
            unheard = (ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller said nothing of {name}.")
            error, message = known.get((kind, name), unheard)
            outcome = ConfigChangeResult(kind, name, ErrorCode(error), message)
        outcomes.append(outcome)
    return outcomes


def change(
    services: AlterConfigsServices,
    context: RequestContext,
    resources: Sequence[ResourceChange],
    *,
    validate_only: bool,
    forward: Callable[[list[bool]], Pending[AnswerT]],
    answer: Callable[[int, list[ConfigChangeResult]], AnswerT],
) -> AnswerT | Pending[AnswerT]:
    """Changes what this broker handles itself, and asks the controller for the rest.

    forward: asks the controller for the resources that are marked. answer: makes the answer of the API from
    the throttle time in ms and the outcomes in the request's order.
    """
    if too_many(resources):
        return answer(0, too_large(resources))
    here = preprocess(services, context, resources, validate_only=validate_only)
    left = [outcome is None for outcome in here]
    if not any(left):
        return answer(0, [outcome for outcome in here if outcome is not None])

    def answered(response: AnswerT) -> AnswerT:
        return answer(response.throttle_time_ms, in_one_answer(resources, here, response))

    return forward(left).then(answered)
