"""CreateDelegationToken, API key 38. It is sent by admin clients and other clients.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=38, versions="1-3", flexible="2+", listeners="broker controller")
class CreateDelegationTokenRequest(Message):
    """Creates a delegation token (KIP-48).

    From version 3 on the owner may be another principal than the one that asks (KIP-373).
    """

    class CreatableRenewers(Struct):
        """Names a principal that may renew the token, as its owner may."""

        principal_type: str = ""
        principal_name: str = ""

    owner_principal_type: Annotated[str | None, Since(3)] = ""
    owner_principal_name: Annotated[str | None, Since(3)] = ""
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: i64 = 0


@response(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    """Holds the new token and its secret."""

    error_code: i16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, Since(3)] = ""
    token_requester_principal_name: Annotated[str, Since(3)] = ""
    issue_timestamp_ms: i64 = 0
    expiry_timestamp_ms: i64 = 0
    max_timestamp_ms: i64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: i32 = 0
