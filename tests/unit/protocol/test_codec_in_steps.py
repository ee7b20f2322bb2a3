"""The codecs of long messages: the same message, the same bytes, but in steps and within a budget."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Generator
from typing import Any, TypeVar

import pytest

from protocol.codec.budget import element_bytes
from protocol.codec.compiler import (
    around_encoder,
    decoder,
    elements_encoder,
    encode,
    encoder,
    stepping_decoder,
)
from protocol.codec.decoding import ELEMENTS_PER_STEP, holds_records
from protocol.codec.message import Message, Struct
from protocol.codec.schema import schema
from protocol.errors import ProtocolError
from protocol.framing import encode_long_response, encode_response_frame
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchResponse
from protocol.primitives import Records
from protocol.registry import apis
from protocol.serving.turns import struct_arrays_of
from tests.support.samples.long_arrays import Distinct, Nothing, Words, array_paths, long_frame
from tests.support.samples.messages import RandomChoice, build

R = TypeVar("R")

NO_BOUND = 1 << 40
KIB = 1024
FRAME_BYTES = 3 * KIB


def run(steps: Generator[None, None, R]) -> tuple[R, int]:
    """What the generator returned, and how often it yielded."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def joined(pieces: list[Records]) -> bytes:
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


REQUESTS = [
    (described.request, version)
    for described in apis()
    for version in range(
        described.request.declaration.versions.first, described.request.declaration.versions.last + 1
    )
]
ENDS = [
    (described.request, version)
    for described in apis()
    for version in dict.fromkeys(described.request.declaration.versions)
]
"""Of each request the oldest and the newest version."""

RESPONSES = [
    (described.response, version)
    for described in apis()
    for version in range(
        described.response.declaration.versions.first, described.response.declaration.versions.last + 1
    )
]


@pytest.mark.parametrize(("cls", "version"), REQUESTS)
def test_a_request_is_the_same_in_steps(cls: type[Message], version: int) -> None:
    for number in range(3):
        whole = build(cls, version, RandomChoice((cls.__name__, version, number)))
        raw = encoder(cls, version)(whole)
        (decoded, end), _ = run(stepping_decoder(cls, version)(raw, 0, NO_BOUND))
        assert (decoded, end) == decoder(cls, version)(raw, 0)
        for size in range(0, len(raw), max(1, len(raw) // 20)):
            with pytest.raises(ProtocolError):
                run(stepping_decoder(cls, version)(raw[:size], 0, NO_BOUND))


@pytest.mark.parametrize(("cls", "version"), RESPONSES)
def test_a_response_has_the_same_bytes_in_parts(cls: type[Message], version: int) -> None:
    if holds_records(cls, version):
        return
    for number in range(3):
        whole: Any = build(cls, version, RandomChoice((cls.__name__, version, number)))
        for name in struct_arrays_of(cls, version):
            elements = getattr(whole, name)
            if elements is None:
                continue
            parts: list[bytes] = []
            for element in elements:
                list(elements_encoder(cls, version, name)([element], parts))
            before, after = around_encoder(cls, version, name)(whole, len(elements))
            assert before + b"".join(parts) + after == encode(whole, version)
            pieces = encode_long_response(whole, version, 9, name, len(elements), parts)
            assert joined(pieces) == joined(encode_response_frame(whole, version, 9))


def test_the_number_of_steps_follows_the_number_of_elements() -> None:
    names = [f"{number:x}" for number in range(20 * ELEMENTS_PER_STEP)]
    raw = encode(DescribeGroupsRequest(groups=names), 5)
    (request, _), count = run(stepping_decoder(DescribeGroupsRequest, 5)(raw, 0, NO_BOUND))
    assert request.groups == names
    assert count == 21
    groups = [DescribeGroupsResponse.DescribedGroup(group_id=name) for name in names]
    steps = elements_encoder(DescribeGroupsResponse, 5, "groups")(groups, [])
    assert sum(1 for _ in steps) == 21


def test_elements_within_elements_make_steps_too() -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(1, 2)
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[partition] * 9) for _ in range(200)
    ]
    raw = encode(OffsetCommitRequest("g", topics=topics), 8)
    assert run(stepping_decoder(OffsetCommitRequest, 8)(raw, 0, NO_BOUND))[1] == 11
    answer = OffsetFetchResponse.OffsetFetchResponseTopic(
        "t", [OffsetFetchResponse.OffsetFetchResponsePartition()] * 2000
    )
    assert sum(1 for _ in elements_encoder(OffsetFetchResponse, 7, "topics")([answer], [])) == 11


