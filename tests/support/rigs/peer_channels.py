"""A channel to a controller in memory: encoded frames in both directions, and a cable that a test can
pull."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from config.ports import Timer
from protocol.codec.compiler import decode, encode, piece_encoder
from protocol.codec.message import Message
from protocol.peer_channel import PeerError
from protocol.primitives import RecordsSlice
from protocol.registry import ApiKey, api
from protocol.serving.pending import Pending
from tests.support.rigs.controllers import ControllerFixture


class ControllerPeer:
    """A `protocol.peer_channel.PeerChannel` to a fixture's controller, at the newest version that it serves.

    connected: False lets every request fail at once. silent: requests are swallowed until their timeout.
    instead: answers every request in the controller's place. sent: the requests, newest last.
    """

    def __init__(self, fixture: ControllerFixture) -> None:
        self.fixture = fixture
        self.connected = True
        self.silent = False
        self.instead: Message | None = None
        self.sent: list[Message] = []

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        self.sent.append(request)
        timers = self.fixture.timers
        if not self.connected:
            timers.call_soon(lambda: on_response(PeerError("disconnected")))
            return
        deadline_ms = self.fixture.clock.monotonic_ms() + timeout_ms
        timer = timers.call_at(deadline_ms, lambda: on_response(PeerError("timed out")))
        if not self.silent:
            timers.call_soon(lambda: self._serve(request, on_response, timer))

    def _serve(
        self, request: Message, on_response: Callable[[Message | PeerError], None], timer: Timer
    ) -> None:
        if self.instead is not None:
            timer.cancel()
            on_response(self.instead)
            return
        key = ApiKey(request.declaration.key or 0)
        registration = self.fixture.services.handlers.get(key)
        if registration is None:
            raise AssertionError(f"the controller serves {key.name}")
        version = min(registration.max_version, api(key).stable_versions.last)
        arrived = decode(type(request), version, encode(request, version))
        context = self.fixture.context(key, version)

        def deliver(response: Any) -> None:
            frame = b"".join(
                piece.read() if isinstance(piece, RecordsSlice) else bytes(piece)  # type: ignore[attr-defined]
                for piece in piece_encoder(api(key).response, version)(response)
            )
            timer.cancel()
            answer = decode(api(key).response, version, frame)
            self.fixture.timers.call_soon(lambda: on_response(answer))

        answer = registration.handler(self.fixture.services, context, arrived)
        if isinstance(answer, Pending):
            answer.on_complete(deliver)
        else:
            deliver(answer)

    def settle(self) -> None:
        """Lets everything happen that needs no time: helper threads, frames on the way."""
        while self.fixture.offload.run() or self.fixture.timers.run_soon():
            pass

    def advance(self, milliseconds: int, step: int = 50) -> None:
        """Lets time pass, with helper threads finishing on the way."""
        self.settle()
        for _ in range(0, milliseconds, step):
            self.fixture.timers.advance(step)
            self.settle()
