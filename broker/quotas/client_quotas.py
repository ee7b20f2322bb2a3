"""The quotas of clients on this broker: bytes that they produce and fetch, and the time that they take.

::

    producer_byte_rate     bytes of Produce requests (KIP-13); also of those that are never answered
    consumer_byte_rate     bytes of answers to Fetch; an answer that is too much goes out without records
    request_percentage     the loop's time, in percent of one thread's (KIP-124); at most a window long
    controller_mutation_rate   decided by the controller (KIP-599), which tells this broker for how long

Each holds for the clients of `controller.metadata.client_quotas`, and per broker. What brokers ask each other
with CLUSTER_ACTION takes nothing of any: followers' fetches and WriteTxnMarkers; nor does what a node asks
itself. Dispatch asks for all others when an answer is made (`broker.quotas.throttle`). Without quotas it does
not ask, and while there are some, clients that have none stay on their fast lanes (`UnlessThrottled`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.quotas.rate_quota import RateQuota
from config.ports import Clock
from controller.metadata.client_quotas import (
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    ClientLimits,
)
from controller.metadata.image.quotas import QuotaEntity, QuotasImage
from protocol.registry import ApiKey
from protocol.serving.request_context import RequestContext

__all__ = ["ClientQuotas"]

_PRODUCE: Final = int(ApiKey.PRODUCE)
_PERCENT_PER_NS: Final = 100 / 1_000_000_000


class ClientQuotas:
    """Implements `broker.quotas.throttle.Throttle`. produce, fetch, request: what clients used lately."""

    __slots__ = ("_clock", "_consumer", "_mutation", "_producer", "_request", "fetch", "produce", "request")

    def __init__(self, clock: Clock, *, window_ms: int, windows: int) -> None:
        """window_ms, windows: `quota.window.size.seconds` and `quota.window.num`."""
        self._clock = clock
        self.produce = RateQuota(window_ms=window_ms, windows=windows)
        self.fetch = RateQuota(window_ms=window_ms, windows=windows)
        self.request = RateQuota(window_ms=window_ms, windows=windows, longest_ms=window_ms)
        none = QuotasImage()
        self._producer = ClientLimits(none, PRODUCER_RATE)
        self._consumer = ClientLimits(none, CONSUMER_RATE)
        self._request = ClientLimits(none, REQUEST_PERCENTAGE)
        self._mutation = ClientLimits(none, MUTATION_RATE)

    def follow(self, image: QuotasImage, changed: Iterable[QuotaEntity]) -> None:
        """Takes over the quotas of the entities that have changed in the cluster. What clients used before
        counts against the new ones."""
        entities = list(changed)
        for limits in (self._producer, self._consumer, self._request, self._mutation):
            limits.follow(image, entities)

    def __bool__(self) -> bool:
        """Whether any client may have a quota."""
        return any((self._producer, self._consumer, self._request, self._mutation))

    def applies_to(self, context: RequestContext) -> bool:
        """See `broker.quotas.throttle.Throttle`."""
        user, client_id = context.session.principal.name, context.client_id
        kinds = (self._producer, self._consumer, self._request)
        return any(limits.of(user, client_id) is not None for limits in kinds)

    def throttle_ms(
        self, context: RequestContext, *, response_bytes: int, elapsed_ns: int, is_exempt: bool
    ) -> int:
        """See `broker.quotas.throttle.Throttle`. What a Fetch was given is counted by its handler."""
        if is_exempt or context.session.is_in_process:
            return 0
        throttle_ms = self.unanswered_ms(context) if context.api_key == _PRODUCE else 0
        limit = self._request.of(context.session.principal.name, context.client_id)
        if limit is None:
            return throttle_ms
        now_ms = self._clock.monotonic_ms()
        return max(throttle_ms, self.request.record(limit, elapsed_ns * _PERCENT_PER_NS, now_ms))

    def unanswered_ms(self, context: RequestContext) -> int:
        """See `broker.quotas.throttle.Throttle`."""
        limit = self._producer.of(context.session.principal.name, context.client_id)
        if limit is None:
            return 0
        return self.produce.record(limit, context.frame_size_bytes, self._clock.monotonic_ms())

    # For the handler of Fetch

    @property
    def limits_fetches(self) -> bool:
        """Whether any client may have a limit on what it fetches, or on the time that it takes."""
        return bool(self._consumer or self._request)

    def limits_fetches_of(self, context: RequestContext) -> bool:
        """Whether this client has one. For the others nobody need know how long their answers are."""
        user, client_id = context.session.principal.name, context.client_id
        return any(limits.of(user, client_id) is not None for limits in (self._consumer, self._request))

    def most_fetched_bytes(self, context: RequestContext) -> int | None:
        """The most bytes that one answer may hold; None if the client has no limit."""
        limit = self._consumer.of(context.session.principal.name, context.client_id)
        return None if limit is None else int(self.fetch.most_at_once(limit))

    def take_fetched(self, context: RequestContext, size_bytes: int) -> tuple[bool, int]:
        """Whether an answer of so many bytes may be given, and the milliseconds for which the client is
        throttled. Who has used up his time gets none either, as in Kafka."""
        user, client_id = context.session.principal.name, context.client_id
        now_ms = self._clock.monotonic_ms()
        time_limit = self._request.of(user, client_id)
        if time_limit is not None and (throttle_ms := self.request.throttle_ms(time_limit, now_ms)):
            return False, throttle_ms
        limit = self._consumer.of(user, client_id)
        return (True, 0) if limit is None else self.fetch.take(limit, size_bytes, now_ms)
