"""Requests that are answered in steps: at once if that is quick, else a slice at a time while other clients
are served.

The steps come from a generator (see `storage.time_lookup`). It yields None where others may be served, a
function that a helper thread has to call, or a `Room`: how much memory it needs from then on. Only a few
look-ups at a time may use much memory; the others wait in order and hold next to nothing. When the client
disconnects its look-up is cancelled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from broker.scheduling.long_work import LongWork
from config.limits import LARGE_LOOKUPS, LARGEST_LOOKUPS, LOOKUP_INLINE_MS
from config.ports import Clock, Offload
from protocol.errors import EndsProcess
from protocol.serving.pending import Pending
from storage.permits import Permits
from storage.time_lookup import LookupStep, Room

LOG: Final = logging.getLogger("barnabas.lookups")

R = TypeVar("R")


class Lookups:
    """The look-ups of one broker that take more than one step."""

    def __init__(self, *, clock: Clock, work: LongWork, threads: Offload) -> None:
        self._clock = clock
        self._work = work
        self._threads = threads
        self._rooms = {Room.SOME: Permits(LARGE_LOOKUPS), Room.MUCH: Permits(LARGEST_LOOKUPS)}
        self.under_way = 0
        """The number of look-ups that are not answered yet."""

    def run(self, steps: Generator[LookupStep, Any, R], refuse: Callable[[], R]) -> R | Pending[R]:
        """The result of the steps, or a `Pending` for it.

        refuse: gives the answer if the steps fail by our fault. What they raise before their first pause goes
        to the caller.
        """
        try:
            step = steps.send(None)
        except StopIteration as stop:  # as nearly all do
            outcome: R = stop.value
            return outcome
        lookup = _Lookup(steps, refuse)
        if self._do(lookup, step, 0):
            self._go_on(lookup, None, self._clock.monotonic_ns() + LOOKUP_INLINE_MS * 1_000_000)
        if lookup.response is not None:
            return lookup.response
        self.under_way += 1
        pending: Pending[R] = Pending()
        pending.on_cancel(partial(self._cancel, lookup))
        lookup.pending = pending
        return pending

    def _go_on(self, lookup: _Lookup[R], result: Any, until_ns: int) -> None:
        """Runs at least one step, until one has to wait for a thread or for memory, or the time `until_ns` is
        reached."""
        steps = lookup.steps
        while True:
            try:
                step = steps.throw(result) if isinstance(result, BaseException) else steps.send(result)
            except StopIteration as stop:
                self._end(lookup, stop.value)
                return
            except EndsProcess:
                raise
            except Exception:
                LOG.exception("A look-up failed; this is our fault")
                self._end(lookup, lookup.refuse())
                return
            if not self._do(lookup, step, until_ns):
                return
            result = None

    def _do(self, lookup: _Lookup[Any], step: LookupStep, until_ns: int) -> bool:
        """Does what a step asks for, and returns whether the next step may follow at once. until_ns: 0 means
        that there is no time limit."""
        if isinstance(step, Room):
            return self._take_room(lookup, step)
        if step is not None:
            lookup.is_in_thread = True
            self._threads.submit(step, partial(self._on_thread_done, lookup))
            return False
        if until_ns and self._clock.monotonic_ns() >= until_ns:
            self._later(lookup, None)
            return False
        return True

    def _later(self, lookup: _Lookup[Any], result: Any) -> None:
        self._work.soon(partial(self._slice, lookup, result))

    def _slice(self, lookup: _Lookup[Any], result: Any) -> None:
        if not lookup.is_over:
            self._go_on(lookup, result, until_ns=1)

    def _on_thread_done(self, lookup: _Lookup[Any], result: Any) -> None:
        """Goes on after a helper thread has done its part; the client may have disconnected meanwhile."""
        lookup.is_in_thread = False
        if lookup.is_over:
            self._leave_room(lookup)
        else:
            self._later(lookup, result)

    def _end(self, lookup: _Lookup[R], response: R) -> None:
        lookup.is_over = True
        self._leave_room(lookup)
        if lookup.pending is None:
            lookup.response = response
            return
        self.under_way -= 1
        lookup.pending.complete(response)

    def _cancel(self, lookup: _Lookup[Any]) -> None:
        """Cancels the look-up because the client has disconnected. Memory that a helper thread still uses is
        given up when the thread is done."""
        lookup.is_over = True
        self.under_way -= 1
        lookup.steps.close()
        if not lookup.is_in_thread:
            self._leave_room(lookup)

    # Room: how much memory the look-ups may use

    def _take_room(self, lookup: _Lookup[Any], wanted: Room) -> bool:
        """Whether the look-up may use that much memory now. If not, `_room_is_free` is called when it may."""
        self._leave_room(lookup)
        if wanted is Room.NONE:
            return True
        if self._rooms[wanted].acquire(partial(self._room_is_free, lookup, wanted)):
            lookup.room = wanted
            return True
        return False

    def _room_is_free(self, lookup: _Lookup[Any], room: Room) -> bool:
        if lookup.is_over:
            return False
        lookup.room = room
        self._later(lookup, None)
        return True

    def _leave_room(self, lookup: _Lookup[Any]) -> None:
        left, lookup.room = lookup.room, Room.NONE
        if left is Room.NONE:
            return
        self._rooms[left].release()


class _Lookup(Generic[R]):
    """One look-up that has begun and is not answered."""

    __slots__ = ("is_in_thread", "is_over", "pending", "refuse", "response", "room", "steps")

    def __init__(self, steps: Generator[LookupStep, Any, R], refuse: Callable[[], R]) -> None:
        self.steps = steps
        self.refuse = refuse
        self.response: R | None = None
        """The response, if it was known before a `Pending` had to be returned."""
        self.pending: Pending[R] | None = None
        self.room = Room.NONE
        self.is_in_thread = False
        self.is_over = False
