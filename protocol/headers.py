"""What stands before a message on a connection.

Request header 1 is api key, api version, correlation id and client id; header 2 appends tagged fields and
belongs to an API's flexible versions. The client id keeps its int16 length in both, so that a broker can read
the header of a request that it does not know (KIP-511). Response header 0 is the correlation id alone; header 1
appends tagged fields.
"""

from typing import Annotated

from protocol.codec.message import Message, NeverCompact, header
from protocol.primitives import i16, i32

__all__ = ["RequestHeader", "ResponseHeader"]


@header(versions="1-2", flexible="2+")
class RequestHeader(Message):
    """Which API at which version, the number that the answer must carry, and who asks."""

    request_api_key: i16 = 0
    request_api_version: i16 = 0
    correlation_id: i32 = 0
    client_id: Annotated[str | None, NeverCompact] = ""


@header(versions="0-1", flexible="1+")
class ResponseHeader(Message):
    """The number of the request that this answers."""

    correlation_id: i32 = 0
