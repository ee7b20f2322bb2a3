"""Helper threads for appends that should not keep the loop (see `storage.append_lane`).

For each log directory there is one `LogDisk` that times its writes and tells when it has become slow. Each
log gets the disk below it, and the helper threads for what takes long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.scheduling.long_work import LongWork
from config.ports import Clock, Offload, Stalls, Timers
from storage.append_lane import LaneHelpers
from storage.log_disk import LogDisk

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


class WaitingAppends:
    """disks: threads for writes and syncs that an append waits for. codecs: threads for compression."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Timers,
        disks: Offload,
        codecs: Offload,
        stalls: Stalls | None = None,
        long_work: LongWork | None = None,
    ) -> None:
        """stalls: tells waiting for a disk from waiting for a processor; without it all waiting is for the
        disk. long_work: shares the loop among the large batches that are walked, and with others; without it
        each of them takes a slice of every turn."""
        self._clock = clock
        self._stalled_ns = None if stalls is None else stalls.stalled_ns
        self._disks = disks
        self._helpers = LaneHelpers(
            codecs, timers.call_soon, timers.call_soon if long_work is None else long_work.soon
        )
        self.by_directory: dict[str, LogDisk] = {}
        """The disk under each log directory, by the directory's path."""

    @property
    def waiting_bytes(self) -> int:
        """The size of the copied batches that wait."""
        return self._helpers.waiting_bytes

    def watch(self, log: PartitionLog) -> None:
        """Has the log's writes timed from now on, so that its directory may become slow."""
        path = log.directory.rpartition("/")[0]
        disk = self.by_directory.get(path)
        if disk is None:
            disk = self.by_directory[path] = LogDisk(
                path, self._disks, self._clock.monotonic_ns, self._stalled_ns
            )
        log.use_disk(disk, self._helpers)
