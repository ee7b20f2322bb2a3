"""One kind of quota: how much each client used lately, and how long it is throttled for that.

What clients use is remembered by who shares a limit, for an hour after the last use, as in Kafka. A client
may call itself otherwise with each request, so no more than a fixed number is remembered: who has been silent
for longest is forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.quotas.sampled_rate import SampledRate
from config.limits import METERED_CLIENTS
from controller.metadata.client_quotas import ClientLimit

__all__ = ["RateQuota", "Usage"]

EXPIRES_AFTER_MS: Final = 3_600_000

_THROTTLE_WINDOW_MS: Final = 30_000
_THROTTLE_WINDOWS: Final = 2
"""What Kafka's metrics are averaged over by default."""

LONGEST_THROTTLE_MS: Final = (1 << 31) - 1


class Usage(NamedTuple):
    """What metrics tell of those who share a limit. throttle_ms: the mean of the last minute."""

    user: str
    client_id: str
    per_second: float
    throttle_ms: float


class _Meter:
    """used_ms: the last use."""

    __slots__ = ("rate", "throttles", "throttles_ms", "used_ms")

    def __init__(self, window_ms: int, windows: int, now_ms: int) -> None:
        self.rate = SampledRate(window_ms, windows)
        self.throttles = SampledRate(_THROTTLE_WINDOW_MS, _THROTTLE_WINDOWS)
        self.throttles_ms = SampledRate(_THROTTLE_WINDOW_MS, _THROTTLE_WINDOWS)
        self.used_ms = now_ms


class RateQuota:
    """Times are monotonic milliseconds."""

    __slots__ = ("_longest_ms", "_meters", "_window_ms", "_windows")

    def __init__(self, *, window_ms: int, windows: int, longest_ms: int = LONGEST_THROTTLE_MS) -> None:
        """window_ms, windows: `quota.window.size.seconds` and `quota.window.num`. longest_ms: nobody is
        throttled for longer."""
        self._window_ms = window_ms
        self._windows = windows
        self._longest_ms = longest_ms
        self._meters: dict[tuple[str, str], _Meter] = {}
        """In the order of their last use."""

    def __len__(self) -> int:
        return len(self._meters)

    def record(self, limit: ClientLimit, amount: float, now_ms: int) -> int:
        """Counts what a client used. Returns the milliseconds for which it is throttled."""
        meter = self._meter(limit, now_ms)
        meter.rate.record(amount, now_ms)
        return self._throttled(meter, limit, now_ms)

    def throttle_ms(self, limit: ClientLimit, now_ms: int) -> int:
        """For how long a client would be throttled that used nothing more now."""
        meter = self._meters.get((limit.user, limit.client_id))
        if meter is None:
            return 0
        return min(meter.rate.throttle_ms(limit.per_second, now_ms), self._longest_ms)

    def take(self, limit: ClientLimit, amount: float, now_ms: int) -> tuple[bool, int]:
        """Whether the client gets so much, and the milliseconds for which it is throttled. What it does not
        get is not counted. More at once than it may ever have it gets if it had nothing lately: otherwise it
        would never get on."""
        meter = self._meter(limit, now_ms)
        is_first = meter.rate.measure(now_ms)[0] <= 0
        meter.rate.record(amount, now_ms)
        throttle_ms = self._throttled(meter, limit, now_ms)
        if not throttle_ms or is_first:
            return True, throttle_ms
        meter.rate.record(-amount, now_ms)
        return False, throttle_ms

    def refuse(self, limit: ClientLimit, amount: float, now_ms: int) -> int:
        """Counts so much if it is within the limit; else returns the milliseconds until it may be."""
        meter = self._meter(limit, now_ms)
        meter.rate.record(amount, now_ms)
        throttle_ms = self._throttled(meter, limit, now_ms)
        if throttle_ms:
            meter.rate.record(-amount, now_ms)
        return throttle_ms

    def most_at_once(self, limit: ClientLimit) -> float:
        """More than this at once is throttled whatever was used before."""
        return limit.per_second * (self._windows - 1) * self._window_ms / 1000

    def usages(self, now_ms: int) -> Iterator[Usage]:
        """What clients use now, for metrics."""
        self._expire(now_ms)
        for (user, client_id), meter in list(self._meters.items()):
            throttles = meter.throttles.measure(now_ms)[0]
            mean_ms = meter.throttles_ms.measure(now_ms)[0] / throttles if throttles else 0.0
            yield Usage(user, client_id, meter.rate.measure(now_ms)[0], mean_ms)

    def _throttled(self, meter: _Meter, limit: ClientLimit, now_ms: int) -> int:
        throttle_ms = min(meter.rate.throttle_ms(limit.per_second, now_ms), self._longest_ms)
        if throttle_ms:
            meter.throttles.record(1, now_ms)
            meter.throttles_ms.record(throttle_ms, now_ms)
        return throttle_ms

    def _meter(self, limit: ClientLimit, now_ms: int) -> _Meter:
        self._expire(now_ms)
        key = (limit.user, limit.client_id)
        meter = self._meters.pop(key, None)
        if meter is None:
            meter = _Meter(self._window_ms, self._windows, now_ms)
            if len(self._meters) >= METERED_CLIENTS:
                del self._meters[next(iter(self._meters))]
        meter.used_ms = now_ms
        self._meters[key] = meter
        return meter

    def _expire(self, now_ms: int) -> None:
        meters = self._meters
        while meters:
            oldest = next(iter(meters))
            if meters[oldest].used_ms > now_ms - EXPIRES_AFTER_MS:
                break
            del meters[oldest]
