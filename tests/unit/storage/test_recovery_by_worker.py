"""What a worker process finds after a crash is all that the broker would have found itself."""

from __future__ import annotations

import pytest

from storage.chores import Chores
from storage.found_log import RecoveredLog
from storage.jobs import NoPace
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.opening import create_log, open_log
from storage.partition_log import PartitionLog
from storage.recovery_job import LogToRecover, RecoverPlan, recover
from tests.support.log_rig import NOW_MS, TOPIC_ID, client_batch

DIRECTORY = "/data/orders-0"
CONFIG = LogConfig(index_interval_bytes=300)


class World:
    """A log, its disk, and starts after power cuts."""

    def __init__(self, *, by_worker: bool) -> None:
        self.by_worker = by_worker
        self.files = MemoryFiles()
        self.chores = Chores()
        self.log = create_log(
            self.files, DIRECTORY, "orders", 0, TOPIC_ID, CONFIG, self.chores, now_ms=NOW_MS
        )

    def fill(self, count: int, first_timestamp: int) -> None:
        for number in range(count):
            batch = client_batch(bytes(200), timestamp=first_timestamp + number)
            self.log.append(batch, leader_epoch=0, now_ms=first_timestamp + number)
        self.log.update_high_watermark(self.log.log_end_offset)

    def sync(self) -> None:
        self.log.flush()
        self.chores.run_due(NOW_MS)

    def start(self, recovery_point: int) -> PartitionLog:
        self.chores = Chores()
        self.log, _ = open_log(
            self.files,
            DIRECTORY,
            "orders",
            0,
            TOPIC_ID,
            CONFIG,
            self.chores,
            is_clean=False,
            now_ms=NOW_MS,
            recovery_point=recovery_point,
            recovered=self._recovered(recovery_point) if self.by_worker else None,
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        return self.log

    def _recovered(self, recovery_point: int) -> RecoveredLog:
        order = LogToRecover(
            directory=DIRECTORY, recovery_point=recovery_point, log_start_offset=0, unverified_bytes=1
        )
        plan = RecoverPlan(logs=[order], on_damage="refuse", index_interval_bytes=300, now_ms=NOW_MS)
        (found,) = recover(self.files, NoPace(), plan).logs
        assert not found.failure
        return found


@pytest.mark.parametrize("by_worker", [False, True])
def test_indexes_that_were_made_again_are_synced_before_they_are_believed(by_worker: bool) -> None:
    """The segment ends at the recovery point: its records are on the disk, its new indexes are not yet."""
    world = World(by_worker=by_worker)
    world.fill(20, NOW_MS)
    world.sync()
    recovery_point = world.log.recovery_point
    assert recovery_point == 20
    world.log.roll(NOW_MS)
    world.fill(3, NOW_MS + 1000)
    world.files.cut_power()

    assert world.start(recovery_point).recovery_point == 0
    world.fill(3, NOW_MS + 2000)
    world.sync()
    recovery_point = world.log.recovery_point
    world.files.cut_power()

    log = world.start(recovery_point)
    assert log.segments[0].time_index.entries()
    found = log.offset_for_timestamp(NOW_MS + 5)
    assert found is not None
    assert found[1] == 5
