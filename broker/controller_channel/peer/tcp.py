"""Requests to another node, over the network of this one.

The channel connects when the first request comes, asks the other side which versions it speaks, and sends
each request at the highest version that both know. A connection that breaks, or a request that gets no
answer in time, fails what was sent on it; requests that were not sent yet wait for the next connection,
each until its own time is up. If the sender is not patient they fail with the attempt: such a sender has
other nodes to ask and wants to know at once. After a failure the next attempt waits, twice as long each time.

    state         cause                              next
    IDLE          a request                          CONNECTING
    CONNECTING    connected                          NEGOTIATING
    NEGOTIATING   versions are known                 READY, or LOGGING_IN where the other side wants a login
    LOGGING_IN    the login is done                  READY
    READY         a request, and the session ends    LOGGING_IN
                  soon (KIP-368)
    any of these  refused, broken, timed out         RESTING
    RESTING       the rest is over: requests wait    CONNECTING
                                    nobody waits     IDLE
    any           close_channel                      CLOSED
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Final

from broker.controller_channel.peer.calls import Call, Calls, OnResponse
from broker.controller_channel.peer.login import Login, renewal_ms
from broker.controller_channel.peer.replies import BrokenReply, ReplyConnection
from broker.network.interfaces import Channel, ConnectAttempt, Network, Traffic
from broker.network.memory import RequestMemory
from broker.security.mechanism import LoginRefused
from config.ports import Clock, Timers
from config.tls_settings import TlsSettings
from protocol.codec.message import Message
from protocol.errors import EncodeError, ErrorCode, ProtocolError
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.peer_channel import PeerError
from protocol.registry import ApiKey, api

_log = logging.getLogger("barnabas.peer")

FIRST_REST_MS: Final = 50
LONGEST_REST_MS: Final = 1_000
CONNECT_TIMEOUT_MS: Final = 10_000
_SOFTWARE: Final = ("barnabas", "1")


_HOST_TOLD: Final = 80
"""The number of characters of a host name that a message repeats, because another node has chosen the
name."""


class State(Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    LOGGING_IN = "logging in"
    READY = "ready"
    RESTING = "resting"
    CLOSED = "closed"


class TcpPeer:
    """Implements `protocol.peer_channel.PeerChannel` to `host:port`. Record bytes of an answer are views,
    which are valid in its callback.

    last_versions: by API key, the highest version that is sent although both sides might know a higher one.
    tls: asked for each connection; None for a listener without TLS.
    login: how the channel authenticates itself before its first request; None where it need not.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        network: Network,
        clock: Clock,
        timers: Timers,
        memory: RequestMemory,
        client_id: str,
        is_patient: bool = True,
        last_versions: Mapping[int, int] = MappingProxyType({}),
        tls: Callable[[], TlsSettings | None] = lambda: None,
        login: Login | None = None,
    ) -> None:
        self.state = State.IDLE
        self.traffic = Traffic()
        self._host = host
        self._told = f"{host[:_HOST_TOLD]}:{port}"
        self._port = port
        self._network = network
        self._clock = clock
        self._timers = timers
        self._memory = memory
        self._client_id = client_id
        self._is_patient = is_patient
        self._last_versions = last_versions
        self._tls = tls
        self._login = login
        self._renew_at_ms: int | None = None
        self._told_refusal = ""
        self._sent = Calls(clock, timers, self._no_answer)
        self._unsent = Calls(clock, timers, self._not_sent)
        self._waiting: list[Call] = []
        self._versions: dict[int, tuple[int, int]] = {}
        self._rest_ms = FIRST_REST_MS
        self._channel: Channel | None = None
        self._connecting: ConnectAttempt | None = None

    def send(self, request: Message, on_response: OnResponse, *, timeout_ms: int) -> None:
        """Implements `protocol.peer_channel.PeerChannel`."""
        key = request.declaration.key
        if key is None or self.state is State.CLOSED:
            reason = "closed" if key is not None else f"{type(request).__name__} is no request"
            self._timers.call_soon(partial(on_response, PeerError(reason)))
        elif self.state is State.RESTING and not self._is_patient:
            self._timers.call_soon(partial(on_response, PeerError("the last attempt to connect failed")))
        elif self.state is State.READY and not self._must_renew():
            self._put(self._sent.begin(request, api(key).response, on_response, timeout_ms))
        else:
            self._waiting.append(self._unsent.begin(request, api(key).response, on_response, timeout_ms))
            if self.state is State.IDLE:
                self._connect()
            elif self.state is State.READY:
                self._log_in()

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """By API key, the first and the last version that the other side serves; None while there is no
        connection on which it has told them."""
        return self._versions if self.state in (State.READY, State.LOGGING_IN) else None

    def close_channel(self) -> None:
        """Closes the channel. Requests that are under way fail."""
        self.state = State.CLOSED
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop_connection("the channel is closed")
        self._unsent.fail_all("the channel is closed")
        self._waiting.clear()

    # Connecting

    def _connect(self) -> None:
        self.state = State.CONNECTING
        self._connecting = self._network.connect(
            self._host,
            self._port,
            timeout_ms=CONNECT_TIMEOUT_MS,
            traffic=self.traffic,
            done=self._connected,
            on_closed=self._closed,
            tls=self._tls(),
        )

    def _connected(self, channel: Channel | OSError) -> None:
        self._connecting = None
        if isinstance(channel, OSError):
            self._failed(f"cannot connect: {channel}")
            return
        self.state = State.NEGOTIATING
        self._channel = channel
        channel.begin(ReplyConnection(channel, self._memory, self._clock, self._reply, f"to {self._told}"))
        self._negotiate(api(ApiKey.API_VERSIONS).versions.last)

    def _negotiate(self, version: int) -> None:
        request = ApiVersionsRequest(*_SOFTWARE)
        call = self._sent.begin(request, ApiVersionsResponse, self._negotiated, CONNECT_TIMEOUT_MS)
        self._write(call, version)

    def _negotiated(self, response: Message | PeerError) -> None:
        if not isinstance(response, ApiVersionsResponse) or self.state is not State.NEGOTIATING:
            return
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and ApiKey.API_VERSIONS in self._versions:
            theirs = self._versions[ApiKey.API_VERSIONS][1]
            self._negotiate(min(theirs, api(ApiKey.API_VERSIONS).versions.last))
            return
        if response.error_code != ErrorCode.NONE:
            self._drop_connection(f"it does not tell its versions (error {response.error_code})")
            return
        if self._login is None:
            self._ready()
        else:
            self._log_in()

    def _log_in(self) -> None:
        """Authenticates, at first or again. What is sent meanwhile waits."""
        self.state = State.LOGGING_IN
        if self._login is not None:
            self._login.begin(self._ask_for_login, self._logged_in)

    def _ask_for_login(self, request: Message, on_response: OnResponse) -> None:
        key = int(request.declaration.key or 0)
        self._put(self._sent.begin(request, api(key).response, on_response, CONNECT_TIMEOUT_MS))

    def _logged_in(self, lifetime_ms: int | LoginRefused) -> None:
        if self.state is not State.LOGGING_IN:
            return
        if isinstance(lifetime_ms, LoginRefused):
            reason = str(lifetime_ms)
            if reason != self._told_refusal:
                self._told_refusal = reason
                _log.warning("Peer %s: the login is refused, and is tried again: %s", self._told, reason)
            self._turn_away(f"the login is refused: {reason}")
            self._drop_connection(f"the login is refused: {reason}")
            return
        self._told_refusal = ""
        now_ms = self._clock.monotonic_ms()
        self._renew_at_ms = now_ms + renewal_ms(lifetime_ms) if lifetime_ms > 0 else None
        self._ready()

    def _must_renew(self) -> bool:
        return self._renew_at_ms is not None and self._clock.monotonic_ms() >= self._renew_at_ms

    def _ready(self) -> None:
        self.state = State.READY
        self._rest_ms = FIRST_REST_MS
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if self._unsent.move_to(self._sent, call):
                self._put(call)

    def _put(self, call: Call) -> None:
        """Sends a request in the highest version that both sides know."""
        key = int(call.request.declaration.key or 0)
        ours = api(key).versions
        low, high = self._versions.get(key, (0, -1))
        version = min(high, self._last_versions.get(key, ours.last), ours.last)
        if version < max(low, ours.first):
            theirs = f"{low} to {high}" if high >= low else "no version"
            self._sent.fail(call, f"{api(key).name}: there {theirs}, here {ours}", is_unsupported=True)
            return
        try:
            self._write(call, version)
        except EncodeError as error:
            self._sent.fail(call, f"{api(key).name}: not in version {version}: {error}", is_unsupported=True)

    def _write(self, call: Call, version: int) -> None:
        call.version = version
        if self._channel is not None:
            self._channel.send([encode_request_frame(call.request, version, call.number, self._client_id)])

    # Answers and failures

    def _reply(self, frame: memoryview) -> None:
        """Handles one answer. Raises BrokenReply for bytes that are no answer, which ends the connection."""
        if len(frame) < 4:
            raise BrokenReply(f"an answer of {len(frame)} bytes")
        call = self._sent.take(int.from_bytes(frame[:4], "big"))
        if call is None:
            raise BrokenReply("an answer to a request that was not sent")
        version = call.version
        if call.cls is ApiVersionsResponse and frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0  # KIP-511: a node that does not know the version answers in version 0
        try:
            answer: Message | PeerError = decode_response(call.cls, version, frame)[1]
        except ProtocolError as error:
            call.on_response(PeerError(f"the answer cannot be read: {error}"))
            raise BrokenReply(str(error)) from error
        call.on_response(answer)

    def _no_answer(self, call: Call) -> None:
        """Gives up the connection, because answers come in order and all later ones would wait for this
        one."""
        self._drop_connection("no answer in time")

    def _not_sent(self, call: Call) -> None:
        self._waiting.remove(call)
        self._unsent.fail(call, f"not connected to {self._told} in time")

    def _drop_connection(self, reason: str) -> None:
        channel = self._channel
        if channel is not None:
            self._sent.fail_all(reason)
            channel.abort(reason)

    def _closed(self, channel: Channel) -> None:
        if channel is self._channel:
            self._channel = None
            self._failed("the connection is broken")

    def _failed(self, reason: str) -> None:
        """Fails what was sent, and waits before the next attempt to connect."""
        self._sent.fail_all(reason)
        self._renew_at_ms = None
        if self.state is State.CLOSED:
            return
        self._turn_away(reason)
        if self.state is State.CONNECTING and self._rest_ms == FIRST_REST_MS:
            _log.info("Peer %s: %s", self._told, reason)
        self.state = State.RESTING
        self._timers.call_at(self._clock.monotonic_ms() + self._rest_ms, self._rested)
        self._rest_ms = min(2 * self._rest_ms, LONGEST_REST_MS)

    def _turn_away(self, reason: str) -> None:
        """Fails what waits for a connection, if its sender would rather ask another node."""
        if not self._is_patient:
            self._unsent.fail_all(reason)
            self._waiting.clear()

    def _rested(self) -> None:
        if self.state is State.RESTING:
            self.state = State.IDLE
            if self._waiting:
                self._connect()
