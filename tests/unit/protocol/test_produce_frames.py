"""The answer to Produce that is encoded in one go: the bytes are those of the encoder for all answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

import pytest

from protocol.framing import encode_response_frame
from protocol.messages.produce import ProduceResponse
from protocol.produce_frames import encode_produce_response

Answer = ProduceResponse.PartitionProduceResponse
VERSIONS: Final = range(3, 14)
NAMES: Final = (
    ("t", bytes(16)),
    ("", bytes(range(16))),
    ("a" * 249, b"\xff" * 16),
    ("t\u00f6pic", bytes(16)),
)


def response(answer: Answer, name: str = "t", topic_id: bytes = bytes(16)) -> ProduceResponse:
    return ProduceResponse([ProduceResponse.TopicProduceResponse(name, topic_id, [answer])])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "topic_id"), NAMES)
def test_an_appended_batch(version: int, name: str, topic_id: bytes) -> None:
    for index in (0, 7, 2**31 - 1):
        for numbers in ((0, -1, 0), (2**63 - 1, 1_700_000_000_000, 5), (-1, -1, -1)):
            for correlation_id in (0, 1, 2**31 - 1, -1, -(2**31)):
                made = response(Answer(index, 0, *numbers), name, topic_id)
                expected = encode_response_frame(made, version, correlation_id)
                assert encode_produce_response(made, version, correlation_id) == expected


def _throttled(made: ProduceResponse) -> None:
    made.throttle_time_ms = 5


def _failed(made: ProduceResponse) -> None:
    made.responses[0].partition_responses[0].error_code = 6


def _explained(made: ProduceResponse) -> None:
    made.responses[0].partition_responses[0].error_message = ""


def _with_record_errors(made: ProduceResponse) -> None:
    errors = [ProduceResponse.BatchIndexAndErrorMessage(1, "bad")]
    made.responses[0].partition_responses[0].record_errors = errors


def _with_leader(made: ProduceResponse) -> None:
    made.responses[0].partition_responses[0].current_leader = ProduceResponse.LeaderIdAndEpoch(1, 2)


def _with_endpoint(made: ProduceResponse) -> None:
    made.node_endpoints = [ProduceResponse.NodeEndpoint(1, "host", 9092)]


def _of_two_partitions(made: ProduceResponse) -> None:
    made.responses[0].partition_responses.append(Answer(1, 0, 3))


def _of_two_topics(made: ProduceResponse) -> None:
    made.responses.append(ProduceResponse.TopicProduceResponse("u", bytes(16), [Answer(1, 0, 3)]))


def _of_nothing(made: ProduceResponse) -> None:
    made.responses.clear()


def _of_no_partition(made: ProduceResponse) -> None:
    made.responses[0].partition_responses.clear()


OTHERS: Final[tuple[Callable[[ProduceResponse], None], ...]] = (
    _throttled, _failed, _explained, _with_record_errors, _of_two_partitions, _of_two_topics, _of_nothing,
    _of_no_partition,
)  # fmt: skip
WITH_LEADERS: Final = (_with_leader, _with_endpoint)
"""What only versions from 10 on can say."""


@pytest.mark.parametrize(
    ("change", "version"), [*product(OTHERS, VERSIONS), *product(WITH_LEADERS, range(10, 14))]
)
def test_all_other_answers(change: Callable[[ProduceResponse], None], version: int) -> None:
    made = response(Answer(3, 0, 10, -1, 4))
    encode_produce_response(made, version, 9)
    change(made)
    assert encode_produce_response(made, version, 9) == encode_response_frame(made, version, 9)
