"""How fast something comes, by the samples of the last windows: Kafka's `Rate` over a `SampledStat`.

A sample is open for one window from its first event on, and the next event opens another one; there are at
most as many as are remembered and one more. A sample is forgotten when its last event is older than all
windows together. The rate is over the time since the oldest sample began, and at least over all windows but
one, as if there had been nothing before: so a burst after silence is let through, and the throttle time
follows from the rate alone::

    rate R over a time of W, quota Q:   the client waits (R - Q) / Q * W, after which R would be Q
"""

from __future__ import annotations

from typing import Final

__all__ = ["SampledRate"]

_BEGAN: Final = 0
_LAST: Final = 1
_SUM: Final = 2


class SampledRate:
    """One rate. Times are monotonic milliseconds."""

    __slots__ = ("_current", "_samples", "_window_ms", "_windows")

    def __init__(self, window_ms: int, windows: int) -> None:
        self._window_ms = window_ms
        self._windows = windows
        self._samples: list[list[float]] = []
        """Each is when it began, its last event, and its sum. They are used in a ring."""
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Counts so much more; less if it is negative."""
        samples = self._samples
        if not samples:
            samples.append([now_ms, now_ms, 0.0])
        sample = samples[self._current]
        if now_ms - sample[_BEGAN] >= self._window_ms:
            self._current = (self._current + 1) % (self._windows + 1)
            if self._current == len(samples):
                samples.append([])
            sample = samples[self._current] = [now_ms, now_ms, 0.0]
        sample[_SUM] += amount
        sample[_LAST] = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The rate per second, and the milliseconds over which it is."""
        expired_ms = now_ms - self._windows * self._window_ms
        began_ms: float = now_ms
        total = 0.0
        for sample in self._samples:
            if sample[_LAST] <= expired_ms:
                sample[:] = [now_ms, now_ms, 0.0]
            elif sample[_BEGAN] < began_ms:
                began_ms = sample[_BEGAN]
            total += sample[_SUM]
        elapsed_ms = int(now_ms - began_ms)
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        elapsed_ms += max(missing, 0) * self._window_ms
        return 1000 * total / max(elapsed_ms, 1), elapsed_ms

    def throttle_ms(self, per_second: float, now_ms: int) -> int:
        """How long nothing may come until the rate is down to `per_second`, which is above 0; 0 if it is
        not above that."""
        rate, elapsed_ms = self.measure(now_ms)
        if rate <= per_second:
            return 0
        return int((rate - per_second) / per_second * elapsed_ms + 0.5)
