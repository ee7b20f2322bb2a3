"""DescribeUserScramCredentials, API key 50. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=50, versions="0", flexible="0+", listeners="broker controller")
class DescribeUserScramCredentialsRequest(Message):
    """Asks which SCRAM mechanisms users have (KIP-554). The answer never holds the secrets."""

    class UserName(Struct):
        """Names a user."""

        name: str = ""

    users: list[UserName] | None = []


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """Lists for each user the mechanisms and their numbers of iterations."""

    class DescribeUserScramCredentialsResult(Struct):
        """Lists the mechanisms of one user, or says why they cannot be described."""

        user: str = ""
        error_code: i16 = 0
        error_message: str | None = ""
        credential_infos: list["DescribeUserScramCredentialsResponse.CredentialInfo"] = []

    class CredentialInfo(Struct):
        """Names a mechanism for which the user has a credential."""

        mechanism: i8 = 0
        iterations: i32 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = []
