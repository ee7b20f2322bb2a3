"""Logs that move to another directory while they serve."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from storage.checkpoints import encode_offsets, read_offsets
from storage.errors import AppendRefused
from storage.faulty_files import Fault, FaultyFiles
from storage.jobs import DirectWorkers, Job, JobFailed
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from storage.replica_directory_moves import MOVES_AT_ONCE
from storage.truncation_markers import TruncationMarker, read_truncation_marker
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, client_batch, everything
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce

KEY = ("t", 0)
CONFIG = LogConfig(segment_bytes=5_000, index_interval_bytes=300, file_delete_delay_ms=1_000)


class LaterWorkers(DirectWorkers):
    """Orders wait until the test lets them be done."""

    def __init__(self, files: FaultyFiles) -> None:
        super().__init__(files)
        self.waiting: list[Callable[[], None]] = []
        self.rates: list[float] = []

    def submit(
        self,
        job: Job[Any, Any],
        plan: Any,
        done: Callable[[Any], None],
        *,
        bytes_per_second: float = 0,
    ) -> None:
        self.rates.append(bytes_per_second)
        self.waiting.append(lambda: done(self._run(job, plan)))

    def work(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


class World:
    """A log of some segments in /a; /b is empty."""

    def __init__(self) -> None:
        self.memory = MemoryFiles()
        self.files = FaultyFiles(self.memory)
        self.clock = ManualClock(NOW_MS)
        self.workers = LaterWorkers(self.files)
        self.moved: list[tuple[str, int]] = []
        self.manager = self.started()
        self.log = self.manager.create(*KEY, TOPIC_ID, CONFIG)
        self.sequence = 0
        self.append(30)

    def started(self) -> LogManager:
        manager = LogManager(
            self.files, ["/a", "/b"], clock=self.clock, random_source=NoRandomSource(), offload=RunsAtOnce(),
            workers=self.workers, default_config=CONFIG,
        )  # fmt: skip
        manager.start()
        manager.moves.on_moved = self.moved.append
        return manager

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            batch = client_batch(bytes(400), producer=(7, 0, self.sequence))
            self.log.append_as_leader(batch, leader_epoch=3, now_ms=NOW_MS)
            self.sequence += 1
        self.log.update_high_watermark(self.log.log_end_offset)

    def begin(self) -> None:
        self.manager.moves.begin(KEY, self.manager.directories[1])

    def work(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            self.workers.work()
            self.clock.now_ms += 1_000
            self.manager.housekeeping()

    def home(self) -> str:
        directory = self.manager.directory_of(*KEY)
        return "" if directory is None else directory.path

    def names(self, path: str) -> list[str]:
        return [name for name in self.memory.listdir(path) if name.startswith("t-0")]


def check(log: PartitionLog, content: bytes) -> None:
    assert everything(log) == content
    for offset in range(log.log_start_offset, log.log_end_offset, 7):
        found = log.read(offset, max_bytes=1_000_000)
        assert found is not None
        assert found.base_offset == offset


def test_a_log_moves_with_all_that_it_is() -> None:
    world = World()
    log = world.log
    slice_before = log.read(0, max_bytes=400)
    assert slice_before is not None
    slice_before.retain()
    bytes_before = slice_before.read()
    world.begin()
    world.append(12)
    assert len(world.workers.waiting) == 1
    assert world.names("/b") == []
    world.work()
    assert world.manager.moves.get(KEY) is None
    assert (world.home(), log.directory, world.moved) == ("/b", "/b/t-0", [KEY])
    content = everything(log)
    assert log.log_end_offset == log.high_watermark == 42
    world.append(12)
    check(log, content + everything(log)[len(content) :])
    with pytest.raises(AppendRefused):
        log.append_as_leader(client_batch(b"x", producer=(7, 0, 99)), leader_epoch=3, now_ms=NOW_MS)
    assert slice_before.read() == bytes_before, "a reader goes on with the old file"
    slice_before.release()
    world.work()
    assert world.names("/a") == [], "the old directory is removed after file.delete.delay.ms"
    content = everything(log)
    world.manager.shut_down()
    world.manager = world.started()
    assert world.home() == "/b"
    world.log = world.manager.logs[KEY]
    check(world.log, content)
    world.append(1)


def test_what_the_checkpoints_over_there_say_of_an_earlier_stay_is_not_believed() -> None:
    world = World()
    checkpoint = "/b/recovery-point-offset-checkpoint"
    world.manager.shut_down()
    world.memory.write_atomically(checkpoint, encode_offsets({KEY: 1000}))
    world.manager = world.started()
    world.log = world.manager.logs[KEY]
    world.begin()
    world.work(1)
    while world.home() == "/a":
        world.workers.work()
    synced = world.log.recovery_point
    assert read_truncation_marker(world.memory, "/b/t-0") == TruncationMarker(synced, 0)
    world.append(1)  # of two directories the longer is taken
    world.memory.kill_process()
    world.manager = world.started()
    assert world.manager.logs[KEY].recovery_point <= synced
    for _ in range(2):  # the sync, and then the checkpoints
        world.clock.now_ms += 60_000
        world.work()
    assert read_truncation_marker(world.memory, "/b/t-0") is None
    assert read_offsets(world.memory, checkpoint)[KEY] <= 31


def test_a_crash_right_after_the_move_loses_nothing() -> None:
    world = World()
    world.begin()
    world.append(3)
    world.workers.work()
    world.workers.work()
    assert world.home() == "/b"
    assert world.log.recovery_point <= 33
    world.append(3)
    content = everything(world.log)
    world.memory.kill_process()
    world.manager = world.started()
    assert world.home() == "/b"
    check(world.manager.logs[KEY], content)
    assert world.manager.logs[KEY].topic_id == TOPIC_ID


def just_moved() -> tuple[World, bytes]:
    """A log that has moved a moment ago, with its content. Nothing has been synced since, and all was
    before."""
    world = World()
    world.log.flush()
    world.work(1)
    world.begin()
    world.workers.work()
    assert world.home() == "/b"
    return world, everything(world.log)


def test_the_old_directory_is_there_until_the_new_one_is_on_the_disk() -> None:
    """Each directory may be a disk of its own, which keeps its names for itself."""
    world, content = just_moved()
    world.memory.fsync_directory("/a")
    world.memory.cut_power(keep_names=False)
    world.manager = world.started()
    check(world.manager.logs[KEY], content)


def test_the_old_directory_goes_when_the_new_one_is_on_the_disk() -> None:
    world, content = just_moved()
    assert world.names("/a") == ["t-0"]
    world.files.faults = [Fault("fsync_directory", path_part="/b", error=errno.EMFILE)]
    world.work(2)
    assert world.names("/a") == ["t-0"]
    world.log.flush()
    world.work(2)
    assert world.names("/a")[0].endswith("-delete")
    world.memory.fsync_directory("/a")
    world.memory.cut_power(keep_names=False)
    world.manager = world.started()
    assert world.home() == "/b"
    check(world.manager.logs[KEY], content)


def test_a_sync_from_before_the_move_says_nothing_of_the_new_directory() -> None:
    world = World()
    world.begin()
    old = world.log.durability.plan_sync(world.log.log_end_offset)
    world.workers.work()
    assert world.home() == "/b"
    old.call()
    old.done()
    world.manager.moves.run()
    assert world.names("/a") == ["t-0"]


def test_a_clean_end_right_after_the_move() -> None:
    world, content = just_moved()
    world.manager.shut_down()
    world.manager = world.started()
    assert world.home() == "/b"
    check(world.manager.logs[KEY], content)
    world.work(1)
    assert world.names("/a") == []


def test_a_log_that_is_deleted_right_after_its_move_leaves_nothing_to_its_successor() -> None:
    world, _ = just_moved()
    world.manager.delete_async(*KEY)
    world.manager.prefer(*KEY, world.manager.directories[0])
    log = world.manager.create(*KEY, bytes(range(1, 17)), CONFIG)
    assert (world.home(), log.log_end_offset) == ("/a", 0)
    world.work()
    assert (world.names("/a"), world.names("/b")) == (["t-0"], [])


def test_a_log_that_moves_back_waits_until_its_old_directory_has_gone() -> None:
    world, content = just_moved()
    world.manager.moves.begin(KEY, world.manager.directories[0])
    world.workers.work()
    assert world.home() == "/b"
    world.work()
    assert world.home() == "/a"
    check(world.log, content)


def test_a_new_directory_that_fails_at_once_leaves_the_old_one_to_the_operator() -> None:
    """It would be taken for the log by a start without the new one, and what came since would be lost."""
    world, _ = just_moved()
    world.append(1)
    world.files.faults = [Fault("fsync_directory", path_part="/b", error=errno.EIO, count=100)]
    world.work(2)
    assert KEY in world.manager.offline
    assert [name.rpartition("-")[2] for name in world.names("/a")] == ["stray"]


def test_an_old_directory_that_fails_is_left_alone() -> None:
    world, content = just_moved()
    world.manager.suspect("/a/t-0", OSError(errno.EIO, "broken"))
    world.work(2)
    assert (world.home(), world.names("/a")) == ("/b", ["t-0"])
    check(world.log, content)


def test_the_lag_and_the_size_of_the_copy_are_known() -> None:
    world = World()
    world.manager.moves.bytes_per_second = 1
    for _ in range(5):
        world.append(30)
    world.begin()
    move = world.manager.moves.get(KEY)
    assert move is not None
    assert (move.size_bytes, move.end_offset) == (0, 0)
    assert world.workers.rates == [1]
    world.workers.work()
    assert move.size_bytes == 64 * 1024, "a part at a time where the rate is low"
    assert 130 <= move.end_offset <= 150
    world.work()
    assert world.home() == "/b"


def test_retention_goes_on_meanwhile() -> None:
    world = World()
    world.begin()
    world.log.update_config(LogConfig(segment_bytes=5_000, index_interval_bytes=300, retention_bytes=6_000))
    world.manager.apply_retention()
    assert world.log.log_start_offset > 0
    content = everything(world.log)
    world.work()
    assert world.home() == "/b"
    check(world.log, content)
    logs = [name for name in world.memory.listdir("/b/t-0") if name.endswith(".log")]
    assert len(logs) == len(world.log.segments)


def test_a_cut_log_begins_anew() -> None:
    world = World()
    world.begin()
    first = world.manager.moves.get(KEY)
    world.log.truncate_to(10, now_ms=NOW_MS)
    for _ in range(5):
        world.log.append_as_leader(client_batch(b"other history"), leader_epoch=4, now_ms=NOW_MS)
    world.log.update_high_watermark(world.log.log_end_offset)
    content = everything(world.log)
    world.work()
    assert world.manager.moves.get(KEY) is not first
    world.work()
    assert world.home() == "/b"
    check(world.log, content)
    assert world.names("/b") == ["t-0"], "the first copy was removed"


def test_a_move_is_taken_back() -> None:
    world = World()
    world.begin()
    world.manager.moves.begin(KEY, world.manager.directories[0])
    assert world.manager.moves.get(KEY) is None
    world.work()
    assert (world.home(), world.names("/b")) == ("/a", [])
    world.append(1)


def test_a_copy_that_was_given_up_counts_until_its_worker_is_done() -> None:
    world = World()
    for _ in range(5):
        world.begin()
        world.manager.moves.stop(KEY, "the client thinks again")
    world.begin()
    assert len(world.workers.waiting) == MOVES_AT_ONCE
    world.work(8)
    assert world.home() == "/b"


def test_a_log_that_is_deleted_takes_its_copy_along() -> None:
    world = World()
    world.begin()
    world.manager.delete_async(*KEY)
    world.work()
    assert world.manager.moves.get(KEY) is None
    assert (world.names("/a"), world.names("/b")) == ([], [])


def test_a_target_that_fails_leaves_the_log_where_it_is() -> None:
    world = World()
    world.begin()
    world.files.faults = [Fault("write", count=10**9, path_part="/b/")]
    world.work()
    assert world.manager.moves.get(KEY) is None
    assert (world.home(), world.log.directory) == ("/a", "/a/t-0")
    world.append(1)


def test_the_last_step_may_fail_too() -> None:
    world = World()
    world.begin()
    world.files.faults = [Fault("rename", path_part="-future")]
    content = everything(world.log)
    world.work()
    assert (world.home(), world.names("/b")) == ("/a", [])
    check(world.log, content)
    world.append(1)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_target_without_space_for_the_last_index_leaves_the_log_where_it_is(suffix: str) -> None:
    world = World()
    world.begin()
    name = f"{world.log.active.base_offset:020d}.{suffix}"
    world.files.faults = [Fault("write", path_part=name, error=errno.ENOSPC)]
    content = everything(world.log)
    world.work()
    assert world.files.faults[0].hits == 1
    assert (world.home(), world.names("/b"), world.manager.offline) == ("/a", [], {})
    check(world.log, content)
    world.append(3)
    content = everything(world.log)
    world.begin()
    world.work()
    assert world.home() == "/b"
    check(world.log, content)
    world.append(30)
    check(world.log, everything(world.log))


def test_a_log_that_is_not_wholly_over_there_is_left_to_the_next_start() -> None:
    world = World()
    world.manager.shut_down()
    world.memory.write_atomically("/b/recovery-point-offset-checkpoint", encode_offsets({KEY: 1000}))
    world.manager = world.started()
    world.log = world.manager.logs[KEY]
    content = everything(world.log)
    world.files.faults = [Fault("write", path_part="cut-below-checkpoint", error=errno.ENOSPC)]
    world.begin()
    world.work()
    assert world.files.faults[0].hits == 1
    assert world.manager.is_lost(*KEY)
    world.manager.shut_down()
    assert not world.memory.exists("/b/.kafka_cleanshutdown")
    world.manager = world.started()
    assert not world.manager.is_lost(*KEY)
    check(world.manager.logs[KEY], content)


def test_a_start_goes_on_with_a_move() -> None:
    world = World()
    world.begin()
    world.manager.moves.bytes_per_second = 1
    world.append(200)
    world.workers.work()
    assert len(world.names("/b")) == 1
    content = everything(world.log)
    world.memory.kill_process()
    world.workers.waiting.clear()
    world.manager = world.started()
    world.log = world.manager.logs[KEY]
    assert world.home() == "/a"
    world.work(8)
    assert world.home() == "/b"
    check(world.log, content)


def test_a_worker_that_dies_ends_the_move() -> None:
    world = World()
    world.begin()
    world.workers._run = lambda job, plan: JobFailed("killed")  # type: ignore[method-assign]
    world.work()
    assert world.manager.moves.get(KEY) is None
    assert world.home() == "/a"


def test_a_log_that_moves_is_not_compacted() -> None:
    world = World()
    world.log.update_config(LogConfig(segment_bytes=5_000, compact=True, min_cleanable_dirty_ratio=0.0))
    world.begin()
    world.manager.cleaner.look()
    assert not world.manager.cleaner.is_cleaning(KEY)
