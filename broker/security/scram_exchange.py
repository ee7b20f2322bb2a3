"""SCRAM between a client and a server, sans-IO: both sides of RFC 5802 as Kafka speaks it (KIP-84).

    client   n,,n=alice,r=NONCE
    server   r=NONCE+MORE,s=SALT,i=ITERATIONS
    client   c=biws,r=NONCE+MORE,p=PROOF
    server   v=SIGNATURE

There is no channel binding. A user whom nobody knows is answered as if he were there, with a made-up salt and
as many iterations as most users have, and fails with his proof like one who has forgotten his password
(Apache Kafka refuses him at the first message). What that hides, and what it does not, is said at
`FakeCredentials`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final

from broker.security.mechanism import AuthenticationFailed, LoginRefused
from config.authentication import SaslLogin
from protocol.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    random_text,
    salted_password,
)

__all__ = ["FakeCredentials", "FindCredential", "SaltedPasswords", "ScramClient", "ScramServer"]

FindCredential = Callable[[ScramMechanism, str], tuple[ScramCredential | None, int]]
"""The credential of a user, None if there is none, and the number of iterations that others usually have."""

_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
_NONCE_CHARACTER: Final = r"[\x21-\x2b\x2d-\x7e]"
_NONCE: Final = rf"{_NONCE_CHARACTER}+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\x00,]+)*"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"

_CLIENT_FIRST: Final = re.compile(
    rf"[ny],(?:a=(?P<authorization>{_NAME}))?,"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE_CHARACTER}{{1,256}})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c={_BASE64},r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}|e=(?P<error>[^\x00,]+)")

_TOKEN_LOGIN: Final = ",tokenauth=true"
_OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_LONGEST_BYTES: Final = 2048
"""Of a client's message, because what is kept of the first one is kept for somebody who has proved nothing.
It leaves room for any name that somebody would write: nonces are short, 26 characters in Kafka's own client
and 32 in librdkafka and kafka-python."""

_SALTED_REMEMBERED: Final = 8


class FakeCredentials:
    """Credentials of users who do not exist. secret: random bytes that nobody else knows.

    With one secret a name has the same salt each time, so one node, as long as it runs, tells neither by its
    answers nor by their time which names exist; only a user with other iterations than most have, or with
    a salt that is not made as Kafka's tools make it, can be told from a made-up one. Two nodes, or one
    before and after a restart, have two secrets: a name whose salt they agree on exists.

    All nodes could have the same secret only if it were in their configs, and what is there are passwords. A
    salt that follows from a node's password would let any stranger try out such passwords without asking
    anybody, which is worse than a list of names.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, mechanism: ScramMechanism, user: str, iterations: int) -> ScramCredential:
        seed = mechanism.hmac(self._secret, user.encode())
        key = mechanism.hmac(self._secret, seed)
        return ScramCredential(random_text(seed).encode(), key, key, iterations)


