"""Requests that change configs and list what has some, each in every version.

The long conversation about what may be changed is in `config_questions`; here each request is put once in
each of its versions. What a case sets bears its version in its value, and nothing later depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from protocol.codec.message import Message
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.registry import ApiKey
from tests.support.questions.config_steps import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    TOPIC,
    change,
    drop,
    less,
    more,
    put,
    replace,
)
from tests.support.questions.question import Case, World

K: Final = ApiKey


def _list(*kinds: int) -> Callable[[World, int], Message]:
    return lambda world, version: ListConfigResourcesRequest(list(kinds) if version >= 1 else [])


CASES: Final = (
    Case(
        "change configs",
        K.INCREMENTAL_ALTER_CONFIGS,
        lambda w, v: change(
            (TOPIC, "two", [put("segment.ms", f"{70_000 + v}"), more("cleanup.policy", "delete")]),
            (BROKER, "", [drop("log.retention.ms")]),
            (GROUP, "gruppe-configs", [put("share.isolation.level", "read_committed")]),
            (CLIENT_METRICS, "abo-configs", [put("interval.ms", "1000")]),
            (LOGGER, "1", [put("root", "ERROR")]),
        ),
    ),
    Case(
        "change configs back",
        K.INCREMENTAL_ALTER_CONFIGS,
        lambda w, v: change(
            (TOPIC, "two", [drop("segment.ms"), less("cleanup.policy", "delete")]),
            (LOGGER, "1", [put("root", "INFO")]),
        ),
    ),
    Case(
        "change configs, badly",
        K.INCREMENTAL_ALTER_CONFIGS,
        lambda w, v: change(
            (TOPIC, "two", [put("segment.ms", "soon")]),
            (TOPIC, "none-such", [put("segment.ms", "1")]),
            (BROKER, "1", [put("num.partitions", "1")]),
            (BROKER, "7", [put("message.max.bytes", "1")]),
            (LOGGER, "1", [put("root", "LOUD")]),
            (GROUP, "", [put("share.isolation.level", "read_committed")]),
            (77, "x", [put("a", "b")]),
        ),
    ),
    Case(
        "replace configs",
        K.ALTER_CONFIGS,
        lambda w, v: replace(
            (TOPIC, "one", {"retention.ms": f"{90_000_000_000_000 + v}"}),
            (BROKER, "", {}),
            (LOGGER, "1", {"root": "INFO"}),
            (TOPIC, "none-such", {}),
        ),
    ),
    Case(
        "replace configs, only to see",
        K.ALTER_CONFIGS,
        lambda w, v: replace((TOPIC, "one", {}), (TOPIC, "two", {"segment.ms": None}), validate_only=True),
    ),
    Case("replace configs by none", K.ALTER_CONFIGS, lambda w, v: replace((TOPIC, "one", {}))),
    Case("list what has configs", K.LIST_CONFIG_RESOURCES, _list(CLIENT_METRICS, BROKER, LOGGER, GROUP)),
    Case("list what nobody knows", K.LIST_CONFIG_RESOURCES, _list(77), 1),
)
