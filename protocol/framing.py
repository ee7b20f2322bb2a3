"""Frames: a message with its header, as it travels on a connection.

    size        int32: how many bytes follow
    header      see `headers`
    body        the message at the version that the request named

Encoders give whole frames, the size in front. Decoders take what follows the size, in a buffer that ends with
the frame: a view into the network's scratch, or bytes.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct as Layout
from typing import Any, Final, TypeVar

from protocol.codec.compiler import around_encoder, decoder, encoder, piece_encoder
from protocol.codec.decoding import holds_records
from protocol.codec.message import Message
from protocol.codec.reading import Buffer, skip_tags
from protocol.codec.writing import records_size
from protocol.errors import EncodeError, ProtocolError
from protocol.headers import RequestHeader
from protocol.primitives import Records
from protocol.registry import ApiKey, api

__all__ = [
    "SIZE_PREFIX_BYTES",
    "decode_request",
    "decode_response",
    "encode_long_response",
    "encode_request_frame",
    "encode_response_frame",
    "frame_size_bytes",
]

M = TypeVar("M", bound=Message)

SIZE_PREFIX_BYTES: Final = 4

_JOIN_UP_TO_BYTES: Final = 32 * 1024
"""A body above this size stays a piece of its own, rather than be copied behind its header."""

_pack_plain_response: Final = Layout(">ii").pack
_pack_flexible_response: Final = Layout(">iix").pack
_pack_request: Final = Layout(">ihhih").pack
_read_correlation_id: Final = Layout(">i").unpack_from


def encode_response_frame(response: Message, version: int, correlation_id: int) -> list[Records]:
    """The pieces of a response frame: bytes, with the records between them as they were given."""
    encode, in_pieces, pack, header_size = _response_codec(type(response), version)
    if in_pieces:
        pieces: list[Records] = encode(response)
        size = header_size
        for piece in pieces:
            size += len(piece) if piece.__class__ is bytes else records_size(piece)
        first = pieces[0]
        pieces[0] = pack(size, correlation_id) + first  # type: ignore[operator]
        return pieces
    body: bytes = encode(response)
    head = pack(len(body) + header_size, correlation_id)
    return [head + body] if len(body) <= _JOIN_UP_TO_BYTES else [head, body]


def frame_size_bytes(response: Message, version: int) -> int:
    """The size of a response's frame, as its size field says it. Records need not be in memory."""
    return sum(map(records_size, encode_response_frame(response, version, 0))) - SIZE_PREFIX_BYTES


@cache
def _response_codec(
    cls: type[Message], version: int
) -> tuple[Callable[..., Any], bool, Callable[..., bytes], int]:
    """The encoder, whether it gives pieces, the function that packs size and header, and their size."""
    key, flexible = cls.declaration.key, cls.declaration.flexible.covers(version)
    in_pieces = holds_records(cls, version)
    encode: Callable[..., Any] = piece_encoder(cls, version) if in_pieces else encoder(cls, version)
    if flexible and key != ApiKey.API_VERSIONS:
        return encode, in_pieces, _pack_flexible_response, 5
    return encode, in_pieces, _pack_plain_response, 4


def encode_long_response(
    response: Message, version: int, correlation_id: int, name: str, count: int, elements: list[bytes]
) -> list[Records]:
    """The pieces of a response frame whose array `name` was encoded before: `count` elements, and their
    bytes in order. The response holds no records."""
    _, _, pack, header_size = _response_codec(type(response), version)
    before, after = around_encoder(type(response), version, name)(response, count)
    size = header_size + len(before) + sum(map(len, elements)) + len(after)
    pieces: list[bytes] = [pack(size, correlation_id) + before, *elements, *([after] if after else ())]
    return [b"".join(pieces)] if size <= _JOIN_UP_TO_BYTES else [*pieces]


def decode_response(cls: type[M], version: int, buffer: Buffer) -> tuple[int, M]:
    """Decodes a response frame without its size field; returns the correlation id and the response."""
    if len(buffer) < 4:
        raise ProtocolError(f"a response of {len(buffer)} bytes has no header")
    (correlation_id,) = _read_correlation_id(buffer, 0)
    position = 4
    decode, flexible = _answer_codec(cls, version)
    if flexible:
        if len(buffer) < 5:
            raise ProtocolError("a response of 4 bytes has no tag section")
        count = buffer[4]
        position = skip_tags(buffer, 5, count, len(buffer)) if count else 5
    response, end = decode(buffer, position)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes are left after {cls.__name__} {version}")
    return correlation_id, response


@cache
def _answer_codec(cls: type[M], version: int) -> tuple[Callable[[Buffer, int], tuple[M, int]], bool]:
    """The decoder of the body, and whether tags are in the header."""
    flexible = cls.declaration.flexible.covers(version) and cls.declaration.key != ApiKey.API_VERSIONS
    return decoder(cls, version), flexible


def encode_request_frame(request: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encodes a request frame with its size field. Record bytes must be in memory."""
    encode, key, tags = _request_codec(type(request), version)
    name = b"" if client_id is None else client_id.encode()
    body = encode(request)
    size = 10 + len(name) + len(tags) + len(body)
    head = _pack_request(size, key, version, correlation_id, -1 if client_id is None else len(name))
    return b"".join((head, name, tags, body))


@cache
def _request_codec(cls: type[Message], version: int) -> tuple[Callable[[Message], bytes], int, bytes]:
    """The encoder of the body, the key, and the empty tag section that ends a flexible header."""
    declaration = cls.declaration
    if declaration.key is None:
        raise EncodeError(f"{cls.__name__} is no request")
    return encoder(cls, version), declaration.key, b"\0" if declaration.flexible.covers(version) else b""


def decode_request(header: RequestHeader, buffer: Buffer, position: int) -> Message:
    """The request behind a header that `headers.decode_request_header` read.

    Bytes behind the request are ignored, as Apache Kafka ignores them: librdkafka's Metadata request for all
    topics ends with three of them.
    """
    cls, version = api(header.request_api_key).request, header.request_api_version
    return decoder(cls, version)(buffer, position)[0]
