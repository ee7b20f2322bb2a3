"""The watchdog ends when it is told to, at whatever moment that is."""

from __future__ import annotations

import asyncio
import threading

from broker.metrics.watchdog import Watchdog
from tests.support.rigs.hand_clock import HandClock


class StoppedInBetween(threading.Event):
    """`stop` comes when the watchdog has just looked and has not asked the loop yet."""

    watchdog: Watchdog

    def wait(self, timeout: float | None = None) -> bool:
        before = self.is_set()
        if not before:
            self.watchdog.stop()
        return before


def test_a_stop_that_comes_between_looking_and_asking() -> None:
    loop = asyncio.new_event_loop()
    watchdog = Watchdog(loop, HandClock(), lambda: None, limit_ms=1)
    moment = StoppedInBetween()
    moment.watchdog = watchdog
    watchdog._stop = moment
    watch = threading.Thread(target=watchdog._watch, daemon=True)
    watch.start()
    watch.join(60)
    assert not watch.is_alive(), "it waits for an answer of a loop that has ended"
    loop.close()
