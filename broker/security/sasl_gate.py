"""What stands between the connections of a listener with SASL and the dispatcher (KIP-43, KIP-152).

A listener of the security protocols SASL_PLAINTEXT and SASL_SSL gives this service to its connections in
place of the dispatcher::

    connection ──▶ SaslGate ──▶ Dispatcher       until `Session.is_authenticated`: three APIs, then all

Listeners without SASL know nothing of it, and their requests take no step more. The state machine of a
connection is `sasl_authenticator`; here it meets the connection: its answers leave, its principal goes into
the session, and a connection that fails is told so and closed after a while (KIP-306), so that passwords
cannot be guessed quickly. What it has sent behind its failure is never looked at.

A session that ends (KIP-368) is looked at with each request, so its connection gets no fast lanes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from broker.dispatch.malformed import MalformedLog
from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer, Service
from broker.network.response_pieces import Piece, joined_bytes
from broker.security.sasl_authenticator import NoKafkaRequest, Refused, SaslAuthenticator, SaslState
from config.ports import Clock, Timers
from protocol.errors import ErrorCode
from protocol.registry import ApiKey
from protocol.serving.pending import CloseConnection
from protocol.serving.session import Principal

__all__ = ["AuthenticationCounts", "GateSettings", "SaslGate"]

_read_api_key: Final = struct.Struct(">h").unpack_from
_API_KEY_BYTES: Final = 2
_ERROR_AT: Final = 8
"""Where the error code of an ApiVersions answer lies: behind size and correlation id."""


class AuthenticationCounts:
    """What the authentications of one listener came to. again: of connections that were authenticated before.
    without_again: those of clients that cannot do so. expired: connections that were closed because their
    sessions had ended."""

    __slots__ = ("again", "expired", "failed", "failed_again", "successful", "without_again")

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.again = 0
        self.failed_again = 0
        self.without_again = 0
        self.expired = 0


class GateSettings:
    """failure_delay_ms: the time until a client is told that it has failed. max_frame_bytes: of a request of
    an authenticated client. max_receive_bytes: of one that is not."""

    __slots__ = ("failure_delay_ms", "max_frame_bytes", "max_receive_bytes")

    def __init__(self, *, failure_delay_ms: int, max_frame_bytes: int, max_receive_bytes: int) -> None:
        self.failure_delay_ms = failure_delay_ms
        self.max_frame_bytes = max_frame_bytes
        self.max_receive_bytes = max_receive_bytes


class SaslGate:
    """`broker.network.interfaces.Service` of one listener. make: the authenticator of a new connection."""

    def __init__(
        self,
        dispatcher: Service,
        make: Callable[[], SaslAuthenticator],
        settings: GateSettings,
        *,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self.counts = AuthenticationCounts()
        self._dispatcher = dispatcher
        self._make = make
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._failures = MalformedLog()

    def serve(
        self, connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        """See `broker.network.interfaces.Service`."""
        session = connection.session
        authenticator: SaslAuthenticator | None = session.authentication
        if session.is_authenticated:
            if authenticator is None or not self._authenticates_again(
                connection, authenticator, frame, arrived_ns
            ):
                return self._dispatcher.serve(connection, frame, arrived_ns)
        elif authenticator is None:
            authenticator = session.authentication = self._make()
        return self._authenticate(connection, authenticator, frame, arrived_ns)

    def _authenticates_again(
        self, connection: Connection, authenticator: SaslAuthenticator, frame: memoryview, arrived_ns: int
    ) -> bool:
        """Whether the frame begins another authentication. Raises CloseConnection if the session has
        ended."""
        if len(frame) >= _API_KEY_BYTES:
            (api_key,) = _read_api_key(frame)
            if api_key == ApiKey.SASL_HANDSHAKE and authenticator.begins_again(arrived_ns):
                connection.session.is_authenticated = False
                connection.max_frame_bytes = self._settings.max_receive_bytes
                return True
        if authenticator.has_expired(arrived_ns):
            self.counts.expired += 1
            raise CloseConnection("its session has ended, and it has not authenticated again")
        return False

    def _authenticate(
        self, connection: Connection, authenticator: SaslAuthenticator, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        try:
            answer = authenticator.take(bytes(frame), arrived_ns)
        except Refused as refused:
            return self._refuse(connection, authenticator, refused)
        if answer is None:
            return self._tell_versions(connection, authenticator, frame, arrived_ns)
        if authenticator.state is SaslState.COMPLETE:
            self._complete(connection, authenticator)
        connection.now_ns = self._clock.monotonic_ns()
        return [answer]

    def _tell_versions(
        self, connection: Connection, authenticator: SaslAuthenticator, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        pieces = self._dispatcher.serve(connection, frame, arrived_ns)
        if isinstance(pieces, list):
            error = joined_bytes(pieces)[_ERROR_AT : _ERROR_AT + 2]
            if error == ErrorCode.NONE.to_bytes(2, "big"):
                authenticator.versions_told()
        return pieces

    def _complete(self, connection: Connection, authenticator: SaslAuthenticator) -> None:
        session = connection.session
        if authenticator.is_again:
            self.counts.again += 1
        else:
            self.counts.successful += 1
            self.counts.without_again += not authenticator.can_begin_again
        session.principal = Principal(authenticator.user)
        session.is_authenticated = True
        session.authentication = authenticator if authenticator.lifetime_ms else None
        connection.max_frame_bytes = self._settings.max_frame_bytes

    def _refuse(
        self, connection: Connection, authenticator: SaslAuthenticator, refused: Refused
    ) -> list[Piece] | DelayedAnswer:
        if authenticator.is_again:
            self.counts.failed_again += 1
        else:
            self.counts.failed += 1
        connection.now_ns = self._clock.monotonic_ns()
        # What the client has sent behind this must not be another attempt, whenever the answer leaves.
        connection.drain()
        if isinstance(refused, NoKafkaRequest):
            self._dispatcher.malformed(connection, str(refused))
        else:
            self._failures.complain(connection, f"failed authentication: {refused}", "authentication")
        if self._settings.failure_delay_ms > 0:
            return _Refusal(connection, authenticator, refused, self._clock, self._timers, self._settings)
        if refused.answer is None:
            raise CloseConnection(str(refused))
        authenticator.is_told = True
        return [refused.answer]

    def sent(self, connection: Connection) -> None:
        """See `broker.network.interfaces.Service`. A client that was told of its failure is cut off."""
        self._dispatcher.sent(connection)
        authenticator: SaslAuthenticator | None = connection.session.authentication
        if authenticator is not None and authenticator.is_told:
            connection.close("failed authentication")

    def malformed(self, connection: Connection, reason: str) -> None:
        """See `broker.network.interfaces.Service`."""
        self._dispatcher.malformed(connection, reason)

    def failed(self, connection: Connection) -> None:
        """See `broker.network.interfaces.Service`."""
        self._dispatcher.failed(connection)


class _Refusal(DelayedAnswer):
    """Tells a client after a while that it has failed, and closes its connection. Until then nothing of it is
    read, and nothing kept of what it has sent: the exception would hold the token by its traceback."""

    __slots__ = ("_answer", "_authenticator", "_reason", "_timer")

    def __init__(
        self,
        connection: Connection,
        authenticator: SaslAuthenticator,
        refused: Refused,
        clock: Clock,
        timers: Timers,
        settings: GateSettings,
    ) -> None:
        super().__init__(connection, is_produce=False)
        self._authenticator = authenticator
        self._answer = refused.answer
        self._reason = str(refused)
        due_ms = clock.monotonic_ms() + settings.failure_delay_ms
        self._timer = timers.call_at(due_ms, self._tell)

    def _tell(self) -> None:
        if self._answer is None:
            self.connection.close(self._reason)
        else:
            self._authenticator.is_told = True
            self.complete([self._answer])

    def cancel(self) -> None:
        self._timer.cancel()