@pytest.mark.parametrize(("cls", "version"), ENDS)
def test_too_much_is_refused_before_its_memory_is_taken(cls: type[Message], version: int) -> None:
    """For each array of each request: refused a byte below what it was said to take, and until then nothing
    but what came before is there."""
    for path in array_paths(cls, version):
        raw = long_frame(cls, version, path, FRAME_BYTES, Nothing()).frame
        body = memoryview(raw)[_header_bytes(cls, version) :]
        estimate = _least_budget(cls, version, body)
        run(stepping_decoder(cls, version)(body, 0, estimate))
        tracemalloc.start()
        try:
            with pytest.raises(ProtocolError, match="would take more memory than a request may have"):
                run(stepping_decoder(cls, version)(body, 0, estimate - 1))
            assert tracemalloc.get_traced_memory()[1] < 3 * FRAME_BYTES
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(("cls", "version"), ENDS)
@pytest.mark.parametrize("words", [Nothing(), Distinct()])
def test_the_estimate_is_no_less_than_what_is_taken(cls: type[Message], version: int, words: Words) -> None:
    for path in array_paths(cls, version):
        raw = long_frame(cls, version, path, FRAME_BYTES, words).frame
        body = bytes(memoryview(raw)[_header_bytes(cls, version) :])
        decode = decoder(cls, version)
        decode(body, 0)
        tracemalloc.start()
        try:
            kept = decode(body, 0)
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept
        assert taken <= 1.1 * _least_budget(cls, version, memoryview(body)) + len(body) + 4 * KIB


def _header_bytes(cls: type[Message], version: int) -> int:
    """Of a frame with the client id of four letters that `long_arrays` writes, the size in front."""
    return 4 + 10 + 4 + cls.declaration.flexible.covers(version)


def _least_budget(cls: type[Message], version: int, body: memoryview) -> int:
    """The budget with which the request is just decoded, found by halving."""
    low, high = 0, 1 << 21
    while high - low > 1:
        middle = (low + high) // 2
        try:
            run(stepping_decoder(cls, version)(body, 0, middle - 1))
            high = middle
        except ProtocolError:
            low = middle
    return high - 1


def test_two_million_empty_names_are_refused_at_once() -> None:
    count = 2_000_000
    raw = (count + 1).to_bytes(3, "little")
    raw = (
        bytes((raw[0] & 0x7F | 0x80, (count + 1) >> 7 & 0x7F | 0x80, (count + 1) >> 14))
        + b"\1" * count
        + b"\0\0"
    )
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=r"2000000 DescribeGroupsRequest\.groups"):
            run(stepping_decoder(DescribeGroupsRequest, 5)(raw, 0, 32 << 20))
        # Two million names would take 100 MiB. Other threads are traced too: pytest-xdist's takes its turn.
        assert tracemalloc.get_traced_memory()[1] < 1024 * KIB
    finally:
        tracemalloc.stop()


def test_an_element_costs_its_struct_and_its_fields() -> None:
    (topics,) = (field for field in schema(DeleteTopicsRequest) if field.name == "topics")
    assert topics.struct is not None
    struct: type[Struct] = topics.struct
    assert element_bytes(topics, 6) > sys.getsizeof(struct()) + 16


@pytest.mark.parametrize("count", [1001, 200_000])
def test_a_section_of_more_tags_than_anybody_has_is_refused(count: int) -> None:
    def uvarint(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes((*out, value))

    section = uvarint(count) + b"".join(uvarint(100 + number) + b"\0" for number in range(count))
    for decode in (
        lambda raw: decoder(DescribeGroupsRequest, 5)(raw, 0),
        lambda raw: run(stepping_decoder(DescribeGroupsRequest, 5)(raw, 0, NO_BOUND)),
    ):
        with pytest.raises(ProtocolError, match=f"{count} tagged fields"):
            decode(b"\1\0" + section)
