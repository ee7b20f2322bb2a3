"""How long a client must be quiet after its request: the place where quotas say so.

Dispatch asks once per answer. The time goes into the answer's `throttle_time_ms`, the answer leaves at once,
and then the connection is muted for that time, whether the client keeps quiet by itself or not (KIP-219).
"""

from __future__ import annotations

from typing import Protocol

from protocol.serving.request_context import RequestContext


class Throttle(Protocol):
    """Quotas on request time and bandwidth decide behind this."""

    def throttle_ms(self, context: RequestContext, elapsed_ns: int) -> int:
        """Milliseconds, 0 for none. elapsed_ns: the loop's time that the request took."""
        ...


class NoThrottle:
    """Nobody is throttled. Dispatch knows it and does not even ask."""

    def throttle_ms(self, context: RequestContext, elapsed_ns: int) -> int:
        return 0
