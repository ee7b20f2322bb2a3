"""Requests to a peer that are under way: numbered, timed, answered once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from config.ports import Clock, Timer, Timers
from protocol.codec.message import Message
from protocol.peer_channel import PeerError

OnResponse = Callable[[Message | PeerError], None]


class Call:
    """One request. cls and version say how its answer is read."""

    __slots__ = ("cls", "deadline_ms", "number", "on_response", "request", "timer", "version")

    def __init__(self, request: Message, cls: type[Message], on_response: OnResponse) -> None:
        self.number = 0
        self.deadline_ms = 0
        self.request = request
        self.cls = cls
        self.version = 0
        self.on_response = on_response
        self.timer: Timer | None = None


class Calls:
    """Every call ends exactly once: by `take` and its answer, or by failing, in a later turn of the loop."""

    def __init__(self, clock: Clock, timers: Timers, on_timeout: Callable[[Call], None]) -> None:
        self._clock = clock
        self._timers = timers
        self._on_timeout = on_timeout
        self._last = 0
        self._open: dict[int, Call] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, request: Message, cls: type[Message], on_response: OnResponse, timeout_ms: int) -> Call:
        call = Call(request, cls, on_response)
        self.adopt(call, timeout_ms)
        return call

    def move_to(self, others: Calls, call: Call) -> bool:
        """Hands a call over with its remaining time. False if it has ended meanwhile."""
        if self._open.pop(call.number, None) is None or call.timer is None:
            return False
        left_ms = max(0, call.deadline_ms - self._clock.monotonic_ms())
        call.timer.cancel()
        others.adopt(call, left_ms)
        return True

    def adopt(self, call: Call, timeout_ms: int) -> None:
        self._last = (self._last + 1) & 0x7FFFFFFF
        call.number = self._last
        self._open[call.number] = call
        call.deadline_ms = self._clock.monotonic_ms() + timeout_ms
        call.timer = self._timers.call_at(call.deadline_ms, partial(self._on_timeout, call))

    def take(self, number: int) -> Call | None:
        """The call that is answered; None if it was given up or never made."""
        call = self._open.pop(number, None)
        if call is not None and call.timer is not None:
            call.timer.cancel()
        return call

    def fail(self, call: Call, reason: str, *, is_unsupported: bool = False) -> None:
        if self.take(call.number) is not None:
            error = PeerError(reason, is_unsupported)
            self._timers.call_soon(partial(call.on_response, error))

    def fail_all(self, reason: str) -> None:
        for call in list(self._open.values()):
            self.fail(call, reason)
