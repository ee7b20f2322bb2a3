"""Questions about client quotas: set, refused, shown and removed, of entities that no client here is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from protocol.codec.message import Message
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.registry import ApiKey
from tests.support.questions.question import Case, World

K: Final = ApiKey


def _alter(
    key: str, value: float, *entity: tuple[str, str | None], remove: bool = False
) -> Callable[[World, int], Message]:
    parts = [AlterClientQuotasRequest.EntityData(*part) for part in entity]
    change = AlterClientQuotasRequest.OpData(key, value, remove)
    entry = AlterClientQuotasRequest.EntryData(parts, [change])
    return lambda world, version: AlterClientQuotasRequest([entry])


def _describe(*components: tuple[str, int, str | None]) -> Callable[[World, int], Message]:
    asked = [DescribeClientQuotasRequest.ComponentData(*each) for each in components]
    return lambda world, version: DescribeClientQuotasRequest(asked, strict=True)


CASES: Final = [
    Case("quotas, of a user", K.ALTER_CLIENT_QUOTAS, _alter("producer_byte_rate", 5.0, ("user", "somebody"))),
    Case("quotas, of nobody", K.ALTER_CLIENT_QUOTAS, _alter("producer_byte_rate", 5.0)),
    Case("quotas, unknown", K.ALTER_CLIENT_QUOTAS, _alter("colour", 5.0, ("user", "somebody"))),
    Case("describe quotas, of a type", K.DESCRIBE_CLIENT_QUOTAS, _describe(("group", 2, None))),
    Case("describe quotas, of an address", K.DESCRIBE_CLIENT_QUOTAS, _describe(("ip", 0, "10.9.8.7"))),
    Case(
        "quotas, removed",
        K.ALTER_CLIENT_QUOTAS,
        _alter("producer_byte_rate", 0.0, ("user", "somebody"), remove=True),
    ),
]
