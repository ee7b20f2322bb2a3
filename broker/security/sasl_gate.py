"""What a connection may ask before its client is authenticated (KIP-43, KIP-152).

A listener of the security protocols SASL_PLAINTEXT and SASL_SSL gives this service to its connections in
place of the dispatcher::

    connection ──▶ SaslGate ──▶ Dispatcher       until `Session.is_authenticated`: three APIs, then all

Listeners without SASL know nothing of it, and their requests take no step more. SaslHandshake and
SaslAuthenticate are not served yet, so no listener has it yet; see `config.listeners` for what may be
configured.
"""

from __future__ import annotations

import struct
from typing import Final

from broker.network.connection import Connection
from broker.network.interfaces import DelayedAnswer, Service
from broker.network.response_pieces import Piece
from protocol.registry import ApiKey
from protocol.serving.pending import CloseConnection

BEFORE_AUTHENTICATION: Final = frozenset(
    {ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE}
)

_read_api_key: Final = struct.Struct(">h").unpack_from
_API_KEY_BYTES: Final = 2


class SaslGate:
    """`broker.network.interfaces.Service`: lets through what may be asked, and closes other connections."""

    def __init__(self, dispatcher: Service) -> None:
        self._dispatcher = dispatcher

    def serve(
        self, connection: Connection, frame: memoryview, arrived_ns: int
    ) -> list[Piece] | DelayedAnswer | None:
        """See `broker.network.interfaces.Service`."""
        if not connection.session.is_authenticated:
            self._check(connection, frame)
        return self._dispatcher.serve(connection, frame, arrived_ns)

    def _check(self, connection: Connection, frame: memoryview) -> None:
        """A frame that is too short for an API key is the dispatcher's to refuse."""
        if len(frame) < _API_KEY_BYTES:
            return
        (api_key,) = _read_api_key(frame)
        if api_key not in BEFORE_AUTHENTICATION:
            reason = f"a request with API key {api_key} came before authentication"
            self._dispatcher.malformed(connection, reason)
            raise CloseConnection(reason)

    def sent(self, connection: Connection) -> None:
        """See `broker.network.interfaces.Service`."""
        self._dispatcher.sent(connection)

    def malformed(self, connection: Connection, reason: str) -> None:
        """See `broker.network.interfaces.Service`."""
        self._dispatcher.malformed(connection, reason)

    def failed(self, connection: Connection) -> None:
        """See `broker.network.interfaces.Service`."""
        self._dispatcher.failed(connection)
