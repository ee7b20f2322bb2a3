"""AlterUserScramCredentials (API key 51): upsert/delete SCRAM users."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=51, versions="0", flexible="0+", listeners="broker controller")
class AlterUserScramCredentialsRequest(Message):
    """Upsert/delete SCRAM users."""

    class ScramCredentialDeletion(Struct):
        name: str = ""
        mechanism: i8 = 0

    class ScramCredentialUpsertion(Struct):
        name: str = ""
        mechanism: i8 = 0
        iterations: i32 = 0
        salt: bytes = b""
        salted_password: bytes = b""

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """Answer: upsert/delete SCRAM users."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = ""
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    results: list[AlterUserScramCredentialsResult] = []
