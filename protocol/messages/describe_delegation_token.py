"""DescribeDelegationToken, API key 41. Asked by: admin/client."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=41, versions="1-3", flexible="2+", listeners="broker controller")
class DescribeDelegationTokenRequest(Message):
    """Describe delegation tokens, all or by owner."""

    class DescribeDelegationTokenOwner(Struct):
        """An owner whose tokens are wanted."""

        principal_type: str = ""
        principal_name: str = ""

    owners: list[DescribeDelegationTokenOwner] | None = []


@response(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    """Tokens with their secrets and renewers."""

    class DescribedDelegationToken(Struct):
        """One delegation token."""

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
        """A principal that may renew the token."""

        principal_type: str = ""
        principal_name: str = ""

    error_code: i16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: i32 = 0
