"""The bytes of large topics in Metadata answers: the same as without keeping them, and made once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.metadata.kept_topics import LARGE_TOPIC_PARTITIONS, TOPICS_KEPT, KeptTopics
from protocol.framing import encode_response_frame
from protocol.messages.metadata import MetadataResponse

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def topic(name: str, partitions: int, leader: int = 1) -> Topic:
    told = [Partition(0, index, leader, 3, [1, 2], [1], [2]) for index in range(partitions)]
    return Topic(0, name, name.encode().ljust(16, b"-"), False, told)


def answer(*topics: Topic) -> MetadataResponse:
    brokers = [MetadataResponse.MetadataResponseBroker(1, "host", 9092, "rack")]
    return MetadataResponse(0, brokers, "cluster", 1, [*topics])


@pytest.mark.parametrize("version", range(14))
def test_frames_are_those_of_the_usual_encoder(version: int) -> None:
    kept = KeptTopics()
    response = answer(topic("small", 2), topic("large", LARGE_TOPIC_PARTITIONS), topic("other", 300))
    for each in (response, response, replace(response, throttle_time_ms=9), answer(topic("small", 2))):
        assert b"".join(kept.frame(each, version, 7)) == b"".join(encode_response_frame(each, version, 7))  # type: ignore[arg-type]


def test_a_large_topic_is_encoded_once_until_it_changes() -> None:
    kept = KeptTopics()
    large = topic("large", 2_000)
    first, again = (kept.frame(answer(large), 13, number) for number in (1, 2))
    assert first[1] is again[1]
    moved = topic("large", 2_000, leader=2)
    assert b"".join(kept.frame(answer(moved), 13, 3)) == b"".join(encode_response_frame(answer(moved), 13, 3))  # type: ignore[arg-type]
    assert kept.frame(answer(large), 13, 4)[1] is not first[1]


def test_the_topics_that_were_told_last_are_kept() -> None:
    kept = KeptTopics()
    topics = [topic(f"topic-{number}", 2_000) for number in range(TOPICS_KEPT + 1)]
    pieces = [kept.frame(answer(each), 13, 1)[1] for each in topics]
    assert kept.frame(answer(topics[-1]), 13, 2)[1] is pieces[-1]
    assert kept.frame(answer(topics[0]), 13, 2)[1] is not pieces[0]
