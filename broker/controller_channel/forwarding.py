"""Requests that only the controller may decide, carried there in an Envelope (KIP-590).

A client speaks to any broker. What changes the cluster is the controller's, so the broker puts the request,
header and body as the client sent them, into an Envelope together with who the client is and where it sits;
the controller decides and authorizes in the client's name and sends the client's answer back in the same
wrapping::

    EnvelopeRequest  request_data        = request header + request
                     request_principal   = int16 version 0 + DefaultPrincipalData
                     client_host_address = 4 or 16 bytes
    EnvelopeResponse response_data       = response header + response

The controller runs in this process or elsewhere; only the channel knows which. NOT_CONTROLLER means that
no controller leads at the moment, and a broken connection that the leader may have died: the request is tried
again until its time is up. UNSUPPORTED_VERSION means that the controller is of another release than the one
whose versions the client was told: the client is cut off, so that it asks for the versions again. Any other
failure of the wrapping is ours and not the client's, so the client learns only that something unexpected
happened.

The request goes on as the bytes that came. The answer is decoded and encoded again, as in Apache Kafka: this
broker counts its error codes, sets the throttle time of its own quotas in it, and passes on nothing that it
could not read. Only the second encoding could be spared, if no quota throttles. It takes 12 of the 1,700 µs
that the creation of a topic costs a node in both roles, so the bytes of an answer have no way of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from config.ports import Clock, Timers
from protocol.codec.compiler import decoder, encode
from protocol.codec.message import Message
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import RequestHeader, ResponseHeader
from protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from protocol.peer_channel import PeerChannel, PeerError
from protocol.registry import api
from protocol.serving.pending import CloseConnection, Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Principal

R = TypeVar("R", bound=Message)

RETRY_MS: Final = 50
"""Pause before a request that found no controller is sent again."""

PRINCIPAL_VERSION: Final = 0
_UNKNOWN_HOST: Final = b"\x7f\x00\x00\x01"


class ControllerChannel:
    """The way to the active controller.

    versions: returns, by API key, the first and the last version that the active controller serves; None
    while that is not known.
    """

    def __init__(
        self,
        peer: PeerChannel,
        *,
        clock: Clock,
        timers: Timers,
        request_timeout_ms: int,
        versions: Callable[[], Mapping[int, tuple[int, int]] | None] = lambda: None,
    ) -> None:
        self.versions = versions
        self._peer = peer
        self._clock = clock
        self._timers = timers
        self._request_timeout_ms = request_timeout_ms

    def send(self, request: Message, on_response: Callable[[Message | PeerError], None]) -> None:
        """A request of the broker itself, in its own name."""
        self._peer.send(request, on_response, timeout_ms=self._request_timeout_ms)

    def forward(
        self,
        request: Message,
        context: RequestContext,
        refuse: Callable[[Any, ErrorCode], R],
        *,
        is_changed: bool = False,
    ) -> Pending[R]:
        """A client's request. `refuse(request, error)` is the answer if the controller cannot be asked.

        is_changed: it is not what the client sent, so the client's bytes in the context are not passed on.
        """
        data = b"" if is_changed else context.frame
        forwarded: Forwarded[R] = Forwarded(request, context, refuse, envelope(request, context, data))
        self._try(forwarded, self._clock.monotonic_ms() + self._request_timeout_ms)
        return forwarded.pending

    def _try(self, forwarded: Forwarded[R], deadline_ms: int) -> None:
        if forwarded.pending.done:
            return
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            forwarded.fail(ErrorCode.REQUEST_TIMED_OUT)
            return

        def answered(response: Message | PeerError) -> None:
            if forwarded.take(response):
                return
            now_ms = self._clock.monotonic_ms()
            if now_ms >= deadline_ms:
                forwarded.fail(ErrorCode.REQUEST_TIMED_OUT)
                return
            retry_at_ms = min(now_ms + RETRY_MS, deadline_ms)
            self._timers.call_at(retry_at_ms, lambda: self._try(forwarded, deadline_ms))

        self._peer.send(forwarded.envelope, answered, timeout_ms=left_ms)


class Forwarded(Pending[R]):
    """One client's request on its way."""

    __slots__ = ("_context", "_refuse", "_request", "envelope")

    def __init__(
        self,
        request: Message,
        context: RequestContext,
        refuse: Callable[[Any, ErrorCode], R],
        envelope: EnvelopeRequest,
    ) -> None:
        super().__init__()
        self._request = request
        self._context = context
        self._refuse = refuse
        self.envelope = envelope

    @property
    def pending(self) -> Pending[R]:
        return self

    def take(self, response: Message | PeerError) -> bool:
        """Answer with what came back; False if it should be tried again."""
        if isinstance(response, PeerError) and not response.is_unsupported:
            return False
        if not isinstance(response, EnvelopeResponse):
            self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            return True
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            return False
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            name = api(self._context.api_key).name
            reason = f"the controller cannot read version {self._context.version} of {name}"
            self.complete(CloseConnection(reason))  # type: ignore[arg-type]
            return True
        if response.error_code or response.response_data is None:
            self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            return True
        data = response.response_data
        self.complete_by(lambda: self._unwrapped(data))
        return True

    def fail(self, error: ErrorCode) -> None:
        self.complete_by(lambda: self._refuse(self._request, error))

    def _unwrapped(self, data: bytes) -> R:
        try:
            return self._unwrap(data)
        except ProtocolError:
            return self._refuse(self._request, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _unwrap(self, data: bytes) -> R:
        called = api(self._context.api_key)
        version = self._context.version
        header, position = decoder(ResponseHeader, called.response_header_version(version))(data, 0)
        if header.correlation_id != self._context.correlation_id:
            raise ProtocolError(
                f"the controller answered request {header.correlation_id}, not {self._context.correlation_id}"
            )
        response, end = decoder(called.response, version)(data, position)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes are left after the controller's answer")
        return response  # type: ignore[return-value]


def envelope(request: Message, context: RequestContext, data: bytes = b"") -> EnvelopeRequest:
    """A client's request, with who the client is. data: its header and body as they came; encoded here if it
    is empty."""
    return EnvelopeRequest(
        request_data=data or _request_data(request, context),
        request_principal=principal_bytes(context.session.principal),
        client_host_address=address_bytes(context.session.host),
    )


def _request_data(request: Message, context: RequestContext) -> bytes:
    version = context.version
    header = RequestHeader(context.api_key, version, context.correlation_id, context.client_id)
    header_version = api(context.api_key).request_header_version(version)
    return encode(header, header_version) + encode(request, version)


def principal_bytes(principal: Principal) -> bytes:
    """A principal as Kafka's default principal builder writes it."""
    data = DefaultPrincipalData(type=principal.type, name=principal.name)
    return PRINCIPAL_VERSION.to_bytes(2, "big") + encode(data, PRINCIPAL_VERSION)


def address_bytes(host: str) -> bytes:
    """An address's 4 or 16 bytes; a peer without address (in memory) counts as this host."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _UNKNOWN_HOST
