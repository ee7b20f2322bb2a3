"""Changes of client quotas with the answers of a genuine Kafka 4.3.1, and which quota holds for whom."""

from __future__ import annotations

import math
from random import Random
from typing import Final

import pytest

from config.limits import METADATA_RECORDS_PER_REQUEST
from controller.metadata.client_quotas import NO_LIMIT, ClientLimit, ClientLimits, limits_of_addresses
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, replay
from controller.metadata.image.quotas import QuotaEntity, QuotasImage
from controller.subjects.quota_changes import alter_client_quotas
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from tests.support.rigs.controllers import ControllerFixture

Entity = dict[str, str | None]
Values = dict[str, float | None]

INVALID: Final = ErrorCode.INVALID_REQUEST


def entry(
    entity: Entity | list[tuple[str, str | None]], *changes: Values
) -> AlterClientQuotasRequest.EntryData:
    """The changes of an entity; a value of None removes a quota."""
    parts = list(entity.items()) if isinstance(entity, dict) else entity
    return AlterClientQuotasRequest.EntryData(
        [AlterClientQuotasRequest.EntityData(kind, name) for kind, name in parts],
        [
            AlterClientQuotasRequest.OpData(key, value or 0.0, value is None)
            for change in changes
            for key, value in change.items()
        ],
    )


def altered(
    image: ClusterImage, *entries: AlterClientQuotasRequest.EntryData
) -> tuple[ClusterImage, AlterClientQuotasResponse]:
    decision = alter_client_quotas(image, AlterClientQuotasRequest(list(entries)))
    made, _ = replay(image, decision.records, offset=image.offset + 1, epoch=1)
    return made, decision.response


def told(response: AlterClientQuotasResponse) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in response.entries]


GENUINE: Final = {
    "no entity": (entry({}, {"producer_byte_rate": 5}), "Invalid empty client quota entity"),
    "type": (entry({"group": "g"}, {"producer_byte_rate": 5}), "Unhandled client quota entity type: group"),
    "empty name": (entry({"user": ""}, {"producer_byte_rate": 5}), "Empty user not supported"),
    "address and user": (
        entry({"ip": "1.2.3.4", "user": "u"}, {"connection_creation_rate": 5}),
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
    ),
    "no address": (
        entry({"ip": "not..an/ip"}, {"connection_creation_rate": 5}),
        "not..an/ip is not a valid IP or resolvable host.",
    ),
    "a key twice": (
        entry({"user": "u"}, {"producer_byte_rate": 5}, {"producer_byte_rate": 6}),
        "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})",
    ),
    "unknown key": (entry({"user": "u"}, {"colour": 5}), "Invalid configuration key colour"),
    "unknown key and a known one": (
        entry({"user": "u"}, {"colour": 5, "producer_byte_rate": 1}),
        "Invalid configuration key colour",
    ),
    "an address's key": (
        entry({"user": "u"}, {"connection_creation_rate": 5}),
        "Invalid configuration key connection_creation_rate",
    ),
    "a user's key": (
        entry({"ip": "10.0.0.9"}, {"producer_byte_rate": 5}),
        "Invalid configuration key producer_byte_rate",
    ),
    "a password": (entry({"user": "u"}, {"SCRAM-SHA-256": 1}), "Invalid configuration key SCRAM-SHA-256"),
    "fraction": (
        entry({"user": "u"}, {"producer_byte_rate": 5.5}),
        "producer_byte_rate cannot be a fractional value.",
    ),
    "fraction of a connection": (
        entry({"ip": None}, {"connection_creation_rate": 5.5}),
        "connection_creation_rate cannot be a fractional value.",
    ),
    "zero": (
        entry({"user": "u"}, {"producer_byte_rate": 0}),
        "Quota producer_byte_rate must be greater than 0",
    ),
    "negative": (
        entry({"user": "u"}, {"request_percentage": -5}),
        "Quota request_percentage must be greater than 0",
    ),
    "endless": (
        entry({"user": "u"}, {"producer_byte_rate": math.inf}),
        "Proposed value for producer_byte_rate is too large for a LONG.",
    ),
    "huge": (
        entry({"ip": "10.0.0.8"}, {"connection_creation_rate": 1e10}),
        "Proposed value for connection_creation_rate is too large for an INT.",
    ),
}