class ScramServer:
    """The server's side for one client. Implements `broker.security.mechanism.ServerMechanism`.

    nonce: its part of the nonce, of printable characters without a comma.
    """

    def __init__(
        self, mechanism: ScramMechanism, find: FindCredential, fakes: FakeCredentials, nonce: str
    ) -> None:
        self.user = ""
        self.is_complete = False
        self._mechanism = mechanism
        self._find = find
        self._fakes = fakes
        self._nonce = nonce
        self._asked = ""
        self._messages = b""
        self._credential: ScramCredential | None = None
        self._is_known = False

    def evaluate(self, token: bytes) -> bytes:
        """See `ServerMechanism`."""
        if len(token) > _LONGEST_BYTES:
            raise AuthenticationFailed(
                None, f"a SCRAM message of {len(token)} bytes, allowed are {_LONGEST_BYTES}"
            )
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed(None, "a SCRAM message is not text in UTF-8") from None
        if self._credential is None:
            return self._first(text)
        return self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationFailed(None, "the first SCRAM message is malformed")
        if _TOKEN_LOGIN in match["extensions"].lower():
            raise AuthenticationFailed(None, "a login by delegation token, which is not served")
        user = _plain(match["user"])
        if match["authorization"] is not None and _plain(match["authorization"]) != user:
            raise AuthenticationFailed(_OTHER_IDENTITY)
        known, usual_iterations = self._find(self._mechanism, user)
        self._is_known = known is not None and known.iterations >= MIN_ITERATIONS
        fake = self._fakes.of(self._mechanism, user, usual_iterations)
        credential = known if known is not None and self._is_known else fake
        self._asked, self._credential = user if self._is_known else "", credential
        self._nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        first = f"r={self._nonce},s={salt},i={credential.iterations}"
        # One character beyond Latin-1 would make each character of a text cost two or four bytes.
        self._messages = f"{match['bare']},{first}".encode()
        return first.encode()

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        proof = None if match is None else _decoded(match["proof"])
        if match is None or proof is None or len(proof) != self._mechanism.hash_bytes:
            raise AuthenticationFailed(None, "the final SCRAM message is malformed")
        if match["nonce"] != self._nonce:
            raise AuthenticationFailed(None, "the nonce of the final SCRAM message is not the agreed one")
        mechanism = self._mechanism
        messages = self._messages + f",{match['unproved']}".encode()
        client_key = _xor(mechanism.hmac(credential.stored_key, messages), proof)
        is_right = hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not (is_right and self._is_known):
            raise AuthenticationFailed(None, "invalid SCRAM credentials")
        self.user, self.is_complete = self._asked, True
        return b"v=" + base64.b64encode(mechanism.hmac(credential.server_key, messages))


class SaltedPasswords:
    """The salted passwords of one login. Each takes some milliseconds, and a node connects often."""

    def __init__(self, login: SaslLogin, mechanism: ScramMechanism) -> None:
        self.mechanism = mechanism
        self.login = login
        self._known: dict[tuple[bytes, int], bytes] = {}

    def of(self, salt: bytes, iterations: int) -> bytes:
        key = salt, iterations
        if key not in self._known:
            while len(self._known) >= _SALTED_REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = salted_password(self.mechanism, self.login.password, salt, iterations)
        return self._known[key]


class ScramClient:
    """The client's side for one login. Implements `broker.security.mechanism.ClientMechanism`."""

    def __init__(self, passwords: SaltedPasswords, nonce: str) -> None:
        self._passwords = passwords
        self._nonce = nonce
        self._bare = f"n={_sasl_name(passwords.login.username)},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """See `ClientMechanism`."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """See `ClientMechanism`."""
        text = challenge.decode("utf-8", "replace")
        if self._signature is None:
            return self._final(text)
        self._verify(text, self._signature)
        return None

    def _final(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        salt = None if match is None else _decoded(match["salt"])
        if match is None or salt is None:
            raise LoginRefused("its first SCRAM message is malformed")
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise LoginRefused("its SCRAM nonce does not continue ours")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise LoginRefused(
                f"it asks for {iterations} SCRAM iterations; allowed are {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        mechanism = self._passwords.mechanism
        salted = self._passwords.of(salt, iterations)
        unproved = f"c=biws,r={match['nonce']}"
        messages = f"{self._bare},{text},{unproved}".encode()
        client_key = mechanism.hmac(salted, b"Client Key")
        proof = _xor(client_key, mechanism.hmac(mechanism.hash(client_key), messages))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), messages)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, text: str, signature: bytes) -> None:
        match = _SERVER_FINAL.fullmatch(text)
        given = None if match is None or match["signature"] is None else _decoded(match["signature"])
        if given is None or not hmac.compare_digest(given, signature):
            raise LoginRefused("it cannot prove that it knows the SCRAM credential")


def _plain(sasl_name: str) -> str:
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


def _sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))
