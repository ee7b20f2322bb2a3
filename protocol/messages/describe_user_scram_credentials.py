"""DescribeUserScramCredentials, API key 50. Asked by: admin."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=50, versions="0", flexible="0+", listeners="broker controller")
class DescribeUserScramCredentialsRequest(Message):
    """Asks which SCRAM mechanisms users have (KIP-554); never the secrets."""

    class UserName(Struct):
        """A user who is asked about."""

        name: str = ""

    users: list[UserName] | None = []


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """Mechanisms and iterations by user."""

    class DescribeUserScramCredentialsResult(Struct):
        """The result for one user."""

        user: str = ""
        error_code: i16 = 0
        error_message: str | None = ""
        credential_infos: list["DescribeUserScramCredentialsResponse.CredentialInfo"] = []

    class CredentialInfo(Struct):
        """A mechanism that the user has."""

        mechanism: i8 = 0
        iterations: i32 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = []
