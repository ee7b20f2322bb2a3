"""DescribeClientQuotas by all filters, with the answers of a genuine Kafka 4.3.1."""

from __future__ import annotations

from typing import Final

import pytest

from broker.handlers import describe_client_quotas
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from protocol.metadata_log.cluster import ClientQuotaRecord
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from tests.support.rigs.handler_rig import HandlerRig

Component = tuple[str, int, str | None]

EXACT, DEFAULT, ANY = 0, 1, 2
STORED: Final = (
    "user=alice",
    "client-id=c user=alice",
    "user=None",
    "client-id=None",
    "client-id=None user=None",
    "ip=10.0.0.1",
    "ip=None",
)


def rig() -> HandlerRig:
    made = HandlerRig()
    for number, entity in enumerate(STORED):
        parts = [part.split("=") for part in entity.split()]
        named = [ClientQuotaRecord.EntityData(kind, None if name == "None" else name) for kind, name in parts]
        key = "connection_creation_rate" if entity.startswith("ip") else "producer_byte_rate"
        made.apply(ClientQuotaRecord(entity=named, key=key, value=number + 1.0))
    return made


def described(made: HandlerRig, *components: Component, strict: bool = False) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(
        [DescribeClientQuotasRequest.ComponentData(*each) for each in components], strict
    )
    context = made.context(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)
    return describe_client_quotas.handle(made.services, context, request)


FILTERS: Final[list[tuple[list[Component], bool, tuple[str, ...]]]] = [
    ([], False, STORED),
    ([], True, ()),
    ([("user", EXACT, "alice")], False, ("user=alice", "client-id=c user=alice")),
    ([("user", EXACT, "alice")], True, ("user=alice",)),
    (
        [("user", ANY, None)],
        False,
        ("user=alice", "client-id=c user=alice", "user=None", "client-id=None user=None"),
    ),
    ([("user", ANY, None)], True, ("user=alice", "user=None")),
    ([("user", DEFAULT, None)], False, ("user=None", "client-id=None user=None")),
    ([("user", DEFAULT, None)], True, ("user=None",)),
    (
        [("user", ANY, None), ("client-id", ANY, None)],
        True,
        ("client-id=c user=alice", "client-id=None user=None"),
    ),
    ([("user", EXACT, "alice"), ("client-id", ANY, None)], False, ("client-id=c user=alice",)),
    ([("ip", ANY, None)], False, ("ip=10.0.0.1", "ip=None")),
    ([("user", EXACT, "nobody")], False, ()),
]


@pytest.mark.parametrize(("components", "strict", "expected"), FILTERS)
def test_what_a_filter_lets_through(
    components: list[Component], strict: bool, expected: tuple[str, ...]
) -> None:
    response = described(rig(), *components, strict=strict)
    assert (response.error_code, response.error_message) == (0, "")
    found = {
        " ".join(f"{part.entity_type}={part.entity_name}" for part in each.entity): [
            value.value for value in each.values
        ]
        for each in response.entries or ()
    }
    assert found == {entity: [STORED.index(entity) + 1.0] for entity in expected}


MIXED: Final = "Invalid entity filter component combination."
REFUSED: Final[list[tuple[list[Component], int, str]]] = [
    ([("", ANY, None)], 42, "Invalid empty entity type."),
    ([("group", ANY, None)], 35, "Unsupported entity type group"),
    (
        [("user", ANY, None), ("user", EXACT, "x")],
        42,
        "Entity type user cannot appear more than once in the filter.",
    ),
    (
        [("user", EXACT, None)],
        42,
        "Request specified MATCH_TYPE_EXACT, but set match string to null.",
    ),
    (
        [("user", DEFAULT, "x")],
        42,
        "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    ),
    (
        [("user", ANY, "x")],
        42,
        "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
    ),
    ([("user", 7, None)], 42, "Unknown match type 7"),
    (
        [("ip", ANY, None), ("user", ANY, None)],
        42,
        f"{MIXED} IP filter component should not be used with user or clientId filter component.",
    ),
]


@pytest.mark.parametrize(("components", "code", "sentence"), REFUSED)
def test_filters_that_contradict_themselves(components: list[Component], code: int, sentence: str) -> None:
    response = described(rig(), *components)
    assert (response.error_code, response.error_message, response.entries) == (code, sentence, None)


def test_who_may_not_describe_the_cluster_is_told_nothing() -> None:
    made = rig()
    made.deny(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    response = described(made)
    assert (response.error_code, response.entries) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
