"""What a question is: one request of an API in each of its versions, put to a broker in a known state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from protocol.codec.message import Message
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.registry import ApiKey

NOBODY: Final = b"\x17" * 16
"""A topic id that no topic has."""


UNKNOWN_PRODUCER: Final = (4711, 0)
"""The id and epoch of a producer that has not got any."""


class World(NamedTuple):
    """What a question may name."""

    topic_ids: Mapping[str, bytes]
    producers: Mapping[str, tuple[int, int]] = MappingProxyType({})
    """The ids and epochs of transactional producers, as answers told them."""

    def id_of(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, NOBODY)

    def producer(self, transactional_id: str) -> tuple[int, int]:
        return self.producers.get(transactional_id, UNKNOWN_PRODUCER)

    def after(self, request: Message, answer: Message) -> World:
        """With what an answer told of a producer."""
        if not isinstance(request, InitProducerIdRequest | EndTxnRequest) or not request.transactional_id:
            return self
        if not isinstance(answer, InitProducerIdResponse | EndTxnResponse) or answer.producer_id < 0:
            return self
        told = answer.producer_id, answer.producer_epoch
        return self._replace(producers={**self.producers, request.transactional_id: told})


class Case(NamedTuple):
    name: str
    key: ApiKey
    request: Callable[[World, int], Message]
    first: int = 0
    last: int = 99
