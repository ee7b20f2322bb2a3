"""The conversation of `config_questions`, and what Apache Kafka 4.3.1 said in it.

``python -m tests.support.questions.config_answers`` holds it with a genuine broker and writes
tests/interop/genuine_config_answers.jsonl, one line for a step. What chance decides (addresses) is replaced
by a word. A change is seen a moment after it was answered, so whoever expects something looks until it is
there.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.metadata import MetadataRequest
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.questions.answers import until
from tests.support.questions.config_questions import steps
from tests.support.questions.config_steps import CONTROLLER_SIDE, Step

CORPUS: Final = Path(__file__).resolve().parents[2] / "interop" / "genuine_config_answers.jsonl"

ADDRESS: Final = re.compile(r"127\.0\.0\.1:(\d{4,5}|0)\b")
LEFT_OUT: Final = ("documentation", "throttle_time_ms")
SETTLED_SECONDS: Final = 0.4
"""Before a look at what the genuine broker was told."""
VISIBLE_SECONDS: Final = 60.0


class Conversation:
    """Puts the steps to a broker and its controller, one after the other."""

    def __init__(self, broker: str, controller: str) -> None:
        self._broker = WireClient(broker)
        self._controller = WireClient(controller)
        request = CreateTopicsRequest()
        for name, configs in (("plain", {}), ("compacted", {"cleanup.policy": "compact"})):
            topic = CreateTopicsRequest.CreatableTopic(name, 1, 1)
            topic.configs = [CreateTopicsRequest.CreatableTopicConfig(*item) for item in configs.items()]
            request.topics.append(topic)
        self._broker.ask(request, 7)
        named = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("plain", "compacted")]
        until(
            self._broker, MetadataRequest(named, allow_auto_topic_creation=False), 12, "the topics are there"
        )

    def answer(self, step: Step) -> Any:
        client = self._controller if step.listener == CONTROLLER_SIDE else self._broker
        return plain(client.ask(step.request, step.version))

    def answer_until(self, step: Step, expected: Any) -> Any:
        """A look is taken again until it shows what is expected, or too long."""
        answer = self.answer(step)
        deadline = time.monotonic() + VISIBLE_SECONDS
        while answer != expected and isinstance(step.request, DescribeConfigsRequest):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
            answer = self.answer(step)
        return answer

    def close(self) -> None:
        self._broker.close()
        self._controller.close()


def plain(response: Any) -> Any:
    """The answer as JSON has it, without what differs from run to run."""
    return _plain(msgspec.to_builtins(response))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items() if name not in LEFT_OUT}
        case list():
            items = [_plain(each) for each in value]
            unordered = items and isinstance(items[0], dict) and "source" not in items[0]
            return sorted(items, key=json.dumps) if unordered else items
        case str():
            return ADDRESS.sub("<address>", value)
        case _:
            return value


def recorded() -> dict[str, Any]:
    """Kafka's answers by the name of the step."""
    return dict(map(json.loads, CORPUS.read_text().splitlines()))


def genuine_answers(kafka: GenuineKafka) -> Iterator[tuple[str, Any]]:
    """The whole conversation with a broker that has just started.

    A change that rests on another (a thread pool doubled twice) does not come without a look between them.
    """
    conversation = Conversation(kafka.bootstrap_servers, kafka.bootstrap_controllers)
    for step in steps():
        if isinstance(step.request, DescribeConfigsRequest):
            time.sleep(SETTLED_SECONDS)
        else:
            time.sleep(0.03)
        yield step.name, conversation.answer(step)
    conversation.close()


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kafka = GenuineKafka(Path(folder) / "data")
        kafka.features = NO_FEATURES
        with kafka:
            answers = list(genuine_answers(kafka))
    with open(CORPUS, "w") as corpus:
        corpus.writelines(json.dumps(each) + "\n" for each in answers)
    print(f"{len(answers)} answers")


if __name__ == "__main__":
    record()
