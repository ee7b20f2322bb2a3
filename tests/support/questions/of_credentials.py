"""Questions about passwords: SCRAM credentials, and SASL on a listener that has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from protocol.codec.message import Message
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.registry import ApiKey
from tests.support.questions.question import Case, World

K: Final = ApiKey
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def _alter(
    upsertions: Sequence[Upsertion] = (), deletions: Sequence[Deletion] = ()
) -> Callable[[World, int], Message]:
    return lambda world, version: AlterUserScramCredentialsRequest(list(deletions), list(upsertions))


def _set(user: str, mechanism: int = 1, iterations: int = 4096, salted: bytes = b"salted") -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", salted)


def _describe(*users: str) -> Callable[[World, int], Message]:
    named = [DescribeUserScramCredentialsRequest.UserName(user) for user in users]
    return lambda world, version: DescribeUserScramCredentialsRequest(named)


CASES: Final = (
    Case("credentials, none to change", K.ALTER_USER_SCRAM_CREDENTIALS, _alter()),
    Case("credentials, one", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("anna")])),
    Case("credentials, another mechanism", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("anna", 2, 8192)])),
    Case("credentials, of nobody", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("")])),
    Case("credentials, an unknown mechanism", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("b", 3)])),
    Case("credentials, mechanism 0", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("b", 0)])),
    Case("credentials, too few", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("b", 1, 4095)])),
    Case("credentials, too many", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("b", 2, 16385)])),
    Case("credentials, an empty password", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("b", salted=b"")])),
    Case("credentials, twice", K.ALTER_USER_SCRAM_CREDENTIALS, _alter([_set("b"), _set("b", 2), _set("c")])),
    Case("credentials, a stranger's", K.ALTER_USER_SCRAM_CREDENTIALS, _alter((), [Deletion("x", 1)])),
    Case(
        "credentials, deleted and set",
        K.ALTER_USER_SCRAM_CREDENTIALS,
        _alter([_set("anna")], [Deletion("anna", 1)]),
    ),
    Case("credentials, all", K.DESCRIBE_USER_SCRAM_CREDENTIALS, _describe()),
    Case("credentials, of some", K.DESCRIBE_USER_SCRAM_CREDENTIALS, _describe("anna", "x", "")),
    Case("credentials, asked for twice", K.DESCRIBE_USER_SCRAM_CREDENTIALS, _describe("anna", "anna", "c")),
    Case("credentials, deleted", K.ALTER_USER_SCRAM_CREDENTIALS, _alter((), [Deletion("anna", 1)])),
    Case("a handshake without SASL", K.SASL_HANDSHAKE, lambda world, version: SaslHandshakeRequest("PLAIN")),
    Case(
        "a token without SASL",
        K.SASL_AUTHENTICATE,
        lambda world, version: SaslAuthenticateRequest(b"\0anna\0secret"),
    ),
)
