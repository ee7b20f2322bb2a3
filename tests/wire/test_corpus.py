"""Frames that genuine clients and Apache Kafka 4.3.1 exchanged decode, and encode to the same bytes.

`record_corpus.py` beside this file recorded them; a line is `<API> <version> request|response <hex>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.framing import decode_request, decode_response, encode_request_frame, encode_response_frame
from protocol.headers import decode_request_header
from protocol.registry import Api, apis

CORPUS = Path(__file__).with_name("corpus")
LABELS = ("aiokafka", "confluent-kafka", "java", "kafka-python", "kraft", "sasl")


STRAY = b"\x01\x00\x00"
"""What librdkafka leaves behind a Metadata request for all topics; Apache Kafka does not mind."""


class Recorded(NamedTuple):
    api: Api
    version: int
    direction: str
    frame: bytes


def recorded(label: str) -> Iterator[Recorded]:
    by_name = {api.name: api for api in apis()}
    for line in (CORPUS / f"{label}.txt").read_text().splitlines():
        name, version, direction, frame = line.split(" ")
        yield Recorded(by_name[name], int(version), direction, bytes.fromhex(frame))


@pytest.mark.parametrize("label", LABELS)
def test_recorded_frames_survive(label: str) -> None:
    for api, version, direction, received in recorded(label):
        frame = received
        if direction == "request":
            header, position = decode_request_header(frame, 0)
            assert (header.request_api_key, header.request_api_version) == (api.key, version)
            request = decode_request(header, memoryview(frame), position)
            again = encode_request_frame(request, version, header.correlation_id, header.client_id)
            if api.name == "Metadata" and again[4:] + STRAY == frame:
                frame = frame[: -len(STRAY)]
        else:
            correlation_id, response = decode_response(api.response, version, memoryview(frame))
            again = b"".join(encode_response_frame(response, version, correlation_id))  # type: ignore[arg-type]
        assert again[4:] == frame, (label, api.name, version, direction)
        assert int.from_bytes(again[:4]) == len(frame)


def test_the_corpus_is_broad() -> None:
    kinds = {(each.api.key, each.version, each.direction) for label in LABELS for each in recorded(label)}
    assert len({key for key, _, _ in kinds}) >= 70
    assert len(kinds) >= 200
