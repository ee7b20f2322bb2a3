"""How fast connections may come: `max.connection.creation.rate`, for the broker or one listener. KIP-612.

Kafka takes the mean over the last ten seconds, so a crowd that comes at once after a quiet time is let in,
and only who keeps coming must wait. The same here, as a bucket: it holds ten seconds' worth, is full at the
beginning, and fills at the rate. Nobody is refused; accepting rests, and the kernel's backlog holds who
comes.
"""

from __future__ import annotations

from typing import Final

BURST_SECONDS: Final = 10
LONGEST_REST_MS: Final = 1_000


class CreationRate:
    """One bucket. Times are monotonic milliseconds."""

    __slots__ = ("_full", "_left", "_per_ms", "_seen_ms", "per_second")

    def __init__(self, per_second: int) -> None:
        """per_second: at least 1."""
        self.per_second = per_second
        self._per_ms = per_second / 1000
        self._full = float(per_second * BURST_SECONDS)
        self._left = self._full
        self._seen_ms: int | None = None

    def rest_ms(self, now_ms: int) -> int:
        """How long accepting must rest; 0 if one may come now."""
        self._fill(now_ms)
        if self._left >= 1:
            return 0
        return min(LONGEST_REST_MS, max(1, round((1 - self._left) / self._per_ms)))

    def came(self, now_ms: int) -> None:
        """One connection was accepted."""
        self._fill(now_ms)
        self._left -= 1

    def _fill(self, now_ms: int) -> None:
        if self._seen_ms is not None and now_ms > self._seen_ms:
            self._left = min(self._full, self._left + (now_ms - self._seen_ms) * self._per_ms)
        if self._seen_ms is None or now_ms > self._seen_ms:
            self._seen_ms = now_ms
