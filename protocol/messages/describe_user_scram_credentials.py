"""DescribeUserScramCredentials (API key 50): describe SCRAM users."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=50, versions="0", flexible="0+", listeners="broker controller")
class DescribeUserScramCredentialsRequest(Message):
    """Describe SCRAM users."""

    class UserName(Struct):
        name: str = ""

    users: list[UserName] | None = []


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """Answer: describe SCRAM users."""

    class DescribeUserScramCredentialsResult(Struct):
        user: str = ""
        error_code: i16 = 0
        error_message: str | None = ""
        credential_infos: list["DescribeUserScramCredentialsResponse.CredentialInfo"] = []

    class CredentialInfo(Struct):
        mechanism: i8 = 0
        iterations: i32 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = []
