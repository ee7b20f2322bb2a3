"""How one connection is authenticated, sans-IO: Kafka's state machine of the server side (KIP-43, KIP-152,
KIP-368).

    state                    what comes                         next
    HANDSHAKE_OR_VERSIONS    ApiVersions that is answered       HANDSHAKE
                             ApiVersions that is refused        HANDSHAKE_OR_VERSIONS
    HANDSHAKE_OR_VERSIONS,
    HANDSHAKE                SaslHandshake 1, an offered one    TOKENS
                             SaslHandshake 0, an offered one    RAW_TOKENS
                             SaslHandshake of another one       FAILED, told UNSUPPORTED_SASL_MECHANISM
    TOKENS                   SaslAuthenticate                   TOKENS, or COMPLETE with the last token
    RAW_TOKENS               a frame that is a token            the same
    COMPLETE                 SaslHandshake, as the session      TOKENS or RAW_TOKENS; BAD_MECHANISM where it
                             will end (`begins_again`)          is not that of the first time
    BAD_MECHANISM            anything                           FAILED
    FAILED                   anything                           FAILED
    any                      what does not belong there         FAILED

Who authenticates again must be the same principal. A session ends `lifetime_ms` after its authentication;
what comes later is refused by whoever asks `has_expired`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

from broker.security.mechanism import AuthenticationFailed, ServerMechanism
from config.authentication import SaslListener
from protocol.codec.compiler import decoder
from protocol.codec.message import Message
from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import encode_response_frame
from protocol.headers import RequestHeader, decode_request_header
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.registry import ApiKey, api

__all__ = ["NoKafkaRequest", "Refused", "SaslAuthenticator", "SaslState"]

M = TypeVar("M", bound=Message)

MakeMechanism = Callable[[SaslListener, str], ServerMechanism]
"""Makes the server's side of an exchange, given the name of its mechanism."""

_LEAST_BETWEEN_NS: Final = 1_000_000_000
"""A client may authenticate again once a second."""

_MECHANISM_LENGTH: Final = 40
"""The number of characters of a mechanism's name that the log repeats, because the client has chosen it."""

_FIRST_VERSION_WITH_REQUESTS: Final = 1
"""Of SaslHandshake: tokens are in SaslAuthenticate requests."""

_FIRST_VERSION_WITH_LIFETIMES: Final = 1
"""Of SaslAuthenticate."""


class SaslState(Enum):
    HANDSHAKE_OR_VERSIONS = "handshake or versions"
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    RAW_TOKENS = "raw tokens"
    BAD_MECHANISM = "bad mechanism"
    COMPLETE = "complete"
    FAILED = "failed"


class Refused(Exception):
    """The connection is to be closed. answer: a frame that is sent before, with its size; None for none."""

    def __init__(self, reason: str, answer: bytes | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class NoKafkaRequest(Refused):
    """What came first is no request of a client that would authenticate: the client speaks another security
    protocol, or another protocol altogether."""


class SaslAuthenticator:
    """user: who has authenticated. lifetime_ms: of the session; 0 is for ever. is_again: this is not the
    first authentication of the connection. can_begin_again: the client knows of sessions that end. is_told:
    what is to be sent before a failed connection is closed has been handed over."""

    __slots__ = (
        "_bad_mechanism_name",
        "_begun_ns",
        "_current",
        "_expires_ns",
        "_listener",
        "_make",
        "_mechanism",
        "_mechanism_name",
        "can_begin_again",
        "is_again",
        "is_told",
        "lifetime_ms",
        "state",
        "user",
    )

    def __init__(self, current: Callable[[], SaslListener], make: MakeMechanism) -> None:
        """current: the listener as it is now; each authentication, also one that comes again, is by that.
        make: the server's side of a mechanism of it."""
        self.state = SaslState.HANDSHAKE_OR_VERSIONS
        self.user = ""
        self.lifetime_ms = 0
        self.is_again = False
        self.can_begin_again = False
        self.is_told = False
        self._current = current
        self._listener = current()
        self._make = make
        self._mechanism: ServerMechanism | None = None
        self._mechanism_name = ""
        self._bad_mechanism_name = ""
        self._expires_ns = 0
        self._begun_ns = 0

    def take(self, frame: bytes, now_ns: int) -> bytes | None:
        """The answer to a frame, with its size; None for an ApiVersions request, which the caller answers.
        Raises Refused, and from then on for whatever comes. now_ns: on the monotonic clock."""
        try:
            return self._take(frame, now_ns)
        except Refused:
            self.state = SaslState.FAILED
            raise

    def versions_told(self) -> None:
        """The ApiVersions request was answered without an error."""
        self.state = SaslState.HANDSHAKE

    def begins_again(self, now_ns: int) -> bool:
        """Whether a SaslHandshake begins another authentication, which `take` must be given then. It does not
        where sessions last for ever, nor twice in a second."""
        if not self.lifetime_ms or (self._begun_ns and now_ns - self._begun_ns < _LEAST_BETWEEN_NS):
            return False
        self._begun_ns = now_ns
        self.is_again = True
        self.state = SaslState.HANDSHAKE
        return True

    def has_expired(self, now_ns: int) -> bool:
        return self.lifetime_ms > 0 and now_ns > self._expires_ns

    def _take(self, frame: bytes, now_ns: int) -> bytes | None:
        match self.state:
            case SaslState.TOKENS:
                return self._take_request_with_token(frame, now_ns)
            case SaslState.RAW_TOKENS:
                answer = self._evaluate(frame, now_ns)
                return len(answer).to_bytes(4, "big") + answer
            case SaslState.BAD_MECHANISM:
                raise Refused(
                    f"SASL mechanism '{self._bad_mechanism_name}' requested by client is not supported for "
                    f"re-authentication of mechanism '{self._mechanism_name}'"
                )
            case SaslState.HANDSHAKE_OR_VERSIONS | SaslState.HANDSHAKE:
                return self._take_handshake(frame)
            case _:
                raise Refused("a request came after the authentication had failed")

    # The handshake

    def _take_handshake(self, frame: bytes) -> bytes | None:
        header, position = _header(frame)
        if header.request_api_key == ApiKey.API_VERSIONS:
            if self.state is not SaslState.HANDSHAKE_OR_VERSIONS:
                raise Refused("an ApiVersions request came again during the SASL handshake")
            return None
        if header.request_api_key != ApiKey.SASL_HANDSHAKE:
            raise NoKafkaRequest(
                f"a request with API key {header.request_api_key} came before authentication"
            )
        version = header.request_api_version
        request = _body(header, SaslHandshakeRequest, frame, position)
        self._listener = self._current()
        offered = list(self._listener.mechanisms)
        if request.mechanism not in offered:
            response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
            raise Refused(
                f"Unsupported SASL mechanism {request.mechanism[:_MECHANISM_LENGTH]!r}",
                _frame_of(response, header),
            )
        if self.is_again and request.mechanism != self._mechanism_name:
            self.state, self._bad_mechanism_name = SaslState.BAD_MECHANISM, request.mechanism
        else:
            self._mechanism_name = request.mechanism
            self._mechanism = self._make(self._listener, request.mechanism)
            with_requests = version >= _FIRST_VERSION_WITH_REQUESTS
            self.state = SaslState.TOKENS if with_requests else SaslState.RAW_TOKENS
        return _frame_of(SaslHandshakeResponse(ErrorCode.NONE, offered), header)

    # Tokens

    def _take_request_with_token(self, frame: bytes, now_ns: int) -> bytes:
        header, position = _header(frame)
        if header.request_api_key != ApiKey.SASL_AUTHENTICATE:
            raise Refused(f"a request with API key {header.request_api_key} came during SASL authentication")
        request = _body(header, SaslAuthenticateRequest, frame, position)
        self.can_begin_again |= header.request_api_version >= _FIRST_VERSION_WITH_LIFETIMES
        try:
            token = self._evaluate(request.auth_bytes, now_ns)
        except _NotAuthenticated as failure:
            error = ErrorCode.SASL_AUTHENTICATION_FAILED
            response = SaslAuthenticateResponse(error, failure.told)
            raise Refused(str(failure), _frame_of(response, header)) from failure
        lifetime_ms = self.lifetime_ms if self.state is SaslState.COMPLETE else 0
        response = SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return _frame_of(response, header)

    def _evaluate(self, token: bytes, now_ns: int) -> bytes:
        mechanism = self._mechanism
        if mechanism is None:
            raise Refused("a SASL token came before a handshake")
        try:
            answer = mechanism.evaluate(token)
        except AuthenticationFailed as failure:
            raise _NotAuthenticated(failure.reason, failure.told or self._wrong_credentials) from failure
        if mechanism.is_complete:
            self._completed(mechanism.user, now_ns)
        return answer

    def _completed(self, user: str, now_ns: int) -> None:
        self._mechanism = None
        if self.is_again and user != self.user:
            change = f"from User.{self.user}: User.{user}"
            sentence = f"Cannot change principals during re-authentication {change}"
            raise _NotAuthenticated("another principal at a re-authentication", sentence)
        self.user = user
        self.lifetime_ms = self._listener.max_reauth_ms.get(self._mechanism_name, 0)
        self._expires_ns = now_ns + 1_000_000 * self.lifetime_ms
        self.state = SaslState.COMPLETE

    @property
    def _wrong_credentials(self) -> str:
        during = "re-authentication" if self.is_again else "authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
            f"{self._mechanism_name}"
        )


class _NotAuthenticated(Refused):
    """told: Kafka's sentence for the client, where there is a place for it."""

    def __init__(self, reason: str, told: str) -> None:
        super().__init__(reason)
        self.told = told


def _header(frame: bytes) -> tuple[RequestHeader, int]:
    try:
        header, position = decode_request_header(frame, 0)
    except ProtocolError as error:
        raise NoKafkaRequest(f"no Kafka request came before authentication: {error}") from error
    return header, position


def _body(header: RequestHeader, cls: type[M], frame: bytes, position: int) -> M:
    described, version = api(header.request_api_key), header.request_api_version
    if not described.versions.covers(version):
        raise Refused(f"version {version} of {described.name} is not served")
    try:
        return decoder(cls, version)(frame, position)[0]
    except ProtocolError as error:
        raise Refused(f"a {described.name} request could not be read") from error


def _frame_of(response: Message, header: RequestHeader) -> bytes:
    pieces = encode_response_frame(response, header.request_api_version, header.correlation_id)
    return b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
