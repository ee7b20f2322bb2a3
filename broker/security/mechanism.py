"""What a SASL mechanism is, on either side, and the one that needs no file of its own: PLAIN (RFC 4616).

    PLAIN    client   [authorization id] NUL user NUL password

A mechanism takes tokens and gives tokens; it knows no connection and no request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, Protocol

from config.authentication import SaslLogin

__all__ = [
    "AuthenticationFailed",
    "ClientMechanism",
    "LoginRefused",
    "PlainClient",
    "PlainServer",
    "ServerMechanism",
]

_PLAIN_PARTS: Final = 3
_OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class AuthenticationFailed(Exception):
    """A client is not who it says it is.

    told: Kafka's sentence for the client; None for what it is told of all wrong credentials alike. reason:
    one line for the log. Neither holds anything that the client has sent.
    """

    def __init__(self, told: str | None, reason: str = "") -> None:
        super().__init__(reason or told)
        self.told = told
        self.reason = reason or told or ""


class LoginRefused(Exception):
    """Another node does not let this one in, or is not the one that it should be. The text is one line."""


class ServerMechanism(Protocol):
    """The server's side of one exchange. user: who has logged in, once it is complete."""

    user: str
    is_complete: bool

    def evaluate(self, token: bytes) -> bytes:
        """The answer to a client's token. Raises AuthenticationFailed."""
        ...


class ClientMechanism(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The first token."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The next token; None when the exchange is complete. Raises LoginRefused."""
        ...


class PlainServer:
    """Implements `ServerMechanism`. users: password by name."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.user = ""
        self.is_complete = False
        self._users = users

    def evaluate(self, token: bytes) -> bytes:
        """See `ServerMechanism`."""
        parts = token.decode("utf-8", "replace").split("\0", _PLAIN_PARTS)
        if len(parts) != _PLAIN_PARTS:
            sentence = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise AuthenticationFailed(sentence)
        authorization, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        expected = self._users.get(user)
        # Digests are of one length, and a user who is not there takes as long as one who is.
        is_right = hmac.compare_digest(_digest(password), _digest("" if expected is None else expected))
        if not is_right or expected is None:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization and authorization != user:
            raise AuthenticationFailed(_OTHER_IDENTITY)
        self.user, self.is_complete = user, True
        return b""


class PlainClient:
    """Implements `ClientMechanism`."""

    def __init__(self, login: SaslLogin) -> None:
        self._login = login

    def first(self) -> bytes:
        """See `ClientMechanism`."""
        return f"\0{self._login.username}\0{self._login.password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """See `ClientMechanism`."""
        return None


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
