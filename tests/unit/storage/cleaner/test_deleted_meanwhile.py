"""A topic is deleted while it is compacted, and made anew by the same name."""

from __future__ import annotations

import pytest

from storage.faulty_files import FaultyFiles
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from tests.support.rigs.compaction import CompactionRig, HeldWorkers
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, client_batch
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsLater
from tests.unit.storage.test_replica_directory_moves import LaterWorkers

KEY = ("t", 0)
CONFIG = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=300,
    compact=True,
    delete=False,
    file_delete_delay_ms=1000,
    min_cleanable_dirty_ratio=0.01,
)


class World:
    """A log manager whose helper threads and workers do something when they are told."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.files = FaultyFiles(MemoryFiles())
        self.workers = LaterWorkers(self.files)
        self.threads = RunsLater()
        self.manager = LogManager(
            self.files,
            ["/a"],
            clock=self.clock,
            random_source=NoRandomSource(),
            offload=self.threads,
            workers=self.workers,
            default_config=CONFIG,
        )
        self.manager.start()

    def create(self, topic_id: bytes) -> PartitionLog:
        """A log of forty records with three keys, of which most may go."""
        log = self.manager.create(*KEY, topic_id, CONFIG)
        for number in range(40):
            batch = client_batch(b"%d" % number + bytes(200), key=b"key%d" % (number % 3))
            log.append_as_leader(batch, leader_epoch=0, now_ms=self.clock.now_ms)
        log.update_high_watermark(log.log_end_offset)
        return log

    def drain(self) -> None:
        while self.threads.run():
            pass

    def later(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.manager.housekeeping()


@pytest.fixture
def world() -> World:
    """The worker has its order when the topic is deleted, and made anew before the worker answers."""
    made = World()
    made.create(TOPIC_ID)
    made.later(0)
    made.drain()  # the full segments are on the disk
    made.later(16_000)
    assert len(made.workers.waiting) == 1
    made.drain()
    made.manager.delete_async(*KEY)
    return made


def test_the_new_topic_is_compacted_and_loses_nothing(world: World) -> None:
    log = world.create(bytes(16))
    world.drain()
    world.workers.work()  # the pass over the deleted log ends
    world.later(0)
    world.drain()
    world.later(16_000)
    assert len(world.workers.waiting) == 1
    world.workers.work()
    world.drain()
    for _ in range(3):
        world.later(5000)
        world.drain()
    assert world.manager.cleaner.statistics.passes == 1
    for offset in range(log.log_start_offset, log.log_end_offset):
        found = log.read(offset, max_bytes=1_000_000)
        assert found is not None
        assert found.read()


def test_what_was_removed_meanwhile_is_not_swapped_in() -> None:
    """Whoever removes the files before the answer is heard: the row keeps the segments that it has."""
    rig = CompactionRig(held=True)
    for number in range(30):
        rig.put((f"k{number % 3}", f"value {number}"))
    rig.roll_and_clean()
    workers = rig.workers
    assert isinstance(workers, HeldWorkers)
    assert len(workers.waiting) == 1
    for name in rig.file_names():
        if name.endswith(".cleaned"):
            rig.files.unlink(f"{rig.directory}/{name}")
    bases = [segment.base_offset for segment in rig.log.segments]
    workers.waiting.pop()()
    rig.run_background_tasks()
    assert [segment.base_offset for segment in rig.log.segments] == bases
    assert rig.broken == []
    for offset in range(rig.log.log_end_offset):
        found = rig.log.read(offset, max_bytes=1_000_000)
        assert found is not None
        assert found.read()


def test_the_end_of_a_pass_over_a_deleted_log_is_no_failure(world: World) -> None:
    world.drain()
    world.workers.work()
    world.drain()
    assert not world.manager.cleaner.set_aside
