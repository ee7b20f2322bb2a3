"""Decisions that wait for the operator's own rules: what is asked, and what the verdict brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from controller.metadata.policies import (
    ConfigQuestion,
    Policies,
    PolicyQuestion,
    PolicyRefusal,
    TopicQuestion,
    Verdict,
)
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from tests.support.rigs.controllers import ControllerFixture

Topic = CreateTopicsRequest.CreatableTopic
NO = PolicyRefusal(ErrorCode.POLICY_VIOLATION, "not here")


class HandPolicies:
    """`controller.policies.Policies`: verdicts come when the test gives them."""

    judges_topics = judges_configs = True

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[PolicyQuestion], Callable[[Sequence[Verdict]], None]]] = []

    def judge(
        self, questions: Sequence[PolicyQuestion], on_verdicts: Callable[[Sequence[Verdict]], None]
    ) -> None:
        self.asked.append((list(questions), on_verdicts))

    @property
    def questions(self) -> Sequence[PolicyQuestion]:
        """Of the oldest batch that waits."""
        return self.asked[0][0]

    def answer(self, *verdicts: Verdict) -> None:
        _, on_verdicts = self.asked.pop(0)
        on_verdicts(verdicts)


@pytest.fixture
def policies() -> HandPolicies:
    return HandPolicies()


@pytest.fixture
def fixture(policies: HandPolicies) -> ControllerFixture:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    rules: Policies = policies
    fixture.services.policies = rules
    return fixture


def ask(fixture: ControllerFixture, *names: str, **configs: str) -> Any:
    own = [CreateTopicsRequest.CreatableTopicConfig(k.replace("_", "."), v) for k, v in configs.items()]
    request = CreateTopicsRequest([Topic(name, 2, -1, [], own) for name in names], 30_000)
    return fixture.call(ApiKey.CREATE_TOPICS, request)


def outcome(fixture: ControllerFixture, pending: Pending[Any]) -> list[tuple[str, int, str | None]]:
    fixture.settle()
    assert pending.response is not None
    return [(each.name, each.error_code, each.error_message) for each in pending.response.topics]


def test_nothing_is_written_before_the_verdict(fixture: ControllerFixture, policies: HandPolicies) -> None:
    end = fixture.log.end_offset
    pending = ask(fixture, "a", "b")
    assert isinstance(pending, Pending)
    assert policies.questions == [TopicQuestion(name, 2, 1, None, ()) for name in ("a", "b")]
    assert fixture.log.end_offset == end
    policies.answer(None, NO)
    assert outcome(fixture, pending) == [("a", 0, None), ("b", ErrorCode.POLICY_VIOLATION, "not here")]
    assert list(fixture.controller.image.topics.by_name) == ["a"]


def test_a_topic_is_asked_about_when_its_configs_have_passed(
    fixture: ControllerFixture, policies: HandPolicies
) -> None:
    pending = ask(fixture, "a", "b", retention_ms="5")
    pairs = (("retention.ms", "5"),)
    assert policies.questions == [ConfigQuestion("TOPIC", name, pairs) for name in ("a", "b")]
    policies.answer(NO, None)
    assert policies.questions == [TopicQuestion("b", 2, 1, None, pairs)]
    policies.answer(None)
    assert outcome(fixture, pending) == [("a", ErrorCode.POLICY_VIOLATION, "not here"), ("b", 0, None)]


def test_what_happened_meanwhile_counts(fixture: ControllerFixture, policies: HandPolicies) -> None:
    first, second = ask(fixture, "a"), ask(fixture, "a")
    policies.answer(None)
    assert outcome(fixture, first) == [("a", 0, None)]
    policies.answer(None)
    assert outcome(fixture, second) == [("a", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")]


def test_a_controller_that_leads_no_more_decides_nothing(
    fixture: ControllerFixture, policies: HandPolicies
) -> None:
    pending = ask(fixture, "a")
    fixture.controller.shut_down()
    policies.answer(None)
    assert [code for _, code, _ in outcome(fixture, pending)] == [ErrorCode.NOT_CONTROLLER]


def test_what_is_bad_anyway_is_not_asked(fixture: ControllerFixture, policies: HandPolicies) -> None:
    response = ask(fixture, "a b")
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert policies.asked == []
