"""Headers and whole frames."""

from __future__ import annotations

import pytest

from protocol.codec.compiler import decode, encode
from protocol.errors import ProtocolError
from protocol.framing import (
    decode_request,
    decode_response,
    encode_request_frame,
    encode_response_frame,
)
from protocol.headers import RequestHeader, ResponseHeader, decode_request_header
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.primitives import Records
from protocol.registry import ApiKey, api, apis, find_api


def test_a_plain_request_frame() -> None:
    frame = encode_request_frame(HeartbeatRequest(group_id="g", member_id="m"), 3, 7, "me")
    assert frame == bytes.fromhex("00000018 000c 0003 00000007 0002 6d65 0001 67 00000000 0001 6d ffff")
    header, position = decode_request_header(frame, 4)
    assert header == RequestHeader(12, 3, 7, "me")
    assert decode_request(header, memoryview(frame), position) == HeartbeatRequest(
        group_id="g", member_id="m"
    )


def test_a_flexible_request_frame() -> None:
    frame = encode_request_frame(HeartbeatRequest(group_id="g", member_id="m"), 4, 7, None)
    assert frame == bytes.fromhex("00000015 000c 0004 00000007 ffff 00 02 67 00000000 02 6d 00 00")
    header, position = decode_request_header(memoryview(frame)[4:], 0)
    assert header.client_id == ""
    assert decode_request(header, frame[4:], position) == HeartbeatRequest(group_id="g", member_id="m")


@pytest.mark.parametrize("client_id", ["", "c", "c" * 127, "ü" * 64, "c" * 200])
@pytest.mark.parametrize("version", [1, 2])
def test_headers_agree_with_the_compiled_codec(client_id: str, version: int) -> None:
    header = RequestHeader(ApiKey.HEARTBEAT, 4 if version == 2 else 3, -5, client_id)
    raw = encode(header, version)
    assert decode(RequestHeader, version, raw) == header
    assert decode_request_header(raw + b"body", 0) == (header, len(raw))


def test_the_header_of_an_api_versions_request_from_the_future() -> None:
    raw = encode(RequestHeader(18, 99, 1, "c"), 2)
    assert decode_request_header(raw, 0) == (RequestHeader(18, 99, 1, "c"), len(raw))


@pytest.mark.parametrize(
    ("raw", "client_id"),
    [
        ("000c 0003 00000001 ffff", ""),
        ("000c 0003 00000001 fffe", ""),
        ("000c 0003 00000001 8000", ""),
        ("000c 0003 00000001 0002 c328", "\ufffd("),
        ("000c 0003 00000001 0003 eda080", "\ufffd"),
    ],
)
def test_client_ids_that_are_null_or_no_utf8(raw: str, client_id: str) -> None:
    frame = bytes.fromhex(raw)
    header, position = decode_request_header(frame, 0)
    assert (header.client_id, position) == (client_id, len(frame))


