"""The frame that answers a Produce request with one batch, which was appended: by one call of `struct`.

No answer is given more often, and the encoder for all answers takes several times as long. Such frames differ
in the correlation id and in what is said of the partition, which lies side by side. What stands around that
is taken from two answers of that encoder, once for a topic and version::

    size │ correlation id │ … topic │ partition, no error, base offset, append time, log start │ …
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from protocol.errors import invariant
from protocol.framing import SIZE_PREFIX_BYTES, encode_response_frame
from protocol.messages.produce import ProduceResponse
from protocol.primitives import Records

__all__ = ["FIRST_VERSION", "AppendedFrame", "appended_frame", "encode_produce_response"]

FIRST_VERSION: Final = 5
"""The first one whose answer tells the log start."""

_OF_PARTITION: Final = b"\xff" * (4 + 2 + 3 * 8)
_BEFORE_BODY_BYTES: Final = 2 * SIZE_PREFIX_BYTES
"""Size and correlation id."""


class AppendedFrame:
    """The frames of one topic at one version.

    pack: of `size_bytes`, correlation id (unsigned), `before`, index, 0, base offset, append time, log start,
    `behind`.
    """

    __slots__ = ("before", "behind", "pack", "size_bytes")

    def __init__(self, version: int, name: str, topic_id: bytes) -> None:
        def encoded(number: int) -> bytes:
            answer = ProduceResponse.PartitionProduceResponse(number, number, number, number, number)
            topic = ProduceResponse.TopicProduceResponse(name, topic_id, [answer])
            pieces = encode_response_frame(ProduceResponse([topic]), version, 0)
            return b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]

        zeros, ones = encoded(0), encoded(-1)
        at = next(place for place, byte in enumerate(zeros) if byte != ones[place])
        end = at + len(_OF_PARTITION)
        invariant(
            ones[at:end] == _OF_PARTITION and zeros[end:] == ones[end:],
            "an answer to Produce has its five numbers side by side",
        )
        self.before, self.behind = zeros[_BEFORE_BODY_BYTES:at], zeros[end:]
        self.size_bytes = len(zeros) - SIZE_PREFIX_BYTES
        self.pack = Struct(f">iI{len(self.before)}sihqqq{len(self.behind)}s").pack


@lru_cache(maxsize=1024)
def appended_frame(version: int, name: str, topic_id: bytes) -> AppendedFrame:
    """The frames of a topic, which is named by name or id as the version wants it."""
    return AppendedFrame(version, name, topic_id)


def encode_produce_response(response: ProduceResponse, version: int, correlation_id: int) -> list[Records]:
    """Does as `encode_response_frame`."""
    topics = response.responses
    if len(topics) == 1 and len(topics[0].partition_responses) == 1 and version >= FIRST_VERSION:
        topic = topics[0]
        answer = topic.partition_responses[0]
        if not (
            answer.error_code
            or answer.record_errors
            or answer.error_message is not None
            or answer.current_leader is not None
            or response.throttle_time_ms
            or response.node_endpoints
        ):
            frame = appended_frame(version, topic.name, topic.topic_id)
            return [
                frame.pack(
                    frame.size_bytes, correlation_id & 0xFFFFFFFF, frame.before, answer.index, 0,
                    answer.base_offset, answer.log_append_time_ms, answer.log_start_offset, frame.behind,
                )
            ]  # fmt: skip
    return encode_response_frame(response, version, correlation_id)
