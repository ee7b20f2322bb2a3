"""What counts as an answer of a Python client, and what as a mistake in the case."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.errors import UnknownTopicOrPartitionError

from tests.side_by_side.showing import shown


def raising(error: Exception) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


def failed(error: Exception) -> Future[object]:
    future: Future[object] = Future()
    future.set_exception(error)
    return future


def test_refusals_are_answers() -> None:
    unknown = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"))
    assert shown(raising(unknown)) == "UNKNOWN_TOPIC_OR_PART: no such topic"
    assert shown(lambda: {"t": failed(unknown)}) == '{\n "t": "UNKNOWN_TOPIC_OR_PART: no such topic"\n}'
    assert "UnknownTopicOrPartitionError" in shown(raising(UnknownTopicOrPartitionError("t")))


@pytest.mark.parametrize("error", [AttributeError("no such call"), TypeError("one argument less")])
def test_mistakes_are_raised(error: Exception) -> None:
    for call in (raising(error), lambda: {"t": failed(error)}, lambda: [error]):
        with pytest.raises(type(error), match=str(error)):
            shown(call)
