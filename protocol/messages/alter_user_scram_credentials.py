"""AlterUserScramCredentials, API key 51. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=51, versions="0", flexible="0+", listeners="broker controller")
class AlterUserScramCredentialsRequest(Message):
    """Sets or deletes SCRAM credentials of users (KIP-554)."""

    class ScramCredentialDeletion(Struct):
        """Names a credential to delete."""

        name: str = ""
        mechanism: i8 = 0

    class ScramCredentialUpsertion(Struct):
        """Holds a credential to set. It carries the salted password and never the password itself."""

        name: str = ""
        mechanism: i8 = 0
        iterations: i32 = 0
        salt: bytes = b""
        salted_password: bytes = b""

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """Says for each user whether the credentials were changed."""

    class AlterUserScramCredentialsResult(Struct):
        """Says whether the credentials of one user were changed."""

        user: str = ""
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    results: list[AlterUserScramCredentialsResult] = []