@pytest.mark.parametrize("name", GENUINE)
def test_what_is_refused(name: str) -> None:
    wrong, sentence = GENUINE[name]
    image, response = altered(EMPTY_IMAGE, wrong, entry({"user": "good"}, {"request_percentage": 1}))
    assert told(response) == [(INVALID, sentence), (0, None)]
    assert dict(image.quotas.by_entity) == {(("user", "good"),): {"request_percentage": 1.0}}


def test_what_is_set_changed_and_removed() -> None:
    both: Entity = {"user": "alice", "client-id": None}
    image, response = altered(
        EMPTY_IMAGE,
        entry(both, {"consumer_byte_rate": 1000, "request_percentage": 2.5}),
        entry({"ip": "::1"}, {"connection_creation_rate": 3}),
        entry({"user": "alice"}),
    )
    assert told(response) == [(0, None)] * 3
    assert [(part.entity_type, part.entity_name) for part in response.entries[0].entity] == [
        ("client-id", None),
        ("user", "alice"),
    ]
    assert dict(image.quotas.by_entity) == {
        (("client-id", None), ("user", "alice")): {"consumer_byte_rate": 1000.0, "request_percentage": 2.5},
        (("ip", "::1"),): {"connection_creation_rate": 3.0},
    }
    same = alter_client_quotas(image, AlterClientQuotasRequest([entry(both, {"consumer_byte_rate": 1000})]))
    assert same.records == [], "only a value that changes is written"
    image, response = altered(
        image, entry(both, {"consumer_byte_rate": None, "colour": None, "request_percentage": 3})
    )
    assert told(response) == [(0, None)], "what is not set can be removed, whatever it is called"
    assert image.quotas.by_entity[("client-id", None), ("user", "alice")] == {"request_percentage": 3.0}
    image, _ = altered(
        image,
        entry(both, {"request_percentage": None}),
        entry({"ip": "::1"}, {"connection_creation_rate": None}),
    )
    assert not image.quotas.by_entity


def test_an_entity_that_stands_twice_is_answered_once() -> None:
    image, response = altered(
        EMPTY_IMAGE,
        entry([("user", "u"), ("client-id", "c")], {"producer_byte_rate": 5}),
        entry([("client-id", "c"), ("user", "u")], {"consumer_byte_rate": 6}),
    )
    sentence = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=u})"
    assert told(response) == [(INVALID, sentence)]
    assert image.quotas.by_entity[("client-id", "c"), ("user", "u")] == {"producer_byte_rate": 5.0}


def test_validation_writes_nothing() -> None:
    asked = AlterClientQuotasRequest([entry({"user": "u"}, {"producer_byte_rate": 5})], validate_only=True)
    decision = alter_client_quotas(EMPTY_IMAGE, asked)
    assert (decision.records, told(decision.response)) == ([], [(0, None)])


def test_too_much_at_once_is_refused_whole() -> None:
    entries = [
        entry({"user": str(number)}, {"producer_byte_rate": 5})
        for number in range(METADATA_RECORDS_PER_REQUEST + 1)
    ]
    decision = alter_client_quotas(EMPTY_IMAGE, AlterClientQuotasRequest(entries))
    assert decision.records == ()
    assert {each.error_code for each in decision.response.entries} == {ErrorCode.POLICY_VIOLATION}


def test_quotas_survive_restart_and_snapshot() -> None:
    fixture = ControllerFixture()
    asked = AlterClientQuotasRequest([entry({"user": "u"}, {"producer_byte_rate": 5})])
    assert told(fixture.call(ApiKey.ALTER_CLIENT_QUOTAS, asked)) == [(0, None)]
    for by_snapshot in (False, True):
        if by_snapshot:
            fixture.log.write_snapshot(fixture.controller.image)
        fixture.settle()
        fixture.controller.shut_down()
        fixture.log.shut_down()
        fixture = fixture.restart()
        fixture.settle()
        assert dict(fixture.controller.image.quotas.by_entity) == {
            (("user", "u"),): {"producer_byte_rate": 5.0}
        }


