"""Configs of every kind are changed, badly and well, and looked at: each answer is Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.brokers.against import AGAINST_KAFKA
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.questions.config_answers import Conversation, recorded
from tests.support.questions.config_questions import steps

OTHERWISE_HERE: Final = {
    # Java's own exceptions; here they have a sentence.
    "broker: overrides without a limit": "127.0.0.1 is not HOST:LIMIT",
    "broker: overrides of words": "many is not a number",
    # A Java class that cannot be loaded: there is nothing here that would load it.
    "broker: no metric reporter": "",
}
"""Step → what our message holds where it is meant to differ; "" is no complaint."""

NAMES: Final = [step.name for step in steps()]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The whole conversation, for each step builds on those before it."""
    data = tmp_path_factory.mktemp("configs") / "data"
    running: GenuineKafka | BarnabasProcess
    if AGAINST_KAFKA:
        running = GenuineKafka(data)
        running.features = NO_FEATURES
    else:
        # As the genuine broker was started; port 0 becomes the real one.
        running = BarnabasProcess(data, {"advertised.listeners": "PLAINTEXT://127.0.0.1:0"})
    expected = recorded()
    with running:
        conversation = Conversation(running.bootstrap_servers, running.bootstrap_controllers)
        yield {step.name: conversation.answer_until(step, expected.get(step.name)) for step in steps()}
        conversation.close()


def test_no_step_is_named_twice() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_kafka_s(answers: dict[str, Any], name: str) -> None:
    if name in OTHERWISE_HERE and not AGAINST_KAFKA:
        (response,) = answers[name]["responses"]
        assert OTHERWISE_HERE[name] in (response["error_message"] or "")
        assert (response["error_code"] == 0) == (OTHERWISE_HERE[name] == "")
        return
    assert name in recorded(), "python -m tests.support.questions.config_answers records a new step"
    assert answers[name] == recorded()[name]
