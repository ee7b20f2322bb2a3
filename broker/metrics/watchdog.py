"""Turns of the loop that take too long, caught in the act.

One slow turn delays every client, and afterwards nobody can tell what it was. A thread asks the loop for a
sign of life ten times a second. If none has come after 100 ms it looks at the loop's stack from outside and
writes it to the log, with the request that was being handled. It says so once per turn, and the loop says
how long the turn was in the end.

The thread sleeps but for some microseconds each time, and does not wake a loop that rests: then the innermost
frame of the loop's thread is the one that runs the loop, the same that called the last sign of life. A loop
that it has found resting twice is looked at three times a second, one that rested ten times in a row once:
what then comes and takes less than 400 ms, or 1.1 s, may be missed. Requests pay one attribute, what is being
handled now (`broker.dispatch.dispatcher.CurrentRequest`). A turn that holds the interpreter's lock in C for
its whole length cannot be looked at; it still shows as lag. SIGQUIT dumps the stacks of all threads at any
time, as JVM users expect.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
import traceback
from asyncio import AbstractEventLoop
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Final, TextIO

from config.limits import CLIENT_ID_LENGTH_IN_LOGS, SLOW_TURN_MS
from config.ports import Clock
from protocol.registry import find_api
from protocol.serving.request_context import RequestContext

_log = logging.getLogger("barnabas.watchdog")

_ASK_EVERY_MS: Final = 100
_TRIES: Final = 5
_LOOKS_IN_ONE: Final = ((10, 10), (2, 3), (0, 1))
"""Pairs: a loop that was found idle so often in a row is checked once instead of so many times."""


class Watchdog:
    """current: what is being handled now, by any dispatcher. slow_turns: how many there were."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Clock,
        current: Callable[[], RequestContext | None],
        *,
        limit_ms: int = SLOW_TURN_MS,
        ask_every_ms: int = _ASK_EVERY_MS,
    ) -> None:
        self.slow_turns = 0
        self._loop = loop
        self._clock = clock
        self._current = current
        self._limit_ns = limit_ms * 1_000_000
        self._ask_every_s = ask_every_ms / 1000
        self._stop = threading.Event()
        self._answered = threading.Event()
        self._asked_ns = 0
        self._caught = False
        self._loop_thread = 0
        self._runner: FrameType | None = None
        """The frame that runs the loop, if it is the caller of a callback, as it is where the loop is written
        in C."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the watching thread. Must be called in the thread of the loop."""
        self._loop_thread = threading.get_ident()
        self._answered.set()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._answered.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._runner = None

    def _watch(self) -> None:
        rests = 0
        while not self._stop.wait(self._ask_every_s * _looks_in_one(rests)):
            if self._runner is not None and sys._current_frames().get(self._loop_thread) is self._runner:
                rests += 1
                continue
            rests = 0
            self._answered.clear()
            if self._stop.is_set():
                return  # `stop` was called after the wait above, and its event has just been cleared
            self._caught = False
            self._asked_ns = self._clock.monotonic_ns()
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                return  # the loop is closed
            if not self._answered.wait(self._limit_ns / 1e9):
                self._caught = True
                self._report()
                self._answered.wait()

    def _answer(self) -> None:
        """Answers the watchdog. It runs on the loop."""
        self._runner = sys._getframe(1)
        if self._caught:
            self.slow_turns += 1
            took_ms = (self._clock.monotonic_ns() - self._asked_ns) // 1_000_000
            _log.warning("That turn of the loop is over; it took at least %d ms", took_ms)
        self._answered.set()

    def _report(self) -> None:
        context, places = self._look()
        lines = traceback.StackSummary.from_list(
            [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line in reversed(places)]
        ).format()
        _log.warning(
            "The loop has not come round for %d ms; %s. It is here:\n%s",
            self._limit_ns // 1_000_000,
            _describe(context),
            "".join(lines).rstrip() or "unknown",
        )

    def _look(self) -> tuple[RequestContext | None, list[tuple[CodeType, int]]]:
        """The request and the places in the code, innermost first, that belong together.

        The loop runs on while sources are read and lines are written, so both are only noted here, some
        microseconds apart; and if another request has begun in between, once more.
        """
        for _ in range(_TRIES):
            context = self._current()
            frame = sys._current_frames().get(self._loop_thread)
            places = [] if frame is None else [(f.f_code, line) for f, line in traceback.walk_stack(frame)]
            if self._current() is context:
                break
        return context, places


def _looks_in_one(rests: int) -> int:
    return next(looks for at_least, looks in _LOOKS_IN_ONE if rests >= at_least)


def _describe(context: RequestContext | None) -> str:
    if context is None:
        return "no request has been handled yet"
    known = find_api(context.api_key)
    name = known.name if known is not None else str(context.api_key)
    client = context.client_id[:CLIENT_ID_LENGTH_IN_LOGS]
    return (
        f"the last request begun is {name} version {context.version} from client {client!r} "
        f"({context.session.connection_id})"
    )


def dump_stacks_on_sigquit(file: TextIO = sys.stderr) -> None:
    """SIGQUIT writes the stacks of all threads, whatever they are doing; the process goes on."""
    if hasattr(signal, "SIGQUIT"):
        faulthandler.register(signal.SIGQUIT, file=file, all_threads=True, chain=False)
