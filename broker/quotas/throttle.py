"""How long a client is throttled after a request: the place at which quotas decide it.

Dispatch asks once per response. The time goes into the response's `throttle_time_ms`, the response leaves at
once, and then the connection is muted for that time, whether the client waits by itself or not (KIP-219).
"""

from __future__ import annotations

from typing import Protocol

from protocol.serving.request_context import RequestContext


class Throttle(Protocol):
    """Decides how long a client is throttled; quotas on request time and bandwidth will implement it."""

    def throttle_ms(self, context: RequestContext, elapsed_ns: int) -> int:
        """The throttle time of the response, in milliseconds; 0 for none. elapsed_ns: the loop's time that
        the request took."""
        ...


class NoThrottle:
    """Throttles no client. Dispatch recognizes it and does not even call it."""

    def throttle_ms(self, context: RequestContext, elapsed_ns: int) -> int:
        return 0
