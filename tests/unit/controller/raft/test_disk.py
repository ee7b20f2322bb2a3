"""What the disk refuses the quorum is one sentence, whichever call it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.raft.disk import ReplicaDisk
from controller.raft.identity import SnapshotId
from controller.raft.log_failure import MetadataLogFailed
from storage.errors import LogStorageError
from tests.support.replica_rig import ReplicaWorld

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
