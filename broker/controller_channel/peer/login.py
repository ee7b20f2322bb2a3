"""How a channel to another node authenticates itself there: SaslHandshake, then the tokens of a mechanism.

SaslHandshake        the mechanism                  its answer names those that are offered
SaslAuthenticate     token after token              the last answer says how long the session lasts
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.controller_channel.peer.calls import OnResponse
from broker.security.mechanism import ClientMechanism, LoginRefused
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.peer_channel import PeerError
from protocol.serving.session import Principal

__all__ = ["Login", "renewal_ms"]

Ask = Callable[[Message, OnResponse], None]
"""Sends a request at once, though the channel is not ready."""

Done = Callable[[int | LoginRefused], None]
"""Is told how long the session lasts in milliseconds, 0 for ever, or why there is none."""

_TOLD_CHARACTERS: Final = 200
_LEAST_BETWEEN_MS: Final = 1_050


def renewal_ms(lifetime_ms: int) -> int:
    """When a session is to be renewed: in time for a request that is under way, as Java's clients do it. No
    node takes two logins in a second; one that comes after the end of a short session is taken."""
    return max(lifetime_ms * 85 // 100, _LEAST_BETWEEN_MS)


class Login:
    """Begins an exchange for each connection. mechanism: its name. principal: whom it makes this node at the
    other side. make: the client's side of an exchange."""

    def __init__(self, mechanism: str, user: str, make: Callable[[], ClientMechanism]) -> None:
        self.mechanism = mechanism
        self.principal = Principal(user)
        self._make = make

    def begin(self, ask: Ask, done: Done) -> None:
        """Authenticates by what `ask` sends, and calls `done` once, unless the connection ends before."""
        _Exchange(self._make(), ask, done).begin(self.mechanism)


class _Exchange:
    """One exchange on one connection."""

    def __init__(self, mechanism: ClientMechanism, ask: Ask, done: Done) -> None:
        self._mechanism = mechanism
        self._ask = ask
        self._done = done

    def begin(self, mechanism: str) -> None:
        self._ask(SaslHandshakeRequest(mechanism), self._chosen)

    def _chosen(self, response: Message | PeerError) -> None:
        if not isinstance(response, SaslHandshakeResponse):
            self._fail(response)
        elif response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms)[:_TOLD_CHARACTERS]
            self._done(LoginRefused(f"it does not offer this SASL mechanism; offered are {offered}"))
        elif response.error_code:
            self._done(LoginRefused(f"it does not let this node choose a mechanism: {_name(response)}"))
        else:
            self._send(self._mechanism.first())

    def _send(self, token: bytes) -> None:
        self._ask(SaslAuthenticateRequest(token), self._answered)

    def _answered(self, response: Message | PeerError) -> None:
        if not isinstance(response, SaslAuthenticateResponse):
            self._fail(response)
        elif response.error_code:
            said = (response.error_message or _name(response))[:_TOLD_CHARACTERS]
            self._done(LoginRefused(said))
        else:
            try:
                token = self._mechanism.answer(response.auth_bytes)
            except LoginRefused as refused:
                self._done(refused)
                return
            if token is None:
                self._done(response.session_lifetime_ms)
            else:
                self._send(token)

    def _fail(self, response: Message | PeerError) -> None:
        """A connection that broke has told the channel already; an API that is not served has not."""
        if isinstance(response, PeerError) and response.is_unsupported:
            self._done(LoginRefused(f"it knows no SASL: {response}"))


def _name(response: SaslHandshakeResponse | SaslAuthenticateResponse) -> str:
    return ErrorCode.of(response.error_code).name
