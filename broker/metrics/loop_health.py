"""The health of the event loop: its lag, how idle it is, and the pauses of the garbage collector.

Once a second a timer reads the clocks. It is late by as much as the loop is behind (the lag), and the
processor time that the loop's thread took since the last time tells how idle it was. None of this costs a
request anything. The same timer tells once a minute that a window of the histograms is over.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

from broker.metrics.families import Family, counter, gauge
from broker.metrics.histogram import (
    BOUNDS_NS,
    RECENTLY,
    WINDOW_MS,
    RecentBuckets,
    new_buckets,
    quantiles_ms,
)
from broker.metrics.request_families import QUANTILES
from config.ports import Clock, Timer, Timers

_LOOK_EVERY_MS: Final = 1000
_EVENTS: Final = "kafka_controller_controllereventmanager_"
_SMOOTHING: Final = 1 - 2.718281828459045 ** (-1 / 60)
"""The weight of the newest value in a moving average over about a minute, as Kafka's meters have it."""


def next_second_ms(now_ms: int) -> int:
    """The next full second. What is due once a second is due at the same time, so that an idle loop wakes up
    once."""
    return now_ms - now_ms % _LOOK_EVERY_MS + _LOOK_EVERY_MS


class LoopHealth:
    """Must be made, started and stopped in the thread of the loop. ran_ns: see `config.ports.Stalls`."""

    def __init__(self, clock: Clock, timers: Timers, ran_ns: Callable[[], int]) -> None:
        self._ran_ns = ran_ns
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._due_ms = 0
        self._looked_ns = 0
        self._thread_ns = 0
        self.idle_ratio = 1.0
        self.lag = new_buckets()
        self.worst_lag_ms = 0
        self._recent_lag = RecentBuckets(self.lag)
        self._window_ends_ms = 0
        self._at_window_end = [self._recent_lag.end_window]

    def at_window_end(self, call: Callable[[], None]) -> None:
        """Makes `call` once a minute from now on."""
        self._at_window_end.append(call)

    def start(self) -> None:
        self._window_ends_ms = self._clock.monotonic_ms() + WINDOW_MS
        self._looked_ns = self._clock.monotonic_ns()
        self._thread_ns = self._ran_ns()
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._due_ms = next_second_ms(self._clock.monotonic_ms())
        self._timer = self._timers.call_at(self._due_ms, self._look)

    def _look(self) -> None:
        now_ns, thread_ns = self._clock.monotonic_ns(), self._ran_ns()
        lag_ns = max(0, now_ns - self._due_ms * 1_000_000)
        self.lag[bisect_left(BOUNDS_NS, lag_ns)] += 1
        self.worst_lag_ms = max(self.worst_lag_ms, lag_ns // 1_000_000)
        elapsed_ns = max(1, now_ns - self._looked_ns)
        idle = min(1.0, max(0.0, 1 - (thread_ns - self._thread_ns) / elapsed_ns))
        self.idle_ratio += (idle - self.idle_ratio) * _SMOOTHING
        self._looked_ns, self._thread_ns = now_ns, thread_ns
        if self._due_ms >= self._window_ends_ms:
            self._window_ends_ms = self._due_ms + WINDOW_MS
            for call in self._at_window_end:
                call()
        self._arm()

    def collect(self) -> Iterator[Family]:
        idle = round(self.idle_ratio, 4)
        description = "Share of time in which the loop had nothing to do, over a minute"
        yield gauge("kafka_network_socketserver_networkprocessoravgidle_percent", description, idle)
        yield gauge("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", description, idle)
        yield gauge("kafka_network_processor_idle_percent", description, idle, networkProcessor="0")
        values = quantiles_ms(self._recent_lag.buckets(), [fraction for _, fraction in QUANTILES])
        lags = [
            ({"quantile": label}, round(value, 3))
            for (label, _), value in zip(QUANTILES, values, strict=True)
        ]
        yield Family(
            "barnabas_loop_lag_ms",
            "gauge",
            f"How late the loop came to a timer (milliseconds), {RECENTLY}",
            lags,
        )
        waited = f"How long an event of the controller waited: how late the loop came (ms), {RECENTLY}"
        yield Family(_EVENTS + "eventqueuetimems", "gauge", waited, lags)
        yield counter(_EVENTS + "eventqueuetimems_count", "How often that was looked at", sum(self.lag))
        yield gauge("barnabas_loop_lag_worst_ms", "The longest lag since the start", self.worst_lag_ms)


class CollectorPauses:
    """Time that the cyclic garbage collector took, per generation. `install` hooks it in, `remove` out
    again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pauses = [0, 0, 0]
        self.total_ns = [0, 0, 0]
        self.worst_ns = 0
        self._began_ns = 0

    def install(self) -> None:
        gc.callbacks.append(self._on_collection)

    def remove(self) -> None:
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = self._clock.monotonic_ns()
            return
        took_ns = self._clock.monotonic_ns() - self._began_ns
        generation = info["generation"]
        self.pauses[generation] += 1
        self.total_ns[generation] += took_ns
        self.worst_ns = max(self.worst_ns, took_ns)

    def collect(self) -> Iterator[Family]:
        yield Family(
            "barnabas_gc_pauses_total",
            "counter",
            "Runs of the garbage collector",
            [({"generation": str(number)}, count) for number, count in enumerate(self.pauses)],
        )
        yield Family(
            "barnabas_gc_pause_seconds_total",
            "counter",
            "Time that the garbage collector took",
            [({"generation": str(number)}, ns / 1e9) for number, ns in enumerate(self.total_ns)],
        )
        yield gauge("barnabas_gc_pause_worst_ms", "The longest pause since the start", self.worst_ns / 1e6)


def slow_turn_family(count: int) -> Family:
    return counter("barnabas_slow_turns_total", "Turns of the loop that took more than 100 ms", count)
