"""DescribeDelegationToken, API key 41. It is sent by admin clients and other clients."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=41, versions="1-3", flexible="2+", listeners="broker controller")
class DescribeDelegationTokenRequest(Message):
    """Asks for the delegation tokens of some owners, or for all of them."""

    class DescribeDelegationTokenOwner(Struct):
        """Names an owner whose tokens are asked for."""

        principal_type: str = ""
        principal_name: str = ""

    owners: list[DescribeDelegationTokenOwner] | None = []


@response(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    """Lists the tokens with their secrets and renewers."""

    class DescribedDelegationToken(Struct):
        """Describes one delegation token."""

        principal_type: str = ""
        principal_name: str = ""
        token_requester_principal_type: Annotated[str, Since(3)] = ""
        token_requester_principal_name: Annotated[str, Since(3)] = ""
        issue_timestamp: i64 = 0
        expiry_timestamp: i64 = 0
        max_timestamp: i64 = 0
        token_id: str = ""
        hmac: bytes = b""
        renewers: list["DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer"] = []

    class DescribedDelegationTokenRenewer(Struct):
        """Names a principal that may renew the token."""

        principal_type: str = ""
        principal_name: str = ""

    error_code: i16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: i32 = 0
