"""The limit on how fast connections are created: `max.connection.creation.rate`, for a broker or a listener
(KIP-612).

Kafka takes the mean rate over the last ten seconds, so a burst after a quiet time is accepted, and only
connections that keep coming must wait. The same is done here with a token bucket: it holds ten seconds' worth
of connections, is full at the start, and fills at the configured rate. No connection is refused: the listener
stops accepting for a while, and new connections wait in the kernel's backlog. No rest is longer than a
second, so a rate of 0, which a file may set, lets one connection through each second.
"""

from __future__ import annotations

from typing import Final

BURST_SECONDS: Final = 10
LONGEST_REST_MS: Final = 1_000


class CreationRate:
    """A token bucket of connections that may be accepted. Times are monotonic milliseconds."""

    __slots__ = ("_full", "_left", "_per_ms", "_seen_ms", "per_second")

    def __init__(self, per_second: int) -> None:
        """Starts with a full bucket. `per_second` is the configured rate."""
        self.per_second = per_second
        self._per_ms = max(per_second / 1000, 1 / LONGEST_REST_MS)
        self._full = max(float(per_second * BURST_SECONDS), 1.0)
        self._left = self._full
        self._seen_ms: int | None = None

    def pause_ms(self, now_ms: int) -> int:
        """The milliseconds for which the listener must not accept; 0 if it may accept one connection now."""
        self._fill(now_ms)
        if self._left >= 1:
            return 0
        return min(LONGEST_REST_MS, max(1, round((1 - self._left) / self._per_ms)))

    def record(self, now_ms: int) -> None:
        """Takes one token out of the bucket, for a connection that was accepted."""
        self._fill(now_ms)
        self._left -= 1

    def _fill(self, now_ms: int) -> None:
        if self._seen_ms is not None and now_ms > self._seen_ms:
            self._left = min(self._full, self._left + (now_ms - self._seen_ms) * self._per_ms)
        if self._seen_ms is None or now_ms > self._seen_ms:
            self._seen_ms = now_ms
