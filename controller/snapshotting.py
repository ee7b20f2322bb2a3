"""When the state is written as a snapshot, and how without holding up the loop.

Kafka's two rules: so many bytes of new records (`metadata.log.max.record.bytes.between.snapshots`), or so
much time (`metadata.log.max.snapshot.interval.ms`, 0 switches it off) with anything new at all. A snapshot
also comes with each change of `metadata.version`: what lies before it need not be read again. And one rule is
ours, because a start should take no time: replaying goes at some 40 µs a record, so there are never many more
to replay than a few thousand, or than the snapshot holds if it is larger than that. To write it again after
the same few thousand would make the creation of many partitions cost the square of their number.

A snapshot is encoded a hundred records a turn, from an image that nobody can change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from config.broker_config import BrokerConfig
from config.ports import Clock, Timers
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.log import MetadataLog

__all__ = ["SnapshotSchedule"]

RECORDS_BETWEEN_SNAPSHOTS: Final = 5_000
BYTES_PER_RECORD: Final = 100
"""About so large is a record in a snapshot, where most are of partitions."""


class SnapshotSchedule:
    """Begins a snapshot of the committed image when one is due, and the next one only when that is
    durable."""

    def __init__(self, log: MetadataLog, config: BrokerConfig, clock: Clock, timers: Timers) -> None:
        self._log = log
        self._clock = clock
        self._timers = timers
        self._bytes_between = config.integer("metadata.log.max.record.bytes.between.snapshots")
        self._interval_ms = config.integer("metadata.log.max.snapshot.interval.ms")
        self._last_ms = clock.monotonic_ms()
        self._last_offset = -1
        self._last_level = 0
        self._steps: Iterator[None] | None = None

    def committed(self, image: ClusterImage) -> None:
        """Takes in a newer committed image."""
        is_busy = self._steps is not None or self._log.is_writing_snapshot or self._log.is_within_batch
        if not is_busy and self._due(image):
            self._steps = self._log.snapshot_steps(image)
            self._last_ms = self._clock.monotonic_ms()
            self._last_offset = image.offset
            self._timers.call_soon(self._step)

    def _due(self, image: ClusterImage) -> bool:
        if self._last_offset < 0:
            newest = self._log.latest_snapshot()
            self._last_offset = 0 if newest is None else newest.end_offset - 1
        level, self._last_level = self._last_level, image.features.metadata_version
        if level and level != self._last_level:
            return True
        in_snapshot = self._log.latest_snapshot_bytes // BYTES_PER_RECORD
        if image.offset - self._last_offset >= max(RECORDS_BETWEEN_SNAPSHOTS, in_snapshot):
            return True
        if self._log.size_since_snapshot_bytes >= self._bytes_between:
            return True
        waited_ms = self._clock.monotonic_ms() - self._last_ms
        return 0 < self._interval_ms <= waited_ms and image.offset > self._last_offset

    def stop(self) -> None:
        """Drops a snapshot that is not complete. The log holds everything that would be in it."""
        self._steps = None

    def _step(self) -> None:
        if self._steps is None:
            return
        for _ in self._steps:
            self._timers.call_soon(self._step)
            return
        self._steps = None
