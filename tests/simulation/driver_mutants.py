"""Faults of the driver and the disk code, made on purpose: what a run with `--real-driver` must notice.

As in `mutants`, each replaces a function of the product by one that breaks a rule, and is caught if a run
under some seed ends with one of the rules that it is said to break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from broker.simulation.quorum import driver_machine
from broker.simulation.quorum.watched_disk import WatchedReplicaDisk
from config.ports import Files
from controller.metadata import log_opening, replicated_log, snapshots
from controller.metadata.image.cluster_image import EMPTY_IMAGE
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.raft import disk as disk_module
from controller.raft.disk import ReplicaDisk
from controller.raft.driver import RaftDriver
from controller.raft.effects import Ready
from controller.raft.quorum_state import QUORUM_STATE_FILE, QuorumStateFile, encode
from controller.raft.snapshot_directory import SnapshotDirectory
from storage.partition_log import PartitionLog
from tests.simulation.mutants import Mutant, Patch

__all__ = ["DRIVER_MUTANTS"]


def _answers_before_the_sync(patch: Patch) -> None:
    genuine = ReplicaDisk.sync

    def sync(self: ReplicaDisk, number: int) -> None:
        self.on_synced(number)
        genuine(self, number)

    patch.setattr(ReplicaDisk, "sync", sync)


def _counts_writes_during_a_sync(patch: Patch) -> None:
    """As if the sync that runs had seen what was written since it began."""

    def end_sync(self: ReplicaDisk, number: int) -> None:
        self._running_sync = 0
        self.on_synced(max(number, self._asked_sync))

    patch.setattr(ReplicaDisk, "_end_sync", end_sync)


def _writes_quorum_state_without_a_sync(patch: Patch) -> None:
    def write(files: Files, directory: str, state: QuorumStateFile) -> None:
        file = files.open(f"{directory}/{QUORUM_STATE_FILE}", create=True)
        file.truncate(0)
        file.write([encode(state)], 0)
        file.close()

    patch.setattr(disk_module, "write_quorum_state", write)


def _sends_before_quorum_state_is_written(patch: Patch) -> None:
    genuine = RaftDriver._execute

    def execute(self: RaftDriver, ready: Ready) -> None:
        if ready.hard_state is not None:
            voters = list(self.node.voters.by_id)
            self._disk.persist(ready.hard_state, self.node.kraft_version, voters, lambda: None)
            ready.hard_state = None
        genuine(self, ready)

    patch.setattr(RaftDriver, "_execute", execute)


def _goes_on_during_a_truncation(patch: Patch) -> None:
    genuine = WatchedReplicaDisk.truncate

    def truncate(self: WatchedReplicaDisk, offset: int, done: Callable[[], None]) -> None:
        genuine(self, offset, lambda: None)
        done()

    patch.setattr(WatchedReplicaDisk, "truncate", truncate)


def _loses_the_last_batch_at_the_start(patch: Patch) -> None:
    genuine = log_opening.open_metadata_log

    def open_log(*arguments: Any) -> PartitionLog:
        log = genuine(*arguments)
        log.truncate_to(max(log.log_start_offset, log.log_end_offset - 1), now_ms=0)
        return log

    patch.setattr(driver_machine, "open_metadata_log", open_log)


def _believes_what_it_finds(patch: Patch) -> None:
    """At the start nothing is synced: what a killed process has written may be in the page cache alone."""
    patch.setattr(ReplicaDisk, "sync_now", lambda self: None)


def _reads_an_empty_image(patch: Patch) -> None:
    genuine = snapshots.read_image

    def read_image(*arguments: Any) -> Any:
        image = genuine(*arguments)
        return msgspec.structs.replace(
            EMPTY_IMAGE, offset=image.offset, epoch=image.epoch, timestamp_ms=image.timestamp_ms
        )

    patch.setattr(replicated_log, "read_image", read_image)


def _cleans_up_without_the_node(patch: Patch) -> None:
    """The log begins at a snapshot as soon as its file is there, whether the node was told of it or not."""

    def clean_up(self: ReplicatedMetadataLog, now_ms: int) -> Ready:
        disk, node = self._disk, self._node
        offset = disk.snapshot_directory.new_log_start(disk.log.size_bytes, self._clock.wall_ms())
        if offset is None or offset <= self.log_start_offset:
            return node.tick(now_ms)
        snapshot = next(each for each in disk.snapshots() if each.end_offset == offset)
        self._driver.feed(self._clean_up)
        return node.advance_log_start(snapshot, now_ms)

    patch.setattr(ReplicatedMetadataLog, "_clean_up", clean_up)


def _gives_up_the_snapshot_at_the_start(patch: Patch) -> None:
    """The snapshot goes at which the log is about to begin, with those before it. What the log still holds
    then counts for nothing: what was before it is gone."""
    genuine = SnapshotDirectory.forget_before
    patch.setattr(SnapshotDirectory, "forget_before", lambda self, offset: genuine(self, offset + 1))


DRIVER_MUTANTS = (
    Mutant("cleans up without the node", ("the node does not fail",), _cleans_up_without_the_node),
    Mutant(
        "gives up the snapshot at the log's start",
        ("a fetch acknowledges only what is synced", "an acknowledged append lies on a majority's disks"),
        _gives_up_the_snapshot_at_the_start,
    ),
    Mutant(
        "answers before the sync has ended",
        ("a fetch acknowledges only what is synced", "an acknowledged append lies on a majority's disks"),
        _answers_before_the_sync,
    ),
    Mutant(
        "counts what was written during a sync",
        ("a fetch acknowledges only what is synced", "an acknowledged append lies on a majority's disks"),
        _counts_writes_during_a_sync,
    ),
    Mutant(
        "does not sync quorum-state", ("hard state before messages",), _writes_quorum_state_without_a_sync
    ),
    Mutant(
        "sends before quorum-state is written",
        ("hard state before messages", "an input waits until the one before is executed"),
        _sends_before_quorum_state_is_written,
    ),
    Mutant(
        "takes an input during a truncation",
        ("an input waits until the one before is executed",),
        _goes_on_during_a_truncation,
    ),
    Mutant(
        "loses its last batch at the start",
        ("what is synced survives a crash",),
        _loses_the_last_batch_at_the_start,
    ),
    Mutant("syncs nothing at the start", ("what is found at the start is synced",), _believes_what_it_finds),
    Mutant(
        "reads an empty image from a snapshot",
        ("who has applied the same log has the same state",),
        _reads_an_empty_image,
    ),
)
