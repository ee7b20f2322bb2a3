"""What stands before a message on a connection.

    request header 1    api key int16, api version int16, correlation id int32, client id (nullable string)
    request header 2    the same, then tagged fields: the API's flexible versions
    response header 0   correlation id int32
    response header 1   the same, then tagged fields: the API's flexible versions, but never ApiVersions

The client id keeps its int16 length in both request headers, so that a broker can read the header of a
request whose version it does not know (KIP-511).
"""

from collections.abc import Mapping
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812
from types import MappingProxyType
from typing import Annotated, Final

from protocol.codec.message import UNBOUNDED, Message, NeverCompact, header
from protocol.codec.reading import Buffer, skip_tags, text
from protocol.errors import ProtocolError
from protocol.primitives import i16, i32
from protocol.registry import apis

__all__ = ["RequestHeader", "ResponseHeader", "decode_request_header"]


@header(versions="1-2", flexible="2+")
class RequestHeader(Message):
    """Which API at which version, the number that the answer must carry, and who asks."""

    request_api_key: i16 = 0
    request_api_version: i16 = 0
    correlation_id: i32 = 0
    client_id: Annotated[str | None, NeverCompact] = ""


@header(versions="0-1", flexible="1+")
class ResponseHeader(Message):
    """The header of a response: the correlation id of the request that it answers."""

    correlation_id: i32 = 0


_read_fixed: Final = Layout(">hhih").unpack_from
_FIXED_BYTES: Final = 10

_FIRST_FLEXIBLE: Final[Mapping[int, int]] = MappingProxyType(
    {entry.key: entry.flexible.first if entry.flexible.last >= 0 else UNBOUNDED + 1 for entry in apis()}
)


def decode_request_header(buffer: Buffer, position: int) -> tuple[RequestHeader, int]:
    """Decodes a header. Returns it, and the position of the body. A null client id reads as "", as Kafka's
    brokers treat it.

    The buffer ends where the frame ends. Raises ProtocolError for a frame that is too short and for an API
    key that does not exist; whether the version is served is looked at by the caller.
    """
    try:
        key, version, correlation_id, length = _read_fixed(buffer, position)
        position += _FIXED_BYTES
        client_id = ""
        if length > 0:
            client_id = text(bytes(buffer[position : position + length]), "the client id")
            position += length
        first_flexible = _FIRST_FLEXIBLE.get(key)
        if first_flexible is None:
            raise ProtocolError(f"there is no API with key {key}")
        if version >= first_flexible:
            count = buffer[position]
            position += 1
            if count:
                position = skip_tags(buffer, position, count, len(buffer))
    except (StructError, IndexError) as error:
        raise ProtocolError(f"malformed request header: {error}") from error
    if version < 0 or position > len(buffer):
        raise ProtocolError(
            f"malformed request header: api {key} version {version} client id length {length}"
        )
    return RequestHeader(key, version, correlation_id, client_id), position
