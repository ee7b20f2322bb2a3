"""What the fetchers of a broker share: settings, clock, timers, the quota, and the counters of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from broker.quotas.replication_quota import ReplicationQuota
from broker.replication.partition import Partition
from config.ports import Clock, Timers
from protocol.peer_channel import PeerChannel

__all__ = ["FetcherChannel", "FetcherSettings", "FetcherSurroundings"]


class FetcherSettings(msgspec.Struct, frozen=True):
    """Kafka's configs `replica.fetch.max.bytes` (of one partition), `replica.fetch.response.max.bytes` (of
    all partitions), `replica.fetch.min.bytes`, `replica.fetch.wait.max.ms` (for so long the leader waits for
    min_bytes), `replica.fetch.backoff.ms` (the pause after an error) and `replica.socket.timeout.ms`."""

    max_bytes: int = 1_048_576
    response_max_bytes: int = 10_485_760
    min_bytes: int = 1
    wait_max_ms: int = 500
    backoff_ms: int = 1_000
    timeout_ms: int = 30_000


class FetcherChannel(PeerChannel, Protocol):
    """A connection of its own to the leader."""

    def close_channel(self) -> None: ...


class FetcherSurroundings:
    """What all fetchers of a broker share.

    broker_epoch: the epoch of this broker's registration. suspect: called with a log's directory and an error
    when a log cannot be written or truncated. quota: the quota for throttled replicas.
    """

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        settings: FetcherSettings,
        clock: Clock,
        timers: Timers,
        suspect: Callable[[str, BaseException | None], None],
        quota: ReplicationQuota,
    ) -> None:
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.settings = settings
        self.clock = clock
        self.timers = timers
        self.suspect = suspect
        self.quota = quota
        self.replication_bytes_in = 0
        """Record bytes that all fetchers have copied since the start."""
        self.reassignment_bytes_in = 0
        """The part of them that was copied to replicas which reassignments add."""

    def copied(self, partition: Partition, size_bytes: int) -> None:
        """Counts so many copied bytes of the partition."""
        self.replication_bytes_in += size_bytes
        if self.node_id in partition.adding:
            self.reassignment_bytes_in += size_bytes
        if self.quota.is_throttled(partition.topic, partition.index):
            self.quota.record(size_bytes, self.clock.monotonic_ms())
