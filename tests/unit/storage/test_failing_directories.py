"""A disk that breaks costs its own directory, and nothing else."""

from __future__ import annotations

import errno

import pytest

from storage.directories import DirectoryRefused, FailedDirectory
from storage.errors import LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.hosted_logs import Key
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, client_batch
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce


class World:
    """Two directories with two logs each, and who is told of failures."""

    def __init__(self) -> None:
        self.memory = MemoryFiles()
        self.files = FaultyFiles(self.memory)
        self.clock = ManualClock(NOW_MS)
        self.offline: list[Key] = []
        self.failed: list[tuple[FailedDirectory, list[Key]]] = []
        self.manager = self.started()
        for partition in range(4):
            self.manager.create("t", partition, TOPIC_ID, LogConfig())

    def started(self, required: str | None = None) -> LogManager:
        manager = LogManager(
            self.files, ["/a", "/b"], clock=self.clock, random_source=NoRandomSource(), offload=RunsAtOnce(),
            required_directory=required,
        )  # fmt: skip
        manager.watch(
            lambda key, _reason: self.offline.append(key),
            lambda directory, keys: self.failed.append((directory, keys)),
        )
        manager.start()
        return manager

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now_ms += 1000
            self.manager.housekeeping()

    def append(self, partition: int) -> None:
        log = self.manager.logs["t", partition]
        log.append_as_leader(client_batch(b"value"), leader_epoch=0, now_ms=NOW_MS)

    def expect_a_offline(self) -> None:
        assert self.offline == [("t", 0), ("t", 2)]
        ((failed, keys),) = self.failed
        assert (failed.path, keys) == ("/a", [("t", 0), ("t", 2)])
        assert sorted(self.manager.logs) == [("t", 1), ("t", 3)]
        assert [each.path for each in self.manager.directories] == ["/b"]
        assert "log directory /a has failed" in self.manager.offline["t", 0]
        with pytest.raises(LogStorageError, match="there and cannot be used"):
            self.manager.create("t", 0, TOPIC_ID, LogConfig())
        self.append(1)
        self.manager.create("new", 0, TOPIC_ID, LogConfig())
        home = self.manager.directory_of("new", 0)
        assert home is not None
        assert home.path == "/b"
        self.pass_seconds(70)
        self.manager.shut_down()
        assert self.memory.exists("/b/.kafka_cleanshutdown")
        assert not self.memory.exists("/a/.kafka_cleanshutdown")


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS, errno.ENODEV])
def test_an_append_that_meets_a_broken_disk(error: int) -> None:
    world = World()
    world.files.faults = [Fault("write", count=10**9, path_part="/a/", error=error)]
    with pytest.raises(LogStorageError) as met:
        world.append(2)
    world.manager.suspect("/a/t-2", met.value.__cause__)
    assert world.failed == [], "nothing changes in the middle of a request"
    world.pass_seconds(1)
    world.expect_a_offline()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EFBIG])
def test_what_passes_by_itself_is_no_broken_disk(error: int) -> None:
    world = World()
    world.files.faults = [Fault("write", path_part="/a/", error=error)]
    with pytest.raises(LogStorageError) as met:
        world.append(2)
    world.manager.suspect("/a/t-2", met.value.__cause__)
    world.pass_seconds(10)
    assert world.failed == []
    world.append(2)


def test_a_checkpoint_that_cannot_be_written() -> None:
    world = World()
    world.append(0)
    world.files.faults = [Fault("write_atomically", count=10**9, path_part="/a/replication")]
    world.pass_seconds(6)
    world.expect_a_offline()


def test_a_directory_that_is_gone_is_noticed_without_any_request() -> None:
    world = World()
    world.memory.rename("/a", "/elsewhere")
    world.pass_seconds(6)
    world.expect_a_offline()


def test_a_partition_s_directory_that_is_gone_is_not_the_disk() -> None:
    world = World()
    world.memory.rmtree("/a/t-0")
    world.manager.logs["t", 0].flush()
    world.pass_seconds(10)
    assert world.failed == []
    world.append(2)


def test_a_new_log_that_cannot_be_made() -> None:
    world = World()
    world.files.faults = [Fault("makedirs", count=10**9, path_part="/a/")]
    with pytest.raises(OSError, match="Input/output"):
        world.manager.create("new", 0, TOPIC_ID, LogConfig())
    world.pass_seconds(1)
    world.offline = [("t", 0), ("t", 2)]
    assert [each.path for each in world.manager.directories] == ["/b"]
    world.manager.create("new", 0, TOPIC_ID, LogConfig())


COMPACTED = LogConfig(compact=True, delete=False, segment_bytes=2000, min_cleanable_dirty_ratio=0.01)


@pytest.mark.parametrize(("error", "breaks_disk"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_compaction_that_fails_half_way_costs_its_log_or_the_directory(
    error: int, breaks_disk: bool
) -> None:
    world = World()
    log = world.manager.create("c", 0, TOPIC_ID, COMPACTED)
    for number in range(40):
        batch = client_batch(bytes(200), key=b"key%d" % (number % 3))
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    world.files.faults = [Fault("rename", path_part=".index.cleaned", error=error)]
    world.pass_seconds(40)
    assert world.files.faults[0].hits == 1
    assert world.offline[0] == ("c", 0)
    assert [failed.path for failed, _ in world.failed] == (["/a"] if breaks_disk else [])
    assert world.manager.is_lost("c", 0) is not breaks_disk
    assert not world.manager.is_lost("t", 0)
    world.manager.shut_down()
    assert not world.memory.exists("/a/.kafka_cleanshutdown"), "the next start reads the log"
    manager = world.started()
    assert manager.logs["c", 0].log_end_offset == 40
    assert not manager.is_lost("c", 0)


def test_a_start_with_a_directory_that_does_not_work() -> None:
    world = World()
    world.manager.shut_down()
    world.files.faults = [Fault("lock", count=10**9, path_part="/a/", error=errno.EROFS)]
    manager = world.started()
    assert [each.path for each in manager.failed_directories] == ["/a"]
    assert sorted(manager.logs) == [("t", 1), ("t", 3)]
    manager.shut_down()
    with pytest.raises(DirectoryRefused, match=r"I/O error in metadata log directory /a\. Cannot continue"):
        world.started(required="/a")
    world.files.faults.append(Fault("lock", count=10**9, path_part="/b/", error=errno.EIO))
    with pytest.raises(DirectoryRefused, match="None of the specified log dirs from /a, /b can be used"):
        world.started()
    world.files.faults = []
    assert len(world.started().logs) == 4
