"""The state machine above the log of a `DriverMachine`: an image of configs, replayed as a controller does.

Whoever has applied the log up to the same offset must have the same state, whether it came from the log, from
its own appends or from a snapshot; `Invariants.applied` and `Invariants.snapshot_seen` see to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from zlib import crc32

from config.ports import Timers
from controller.metadata.image.cluster_image import ClusterImage, image_records
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch
from controller.metadata.log import LeaderAndEpoch, NotLeader, SnapshotId
from controller.metadata.records import record_values
from controller.metadata.replicated_log import ReplicatedMetadataLog
from protocol.codec.message import Message
from protocol.metadata_log.cluster import ConfigRecord, NoOpRecord

if TYPE_CHECKING:
    from broker.simulation.quorum.driver_machine import DriverMachine

__all__ = ["AppliedState"]

KEYS: Final = 5
KEPT_IMAGES: Final = 3
BROKER_RESOURCE: Final = 4


class AppliedState:
    """`controller.metadata.log.MetadataLogListener` of one life."""

    def __init__(self, machine: DriverMachine, log: ReplicatedMetadataLog, timers: Timers) -> None:
        self._machine = machine
        self._log = log
        self._timers = timers
        self._replayer = ImageReplayer()
        self._fingerprint = 0
        self._images: deque[ClusterImage] = deque(maxlen=KEPT_IMAGES)
        """The latest ones that end where a batch of the log does."""
        self._steps: Iterator[None] | None = None

    # What the log tells

    def load_snapshot(self, snapshot: SnapshotId, image: ClusterImage) -> None:
        """The state begins anew with this image."""
        invariants = self._machine.world.invariants
        invariants.snapshot_seen(self._machine, snapshot, _fingerprint_of(image))
        self._fingerprint = invariants.applied_at(self._machine, snapshot.end_offset)
        self._replayer = ImageReplayer(image)
        self._images.clear()

    def commit(self, batch: MetadataBatch) -> None:
        """The next records are committed."""
        for index, record in enumerate(batch.records):
            if isinstance(record, ConfigRecord):
                value = int(record.value or 0)
                self._fingerprint = hash((self._fingerprint, batch.base_offset + index, value))
        self._replayer.replay_batch(batch)
        self._machine.world.invariants.applied(self._machine, batch.last_offset + 1, self._fingerprint)
        if not self._log.is_within_batch:
            self._images.append(self._replayer.image)

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Who leads says nothing to this state."""

    # What it does by itself

    def append(self, number: int, *, is_news: bool) -> None:
        """One to three records, if this replica leads."""
        records: list[Message] = [NoOpRecord()]
        if is_news:
            records = [
                ConfigRecord(
                    resource_type=BROKER_RESOURCE,
                    resource_name="",
                    name=f"key{(number + each) % KEYS}",
                    value=str(number),
                )
                for each in range(1 + number % 3)
            ]
        try:
            self._log.append(self._log.leader.epoch, records)
        except NotLeader:
            return

    def take_snapshot(self, back: int) -> bool:
        """Of the state as it was some batches ago; whether one is begun."""
        newest = self._log.latest_snapshot()
        if self._steps is not None or self._log.is_writing_snapshot or back >= len(self._images):
            return False
        image = self._images[-1 - back]
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        if newest is not None and snapshot <= newest:
            return False
        self._machine.world.invariants.snapshot_seen(self._machine, snapshot, _fingerprint_of(image))
        self._steps = self._log.snapshot_steps(image)
        self._timers.call_soon(self._step)
        return True

    def _step(self) -> None:
        for _ in self._steps or ():
            self._timers.call_soon(self._step)
            return
        self._steps = None


def _fingerprint_of(image: ClusterImage) -> int:
    values = record_values(list(image_records(image)), image.features.metadata_version)
    return crc32(b"".join(values))