def test_a_client_id_that_no_header_could_carry_any_longer() -> None:
    frame = bytes.fromhex("000c 0003 00000001 7fff") + b"\xff" * 0x7FFF
    with pytest.raises(ProtocolError, match="the client id has 98301 bytes of text"):
        decode_request_header(frame, 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(9),
        bytes.fromhex("000c 0003 00000001 0005 6d65"),
        bytes.fromhex("000c 0003 00000001 00ff 6d65"),
        bytes.fromhex("000c ffff 00000001 ffff"),
        bytes.fromhex("000c 0004 00000001 ffff"),
        bytes.fromhex("000c 0004 00000001 ffff 01 00 05"),
        bytes.fromhex("03e7 0000 00000001 ffff"),
        bytes.fromhex("ffff 0000 00000001 ffff"),
    ],
)
def test_headers_that_are_none(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(raw, 0)


def test_unknown_tags_in_a_header_are_skipped() -> None:
    raw = bytes.fromhex("000c 0004 00000001 0001 63 01 09 02 aabb")
    assert decode_request_header(raw, 0) == (RequestHeader(12, 4, 1, "c"), len(raw))
    answer = bytes.fromhex("00000003 01 09 02 aabb") + encode(HeartbeatResponse(error_code=5), 4)
    assert decode_response(HeartbeatResponse, 4, answer) == (3, HeartbeatResponse(error_code=5))


def test_response_frames() -> None:
    (plain,) = encode_response_frame(HeartbeatResponse(error_code=27), 3, 9)
    assert plain == bytes.fromhex("0000000a 00000009 00000000 001b")
    flexible = first_bytes(encode_response_frame(HeartbeatResponse(error_code=27), 4, 9))
    assert flexible == bytes.fromhex("0000000c 00000009 00 00000000 001b 00")
    assert decode_response(HeartbeatResponse, 4, memoryview(flexible)[4:]) == (
        9,
        HeartbeatResponse(error_code=27),
    )


@pytest.mark.parametrize("version", range(5))
def test_api_versions_answers_with_header_0_always(version: int) -> None:
    frame = first_bytes(encode_response_frame(ApiVersionsResponse(error_code=35), version, 1))
    assert frame[8:10] == b"\x00\x23"
    assert decode_response(ApiVersionsResponse, version, frame[4:])[1].error_code == 35


class FileSlice:
    size_bytes = 1000


def test_a_response_with_records_comes_in_pieces_under_one_size() -> None:
    piece = FileSlice()
    partitions = [FetchResponse.PartitionData(partition_index=n, records=piece) for n in range(2)]
    topic = FetchResponse.FetchableTopicResponse(partitions=partitions)
    pieces = encode_response_frame(FetchResponse(responses=[topic]), 17, 1)
    assert [type(each) for each in pieces] == [bytes, FileSlice, bytes, FileSlice, bytes]
    sizes = [len(each) if isinstance(each, bytes) else 1000 for each in pieces]
    assert int.from_bytes(first_bytes(pieces)[:4]) == sum(sizes) - 4


def test_a_large_body_is_not_copied_behind_its_header() -> None:
    topics = [MetadataResponse.MetadataResponseTopic(name=f"topic-{n}") for n in range(2000)]
    head, body = encode_response_frame(MetadataResponse(topics=topics), 12, 1)
    assert isinstance(head, bytes)
    assert isinstance(body, bytes)
    assert int.from_bytes(head[:4]) == len(head) + len(body) - 4
    assert decode_response(MetadataResponse, 12, head[4:] + body)[1].topics == topics


def first_bytes(pieces: list[Records]) -> bytes:
    assert isinstance(pieces[0], bytes)
    return pieces[0]


@pytest.mark.parametrize("raw", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", bytes(13)])
def test_responses_that_are_none(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response(HeartbeatResponse, 4, raw)


def test_header_versions_of_every_api() -> None:
    assert (api(18).request_header_version(2), api(18).request_header_version(3)) == (1, 2)
    assert api(18).response_header_version(4) == 0
    assert (api(17).request_header_version(1), api(17).response_header_version(1)) == (1, 0)
    assert (api(1).response_header_version(11), api(1).response_header_version(12)) == (0, 1)
    assert len(list(apis())) == 89
    assert find_api(93) is None
    assert find_api(-1) is None
    with pytest.raises(ProtocolError, match="no API with key 93"):
        api(93)
    assert api(22).stable_versions == (0, 5)
    assert encode(ResponseHeader(correlation_id=1), 0) == b"\x00\x00\x00\x01"
    assert ApiVersionsRequest.declaration.key == ApiKey.API_VERSIONS


def test_bytes_behind_a_request_are_ignored_as_kafka_ignores_them() -> None:
    """librdkafka asks for all topics in this way."""
    frame = bytes.fromhex("0003000d00000004000772646b61666b61 00 00 00 00 00 010000")
    header, position = decode_request_header(frame, 0)
    assert decode_request(header, frame, position) == MetadataRequest(
        topics=None, allow_auto_topic_creation=False
    )
