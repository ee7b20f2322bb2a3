"""AlterUserScramCredentials, API key 51. Asked by: admin.

Brokers forward it to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=51, versions="0", flexible="0+", listeners="broker controller")
class AlterUserScramCredentialsRequest(Message):
    """Set or delete SCRAM credentials (KIP-554)."""

    class ScramCredentialDeletion(Struct):
        """A credential to delete."""

        name: str = ""
        mechanism: i8 = 0

    class ScramCredentialUpsertion(Struct):
        """A credential to set: the salted password, never the password."""

        name: str = ""
        mechanism: i8 = 0
        iterations: i32 = 0
        salt: bytes = b""
        salted_password: bytes = b""

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """Says for each user whether it was changed."""

    class AlterUserScramCredentialsResult(Struct):
        """Says whether one user was changed."""

        user: str = ""
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    results: list[AlterUserScramCredentialsResult] = []
