"""Metadata answers that name large topics: the bytes of such a topic are kept until it changes.

A topic of ten thousand partitions takes twenty milliseconds to encode, in one turn of the loop, and each of
its clients asks for it after each election. What the cache made of it is the same object until it changes
(`broker.metadata.cache`), so identity tells whether its bytes are still true.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.codec.compiler import elements_encoder
from protocol.framing import encode_long_response, encode_response_frame
from protocol.messages.metadata import MetadataResponse

__all__ = ["KeptTopics"]

LARGE_TOPIC_PARTITIONS: Final = 200
TOPICS_KEPT: Final = 8
"""Of one version of the API. The bytes of a topic of ten thousand partitions are half a megabyte."""

_Topic = MetadataResponse.MetadataResponseTopic


class KeptTopics:
    """Makes the frames of Metadata answers at one version."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str | None, tuple[_Topic, bytes]] = {}
        """The large topics that were told last, by name, with their bytes."""

    def frame(self, response: MetadataResponse, version: int, correlation_id: int) -> list[Any]:
        """As `protocol.framing.encode_response_frame`."""
        topics = response.topics
        if not any(len(topic.partitions) >= LARGE_TOPIC_PARTITIONS for topic in topics):
            return encode_response_frame(response, version, correlation_id)
        encoded = [self._bytes_of(topic, version) for topic in topics]
        return encode_long_response(response, version, correlation_id, "topics", len(topics), encoded)

    def _bytes_of(self, topic: _Topic, version: int) -> bytes:
        if len(topic.partitions) < LARGE_TOPIC_PARTITIONS:
            return _encoded(topic, version)
        kept = self._kept.pop(topic.name, None)
        if kept is None or kept[0] is not topic:
            kept = topic, _encoded(topic, version)
            if len(self._kept) >= TOPICS_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[topic.name] = kept
        return kept[1]


def _encoded(topic: _Topic, version: int) -> bytes:
    pieces: list[bytes] = []
    for _ in elements_encoder(MetadataResponse, version, "topics")([topic], pieces):
        pass
    return b"".join(pieces)
