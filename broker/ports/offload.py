"""Helper threads for single system calls that let other threads run for their whole length."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from config.limits import ENDING_THREADS, HELPER_THREADS

T = TypeVar("T")

_log = logging.getLogger("barnabas.offload")


def run_side_by_side(calls: Sequence[Callable[[], None]], threads: int = ENDING_THREADS) -> None:
    """Runs all calls in threads of their own, and waits for the last: for the end of a node."""
    if not calls:
        return
    with ThreadPoolExecutor(min(threads, len(calls)), thread_name_prefix="ending") as pool:
        for outcome in pool.map(_called, calls):
            if outcome is not None:
                raise outcome


def _called(call: Callable[[], None]) -> BaseException | None:
    try:
        call()
    except BaseException as error:
        return error
    return None


def _be_nice(niceness: int) -> None:
    """Linux keeps a priority for each thread."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


class ThreadOffload:
    """`config.ports.Offload` over a small pool. Threads are started when they are first needed.

    Results come back through the loop, never in the helper's thread. After `close` calls that have begun are
    awaited, and results that would come later are dropped: there is no loop to bring them to.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        threads: int = HELPER_THREADS,
        *,
        name: str = "offload",
        niceness: int = 0,
    ) -> None:
        """niceness: how far these threads stand behind the loop's where processors are scarce."""
        self._loop = loop
        initialize = partial(_be_nice, niceness) if niceness else None
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name, initializer=initialize)
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Calls whose result the loop has not seen yet."""
        return self._waiting

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._waiting += 1
        self._pool.submit(self._run, call, done)

    def _run(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        result: T | BaseException
        try:
            result = call()
        except BaseException as error:
            result = error
        try:
            self._loop.call_soon_threadsafe(self._finish, done, result)
        except RuntimeError:
            _log.warning("The loop ended before %s did; its result is dropped", call)

    def _finish(self, done: Callable[[T | BaseException], None], result: T | BaseException) -> None:
        self._waiting -= 1
        done(result)

    def close(self) -> None:
        """Waits for what is running; what has not begun is not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