def test_who_may_not_alter_the_cluster_alters_no_quota() -> None:
    fixture = ControllerFixture()
    fixture.authorizer.forbidden.add((Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME))
    asked = AlterClientQuotasRequest([entry({"user": "u"}, {"producer_byte_rate": 5})])
    response = fixture.call(ApiKey.ALTER_CLIENT_QUOTAS, asked)
    assert told(response) == [(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")]
    assert [(part.entity_type, part.entity_name) for part in response.entries[0].entity] == [("user", "u")]
    assert not fixture.controller.newest.quotas.by_entity


# Which quota holds

LEVELS: Final[list[tuple[Entity, ClientLimit]]] = [
    ({"user": "u", "client-id": "c"}, ClientLimit("u", "c", 0)),
    ({"user": "u", "client-id": None}, ClientLimit("u", "c", 0)),
    ({"user": "u"}, ClientLimit("u", "", 0)),
    ({"user": None, "client-id": "c"}, ClientLimit("u", "c", 0)),
    ({"user": None, "client-id": None}, ClientLimit("u", "c", 0)),
    ({"user": None}, ClientLimit("u", "", 0)),
    ({"client-id": "c"}, ClientLimit("", "c", 0)),
    ({"client-id": None}, ClientLimit("", "c", 0)),
]
"""From the most specific one on, with who shares it."""


def stored(*quotas: tuple[Entity, float], key: str = "producer_byte_rate") -> QuotasImage:
    return QuotasImage({tuple(sorted(entity.items())): {key: value} for entity, value in quotas})


@pytest.mark.parametrize("best", range(len(LEVELS)))
def test_the_most_specific_quota_holds(best: int) -> None:
    quotas = [(entity, 10.0 + number) for number, (entity, _) in enumerate(LEVELS)]
    limits = ClientLimits(stored(*reversed(quotas[best:])), "producer_byte_rate")
    assert limits.of("u", "c") == LEVELS[best][1]._replace(per_second=10.0 + best)
    alone = ClientLimits(stored(quotas[best]), "producer_byte_rate")
    assert alone.of("u", "c") == LEVELS[best][1]._replace(per_second=10.0 + best)
    entity = LEVELS[best][0]
    other = alone.of("v", "d")
    assert (other is None) == ("u" in entity.values() or "c" in entity.values())


def test_a_client_without_an_id_has_no_quota_of_client_ids() -> None:
    limits = ClientLimits(stored(({"client-id": None}, 5.0), ({"client-id": "c"}, 6.0)), "producer_byte_rate")
    assert limits.of("u", "") is None
    assert limits.of("u", "c") == ClientLimit("", "c", 6.0)
    quotas = [(entity, 10.0 + number) for number, (entity, _) in enumerate(LEVELS)]
    limits = ClientLimits(stored(*quotas), "producer_byte_rate")
    assert limits.of("u", "") == ClientLimit("u", "", 12.0)
    assert limits.of("v", "") == ClientLimit("v", "", 15.0)


def test_there_is_no_limit_where_there_is_no_quota_of_that_kind() -> None:
    limits = ClientLimits(stored(({"user": "u"}, 5.0)), "consumer_byte_rate")
    assert not limits
    assert limits.of("u", "c") is None


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_what_limits_nothing_is_no_limit(value: float) -> None:
    """Kafka stores the first two; its earlier releases stored the others, and throttled nobody by them."""
    limits = ClientLimits(stored(({"user": "u"}, value), ({"user": None}, 7.0)), "producer_byte_rate")
    assert limits.of("u", "c") is None, "a more general quota does not hold for this user"
    assert limits.of("v", "c") == ClientLimit("v", "", 7.0)
    alone = ClientLimits(stored(({"user": "u"}, value)), "producer_byte_rate")
    assert not alone
    assert alone.of("u", "c") is None


def test_limits_follow_what_changes() -> None:
    """By single changes they come to be what they are when they are made anew."""
    chance = Random(3)
    entities = [tuple(sorted(entity.items())) for entity, _ in LEVELS]
    limits, values = ClientLimits(QuotasImage(), "k"), dict[QuotaEntity, dict[str, float]]()
    for _ in range(300):
        entity = chance.choice(entities)
        value = chance.choice([None, 0.0, 1.0, 2.0])
        values.pop(entity, None)
        if value is not None:
            values[entity] = {"k": value, "other": 5.0}
        image = QuotasImage(values)
        limits.follow(image, [entity])
        anew = ClientLimits(image, "k")
        assert bool(limits) == bool(anew)
        for user, client_id in (("u", "c"), ("u", "d"), ("v", "c"), ("v", "d"), ("u", "")):
            assert limits.of(user, client_id) == anew.of(user, client_id)


def test_limits_of_addresses() -> None:
    image = stored(
        ({"ip": "10.0.0.1"}, 5.0),
        ({"ip": "10.0.0.2"}, math.inf),
        ({"ip": None}, 50.0),
        key="connection_creation_rate",
    )
    assert limits_of_addresses(image) == {"10.0.0.1": 5.0, "10.0.0.2": NO_LIMIT, None: 50.0}
