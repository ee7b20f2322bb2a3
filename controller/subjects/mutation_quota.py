"""How many partitions a client may have created and deleted (KIP-599): `controller_mutation_rate`.

Each client has a bucket of tokens, one for a partition. It is full at first, holds what its quota gives in
all windows together, and fills at the rate of the quota. What is created or deleted is taken out of it, also
below zero; while it is below zero nothing more is. So a topic is either done, whatever it takes, or refused::

    strict       CreateTopics from version 6, DeleteTopics from 5, CreatePartitions from 3: what comes while
                 the bucket is below zero is THROTTLING_QUOTA_EXCEEDED, and takes nothing
    permissive   the versions before: all is done, and the client is throttled afterwards

The throttle time is how long the bucket needs to come up to zero. A validation takes as much as the change
itself, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from config.limits import METERED_CLIENTS
from controller.metadata.client_quotas import MUTATION_RATE, ClientLimit, ClientLimits
from controller.metadata.image.quotas import QuotasImage
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode

__all__ = ["MutationQuota", "MutationQuotas", "TokenBucket"]

_FORGOTTEN_AFTER_MS: Final = 3_600_000


class TokenBucket:
    """Times are monotonic milliseconds. per_second: may change from call to call."""

    __slots__ = ("_seen_ms", "_tokens")

    def __init__(self, now_ms: int) -> None:
        self._tokens: float | None = None
        """None while it is full."""
        self._seen_ms = now_ms

    def tokens(self, per_second: float, full: float, now_ms: int) -> float:
        """What is in it now; less than 0 if it owes."""
        filled = full if self._tokens is None else self._tokens + per_second * (now_ms - self._seen_ms) / 1000
        self._seen_ms = now_ms
        self._tokens = min(full, filled)
        return self._tokens

    def take(self, count: float, per_second: float, full: float, now_ms: int) -> None:
        """Takes so many out of it; a negative count puts them back."""
        self._tokens = min(full, self.tokens(per_second, full, now_ms) - count)


class MutationQuotas:
    """The buckets of all clients, of which an active controller remembers those of the last hour; of very
    many clients those that came last."""

    def __init__(self, seconds: int = 11) -> None:
        """seconds: of all windows together."""
        self.seconds = seconds
        self._image: QuotasImage | None = None
        self._limits = ClientLimits(QuotasImage(), MUTATION_RATE)
        self._buckets: dict[tuple[str, str], tuple[TokenBucket, int, float]] = {}
        """With the time and the quota of the last use, in the order of that."""

    def __len__(self) -> int:
        return len(self._buckets)

    def tokens(self, now_ms: int) -> Iterator[tuple[str, str, float]]:
        """User, client id and tokens of each bucket, for metrics."""
        for (user, client_id), (bucket, _, per_second) in list(self._buckets.items()):
            yield user, client_id, bucket.tokens(per_second, per_second * self.seconds, now_ms)

    def of(
        self, image: QuotasImage, user: str, client_id: str, now_ms: int, *, strict: bool
    ) -> MutationQuota:
        """The quota for one request. image: the quotas in force."""
        if image is not self._image:
            self._image, self._limits = image, ClientLimits(image, MUTATION_RATE)
        limit = self._limits.of(user, client_id) if self._limits else None
        if limit is None:
            return MutationQuota(None, 0.0, 0.0, strict=strict)
        bucket = self._bucket(limit, now_ms)
        return MutationQuota(bucket, limit.per_second, limit.per_second * self.seconds, strict=strict)

    def _bucket(self, limit: ClientLimit, now_ms: int) -> TokenBucket:
        buckets = self._buckets
        while buckets:
            oldest = next(iter(buckets))
            if buckets[oldest][1] > now_ms - _FORGOTTEN_AFTER_MS:
                break
            del buckets[oldest]
        key = (limit.user, limit.client_id)
        known = buckets.pop(key, None)
        if known is None and len(buckets) >= METERED_CLIENTS:
            del buckets[next(iter(buckets))]
        bucket = TokenBucket(now_ms) if known is None else known[0]
        buckets[key] = bucket, now_ms, limit.per_second
        return bucket


class MutationQuota:
    """What one request takes of its client's quota, and what its answer says of that."""

    __slots__ = ("_bucket", "_full", "_now_ms", "_per_second", "_strict", "_taken", "_throttle_ms")

    def __init__(self, bucket: TokenBucket | None, per_second: float, full: float, *, strict: bool) -> None:
        """bucket: None if the client has no quota. full: what the bucket holds at most."""
        self._bucket = bucket
        self._per_second = per_second
        self._full = full
        self._strict = strict
        self._taken = 0
        self._throttle_ms = 0
        self._now_ms = 0

    def begin(self, now_ms: int) -> None:
        """The decision is made, maybe once more: what it took before is put back."""
        if self._bucket is not None and self._taken:
            self._bucket.take(-self._taken, self._per_second, self._full, now_ms)
        self._taken = self._throttle_ms = 0
        self._now_ms = now_ms

    def take(self, partitions: int) -> None:
        """Takes so many. Raises ControllerError if the quota does not allow it."""
        bucket, per_second, full, now_ms = self._bucket, self._per_second, self._full, self._now_ms
        if bucket is None:
            return
        if self._strict and (missing := -bucket.tokens(per_second, full, now_ms)) > 0:
            self._throttle_ms = int(missing / per_second * 1000 + 0.5)
            raise ControllerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")  # Kafka sends no sentence
        bucket.take(partitions, per_second, full, now_ms)
        self._taken += partitions
        if not self._strict and (missing := -bucket.tokens(per_second, full, now_ms)) > 0:
            self._throttle_ms = int(missing / per_second * 1000 + 0.5)

    def throttle_ms(self, now_ms: int) -> int:
        """How long the client is throttled. The time since the decision counts: the answer waited for the
        commit."""
        return max(0, self._throttle_ms - (now_ms - self._now_ms))
