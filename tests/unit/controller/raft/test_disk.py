"""What the disk refuses the quorum is one sentence, whichever call it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.metadata.log_opening import METADATA_LOG, open_metadata_log
from controller.raft.disk import ReplicaDisk
from controller.raft.identity import SnapshotId
from controller.raft.log_failure import MetadataLogFailed
from controller.raft.snapshot_directory import SnapshotDirectory
from protocol.records.builder import SimpleRecord, build_batch
from storage.errors import LogStorageError
from storage.memory_files import MemoryFiles
from tests.support.rigs.controllers import HandOffload
from tests.support.rigs.hand_clock import HandClock
from tests.support.rigs.replica_rig import ReplicaWorld

CALLS: dict[str, Callable[[ReplicaDisk], object]] = {
    "append_as_follower": lambda disk: disk.append(b"records"),
    "truncate_to": lambda disk: disk.truncate(1, lambda: None),
    "truncate_fully_and_start_at": lambda disk: disk.begin_log_behind(SnapshotId(9, 1)),
    "delete_old_segments": lambda disk: disk.advance_start(SnapshotId(1, 1)),
}


@pytest.mark.parametrize("refused", CALLS)
def test_a_log_that_the_disk_refuses(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LogStorageError("no room")

    world = ReplicaWorld(1)
    world.settle()
    disk = world.rigs[1].log._disk
    monkeypatch.setattr(type(disk.log), refused, refuse)
    with pytest.raises(MetadataLogFailed, match=r"metadata-0 cannot be written: no room\. .* Make room"):
        CALLS[refused](disk)


def test_a_fetched_snapshot_that_the_disk_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no room")

    world = ReplicaWorld(1)
    world.settle()
    rig = world.rigs[1]
    monkeypatch.setattr(rig.files, "open", refuse)
    with pytest.raises(MetadataLogFailed, match="no room"):
        rig.log._disk.add_chunk(SnapshotId(9, 1), 0, b"chunk")


def test_what_was_received_of_a_snapshot_is_removed() -> None:
    world = ReplicaWorld(1)
    world.settle()
    disk, snapshot = world.rigs[1].log._disk, SnapshotId(9, 1)
    disk.add_chunk(snapshot, 0, b"chunk")
    assert any(name.endswith(".part") for name in disk.files.listdir(disk.directory))
    for _ in range(2):
        disk.drop_part(snapshot)
        assert not any(name.endswith(".part") for name in disk.files.listdir(disk.directory))


def refuse_to_read(*_: object, **__: object) -> None:
    raise OSError("Input/output error")


def test_a_log_that_cannot_be_read_when_its_records_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ReplicaWorld(1)
    world.settle()
    disk = world.rigs[1].log._disk
    monkeypatch.setattr(type(disk.log), "read", refuse_to_read)
    with pytest.raises(MetadataLogFailed, match=r"metadata-0 cannot be read: Input/output error\. "):
        disk.read_bytes(0, 100)
    with pytest.raises(MetadataLogFailed, match=r"metadata-0 cannot be read: "):
        disk.read(0, 100)


def test_a_snapshot_that_cannot_be_read_when_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ReplicaWorld(1)
    world.settle()
    disk = world.rigs[1].log._disk
    snapshot = SnapshotId(9, 1)
    disk.add_chunk(snapshot, 0, b"chunk")
    monkeypatch.setattr(world.rigs[1].files, "read_bytes", refuse_to_read)
    with pytest.raises(MetadataLogFailed, match=r"metadata-0 cannot be read: Input/output error\. "):
        disk.install(snapshot, lambda _: None)
    with pytest.raises(MetadataLogFailed, match=r"metadata-0 cannot be read: Input/output error\. "):
        world.rigs[1].log._image_of(snapshot)


def test_a_log_that_begins_behind_a_snapshot_has_no_epoch_of_before() -> None:
    """A crash before the checkpoint was written anew leaves the epochs of the log that the snapshot replaced.
    With one of them the replica would ask for a place that its leader does not have, and never catch up."""
    files, clock = MemoryFiles(), HandClock()
    log = open_metadata_log("/data/log", METADATA_LOG, files, clock)
    log.append_as_follower(bytes(build_batch([SimpleRecord(value=b"x")], leader_epoch=1)), now_ms=0)
    log.flush()
    for task in log.background_tasks.take_all():
        task.call()
    log.truncate_fully_and_start_at(32, now_ms=0)
    files.kill_process()
    log = open_metadata_log("/data/log", METADATA_LOG, files, clock)
    offload = HandOffload()
    disk = ReplicaDisk(log, SnapshotDirectory(files, "/data/log", offload), files, clock, offload)
    assert (disk.start_offset, disk.end_offset) == (32, 32)
    assert list(disk.epochs()) == []
