"""What a question is: one request of an API in each of its versions, put to a broker in a known state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from protocol.codec.message import Message
from protocol.registry import ApiKey

NOBODY: Final = b"\x17" * 16
"""A topic id that no topic has."""


class World(NamedTuple):
    topic_ids: Mapping[str, bytes]

    def id_of(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, NOBODY)


class Case(NamedTuple):
    name: str
    key: ApiKey
    request: Callable[[World, int], Message]
    first: int = 0
    last: int = 99
