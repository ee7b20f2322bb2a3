"""Quotas of mutations: the tokens of a genuine Kafka 4.3.1, and what is refused, throttled and put back."""

from __future__ import annotations

from typing import Any, Final

import pytest

from config.limits import METERED_CLIENTS
from controller.metadata.image.quotas import QuotasImage
from controller.subjects.mutation_quota import MutationQuotas, TokenBucket
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.metadata_log.cluster import ClientQuotaRecord
from protocol.registry import ApiKey
from tests.support.rigs.controllers import ControllerFixture, one_node_config

EXCEEDED: Final = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
FOR_ALL: Final = QuotasImage({(("client-id", None),): {"controller_mutation_rate": 2.0}})


def test_tokens_as_kafka_counts_them() -> None:
    """Two a second, eleven windows of a second: when, how many are taken, and how many are there then."""
    bucket = TokenBucket(0)
    for now_ms, taken, left in (
        (0, 10, 12.0),
        (0, 20, -8.0),
        (500, 1, -8.0),
        (4000, 3, -4.0),
        (4000, 0, -4.0),
        (100_000, 1, 21.0),
    ):
        bucket.take(taken, 2.0, 22.0, now_ms)
        assert bucket.tokens(2.0, 22.0, now_ms) == left


def test_clients_are_forgotten_after_an_hour_or_for_others() -> None:
    quotas = MutationQuotas()
    for number in range(METERED_CLIENTS + 5):
        quotas.of(FOR_ALL, "u", f"client-{number}", number, strict=True)
    assert len(quotas) == METERED_CLIENTS
    quotas.of(FOR_ALL, "u", "last", 3_600_000 + METERED_CLIENTS + 4, strict=True)
    assert len(quotas) == 1


def test_what_a_decision_took_is_put_back_when_it_is_made_again() -> None:
    quota = MutationQuotas().of(FOR_ALL, "u", "c", 0, strict=True)
    for _ in range(3):
        quota.begin(0)
        quota.take(20)
        quota.take(10)
        with pytest.raises(ControllerError):
            quota.take(1)
    assert quota.throttle_ms(0) == 4000
    assert quota.throttle_ms(1500) == 2500


@pytest.fixture
def fixture() -> ControllerFixture:
    """One partition a second for all clients, eleven at once."""
    made = ControllerFixture(config=one_node_config(broker__session__timeout__ms="3600000"))
    made.bring_up(1)
    entity = [ClientQuotaRecord.EntityData("user", None)]
    made.controller._append([ClientQuotaRecord(entity, "controller_mutation_rate", 1.0)])
    made.settle()
    return made


def create(fixture: ControllerFixture, name: str, count: int, version: int = 7, **more: Any) -> Any:
    request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, count, 1)], 5000, **more)
    return fixture.call(ApiKey.CREATE_TOPICS, request, version)


def codes(response: Any) -> list[tuple[int, str | None]]:
    answers = getattr(response, "topics", None) or getattr(response, "results", None) or response.responses
    return [(each.error_code, each.error_message) for each in answers]


def test_a_genuine_conversation(fixture: ControllerFixture) -> None:
    """Apache Kafka answered so, but for the milliseconds that it took."""
    assert codes(create(fixture, "m0", 3, validate_only=True)) == [(0, None)]
    assert codes(create(fixture, "m1", 20)) == [(0, None)]
    refused = create(fixture, "m2", 2)
    assert (codes(refused), refused.throttle_time_ms) == ([(EXCEEDED, None)], 12_000)
    assert "m2" not in fixture.controller.image.topics.by_name
    fixture.timers.advance(12_000)
    assert codes(create(fixture, "m2", 2, validate_only=True)) == [(0, None)]
    throttled = create(fixture, "m2", 2, 5)
    assert (codes(throttled), throttled.throttle_time_ms) == ([(0, None)], 4_000)
    fixture.timers.advance(4_000)
    grown = [CreatePartitionsRequest.CreatePartitionsTopic("m1", 22, None)]
    response = fixture.call(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest(grown, 5000), 3)
    assert (codes(response), response.throttle_time_ms) == ([(0, None)], 0)
    gone = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("m1")], [], 5000)
    response = fixture.call(ApiKey.DELETE_TOPICS, gone, 6)
    assert (codes(response), response.throttle_time_ms) == ([(EXCEEDED, None)], 2_000)
    assert "m1" in fixture.controller.image.topics.by_name


def test_older_versions_are_done_and_throttled(fixture: ControllerFixture) -> None:
    assert codes(create(fixture, "t", 30, 5)) == [(0, None)]
    grown = CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic("t", 31, None)], 5000)
    response = fixture.call(ApiKey.CREATE_PARTITIONS, grown, 2)
    assert (codes(response), response.throttle_time_ms) == ([(0, None)], 20_000)
    gone = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
    response = fixture.call(ApiKey.DELETE_TOPICS, gone, 4)
    assert (response.responses[0].error_code, response.throttle_time_ms) == (0, 51_000)
    assert "t" not in fixture.controller.image.topics.by_name


def test_what_is_refused_for_another_reason_takes_nothing(fixture: ControllerFixture) -> None:
    for _ in range(20):
        assert codes(create(fixture, "bad name", 20))[0][0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes(create(fixture, "other", 11)) == [(0, None)]


def test_of_many_topics_those_behind_the_quota_are_refused(fixture: ControllerFixture) -> None:
    topics = [CreateTopicsRequest.CreatableTopic(name, 8, 1) for name in ("a", "b", "c")]
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 5000), 7)
    assert [code for code, _ in codes(response)] == [0, 0, EXCEEDED]
    assert response.throttle_time_ms == 5_000
    assert list(fixture.services.mutations.tokens(fixture.clock.monotonic_ms())) == [("ANONYMOUS", "", -5.0)]


def test_a_client_without_a_quota_creates_what_it_likes() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    assert codes(create(fixture, "t", 5000)) == [(0, None)]
    assert not len(fixture.services.mutations)
