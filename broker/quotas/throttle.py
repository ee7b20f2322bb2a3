"""How long a client must be quiet after its request: the place where quotas say so.

Dispatch asks once per answer, when the answer is encoded and both sizes are known. The time goes into the
answer's `throttle_time_ms` (an answer to which it adds something is encoded a second time), the answer leaves
at once, and then the connection is muted for that time, whether the client keeps quiet by itself or not
(KIP-219).
"""

from __future__ import annotations

from typing import Protocol

from protocol.serving.request_context import RequestContext


class Throttle(Protocol):
    """Quotas decide behind this: on bytes produced and fetched, and on the time that requests take."""

    def throttle_ms(self, context: RequestContext, *, response_bytes: int, elapsed_ns: int) -> int:
        """Milliseconds, 0 for none.

        The request's bytes are `context.frame_size_bytes`. response_bytes: of the answer's frame, record
        bytes included; as in the request, without the four that say the size. elapsed_ns: the loop's time
        that the request took.
        """
        ...


class NoThrottle:
    """Nobody is throttled. Dispatch knows it and does not even ask."""

    def throttle_ms(self, context: RequestContext, *, response_bytes: int, elapsed_ns: int) -> int:
        return 0
