"""The words in which a test speaks of configs: changes, replacements and looks, and steps that put them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from protocol.codec.message import Message
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

OPERATIONS: Final = {"=": 0, "del": 1, "+": 2, "-": 3, "?": 9}

BROKER_SIDE: Final = "broker"
CONTROLLER_SIDE: Final = "controller"

Change = tuple[str, str, str | None]
"""What is done (a key of `OPERATIONS`), to which config, with which value."""


class Step(NamedTuple):
    """One request. `listener` says whom it is put to."""

    name: str
    request: Message
    version: int
    listener: str = BROKER_SIDE


def put(name: str, value: str | None) -> Change:
    return ("=", name, value)


def drop(name: str, value: str | None = None) -> Change:
    return ("del", name, value)


def more(name: str, value: str | None) -> Change:
    return ("+", name, value)


def less(name: str, value: str | None) -> Change:
    return ("-", name, value)


def _resource(
    kind: int, name: str, changes: Sequence[Change]
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        kind,
        name,
        [
            IncrementalAlterConfigsRequest.AlterableConfig(key, OPERATIONS[operation], value)
            for operation, key, value in changes
        ],
    )


def change(
    *resources: tuple[int, str, Sequence[Change]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """One IncrementalAlterConfigs of these resources."""
    return IncrementalAlterConfigsRequest([_resource(*each) for each in resources], validate_only)


def replace(
    *resources: tuple[int, str, Mapping[str, str | None]], validate_only: bool = False
) -> AlterConfigsRequest:
    """One AlterConfigs of these resources."""
    return AlterConfigsRequest(
        [
            AlterConfigsRequest.AlterConfigsResource(
                kind, name, [AlterConfigsRequest.AlterableConfig(*item) for item in configs.items()]
            )
            for kind, name, configs in resources
        ],
        validate_only,
    )


def replace_twice(kind: int, name: str, key: str) -> AlterConfigsRequest:
    """One config named twice in one resource."""
    row = AlterConfigsRequest.AlterableConfig(key, "1000")
    return AlterConfigsRequest([AlterConfigsRequest.AlterConfigsResource(kind, name, [row, row])])


def look(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    """One DescribeConfigs of these keys, with their synonyms; of all keys where none is named."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, list(keys) or None)
    return DescribeConfigsRequest([resource], include_synonyms=True)


def alter_step(name: str, kind: int, resource: str, *changes: Change, validate_only: bool = False) -> Step:
    return Step(name, change((kind, resource, changes), validate_only=validate_only), 1)


def look_step(name: str, kind: int, resource: str, *keys: str) -> Step:
    return Step(name, look(kind, resource, *keys), 4)
