"""How fast throttled replicas may be copied (KIP-73): one rate for all of them together.

A broker has two of these quotas: one for what it copies as a follower, one for what it sends as a leader. A
topic names its throttled replicas for each, as `partition:broker` or `*` for all. What is copied of them is
counted in windows of `replication.quota.window.size.seconds`, of which `replication.quota.window.num` are
remembered; the rate is over the time since the oldest one began, and at least over one window. Replicas that
have caught up are counted and never held back, so that a throttle throws nobody out of the ISR. In Kafka this
is `ReplicationQuotaManager`.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from config.errors import some_of
from config.setting import one_line
from config.values import java_whole, split_list

__all__ = ["ReplicationQuota", "throttled_partitions"]

_log = logging.getLogger("barnabas.node")

ALL: Final = "*"
NO_LIMIT: Final = (1 << 63) - 1

_EVERY: Final[frozenset[int]] = frozenset({-1})
"""Stands for all partitions of a topic."""


class ReplicationQuota:
    """bytes_per_second: may be exceeded by the answers that are under way when it is reached."""

    __slots__ = ("_oldest", "_samples", "_throttled", "_window_ms", "bytes_per_second")

    def __init__(self, *, window_ms: int = 1_000, windows: int = 11) -> None:
        self.bytes_per_second = NO_LIMIT
        self._window_ms = window_ms
        self._oldest = windows
        self._samples: deque[tuple[int, int]] = deque()
        """Pairs of the begin of a window and the bytes in it, in the order of time."""
        self._throttled: dict[str, frozenset[int]] = {}

    def limit(self, bytes_per_second: int) -> None:
        """Takes over the configured rate."""
        self.bytes_per_second = bytes_per_second

    def throttle(self, topic: str, partitions: frozenset[int]) -> None:
        """These partitions of the topic are throttled from now on, and no others of it."""
        if partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)

    def is_throttled(self, topic: str, partition: int) -> bool:
        partitions = self._throttled.get(topic)
        return partitions is not None and (partitions is _EVERY or partition in partitions)

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Counts so many bytes of throttled replicas that were copied."""
        self._forget_old(now_ms)
        begin_ms = now_ms - now_ms % self._window_ms
        if self._samples and self._samples[-1][0] == begin_ms:
            size_bytes += self._samples.pop()[1]
        self._samples.append((begin_ms, size_bytes))

    def is_exceeded(self, now_ms: int) -> bool:
        return self.bytes_per_second != NO_LIMIT and self.rate(now_ms) > self.bytes_per_second

    def rate(self, now_ms: int) -> float:
        """Bytes a second of throttled replicas, as far as they are remembered."""
        self._forget_old(now_ms)
        samples = self._samples
        if not samples:
            return 0.0
        elapsed_ms = max(now_ms - samples[0][0], self._window_ms)
        return 1_000 * sum(size for _, size in samples) / elapsed_ms

    def _forget_old(self, now_ms: int) -> None:
        samples = self._samples
        while samples and samples[0][0] <= now_ms - self._oldest * self._window_ms:
            samples.popleft()


def throttled_partitions(replicas: str, broker_id: int) -> frozenset[int]:
    """The partitions of which this broker's replica is throttled. Stored items that can name no replica are
    passed over: a topic's config may hold numbers of any length."""
    items = [item for item in split_list(replicas) if item]
    if items == [ALL]:
        return _EVERY
    found: set[int] = set()
    refused: list[str] = []
    for item in items:
        partition, broker = (java_whole(part.strip()) for part in item.partition(":")[::2])
        if partition is None or broker is None:
            refused.append(one_line(item))
        elif broker == broker_id:
            found.add(partition)
    if refused:
        _log.error("Throttled replicas that cannot exist are passed over: %s", some_of(refused, ", "))
    return frozenset(found)
