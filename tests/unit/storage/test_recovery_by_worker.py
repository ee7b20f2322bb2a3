"""What a worker process finds after a crash is all that the broker would have found itself."""

from __future__ import annotations

import pytest

from storage.jobs import NoPace
from storage.loaded_log import RecoveredLog
from storage.log_config import LogConfig
from storage.memory_files import MemoryFiles
from storage.recovery_job import LogToRecover, RecoverPlan, recover
from tests.support.rigs.log_rig import NOW_MS, LogRig, found_since
from tests.support.rigs.transactions import TransactionWriter


def by_worker(rig: LogRig, recovery_point: int) -> RecoveredLog:
    order = LogToRecover(
        directory=rig.directory, recovery_point=recovery_point, log_start_offset=0, cleaned_offset=0,
        unverified_bytes=1,
    )  # fmt: skip
    plan = RecoverPlan(logs=[order], on_damage="refuse", index_interval_bytes=300, now_ms=NOW_MS)
    (found,) = recover(rig.files, NoPace(), plan).logs
    assert not found.failure
    return found


@pytest.mark.parametrize("has_worker", [False, True])
def test_indexes_that_were_made_again_are_synced_before_they_are_believed(has_worker: bool) -> None:
    """The segment ends at the recovery point: its records are on the disk, its new indexes are not yet."""
    memory = MemoryFiles()
    rig = LogRig(memory, LogConfig(index_interval_bytes=300))

    def fill(count: int, first_timestamp: int) -> None:
        for number in range(count):
            rig.append(bytes(200), timestamp=first_timestamp + number)
        rig.commit_all()

    def sync() -> int:
        rig.log.flush()
        rig.run_background_tasks()
        return rig.log.recovery_point

    def start(recovery_point: int) -> None:
        recovered = by_worker(rig, recovery_point) if has_worker else None
        rig.reopen(is_clean=False, recovery_point=recovery_point, recovered=recovered)
        rig.commit_all()

    fill(20, NOW_MS)
    recovery_point = sync()
    assert recovery_point == 20
    rig.log.roll(NOW_MS)
    fill(3, NOW_MS + 1000)
    memory.cut_power()

    start(recovery_point)
    assert rig.log.recovery_point == 0
    fill(3, NOW_MS + 2000)
    recovery_point = sync()
    memory.cut_power()

    start(recovery_point)
    assert rig.log.segments[0].time_index.entries()
    found = found_since(rig.log, NOW_MS + 5)
    assert found is not None
    assert found[1] == 5


@pytest.mark.parametrize("has_worker", [False, True])
def test_aborted_transactions_that_were_found_again_are_synced_before_they_are_believed(
    has_worker: bool,
) -> None:
    memory = MemoryFiles()
    rig = LogRig(memory)
    writer = TransactionWriter(rig.log)
    writer.write(7)
    writer.end(7, commit=False)
    rig.log.roll(NOW_MS)
    rig.append(b"v")
    memory.kill_process()

    recovered = by_worker(rig, 0) if has_worker else None
    log = rig.reopen(is_clean=False, recovered=recovered)
    log.flush()
    rig.run_background_tasks()
    assert log.recovery_point == 3
    memory.cut_power()

    log = rig.reopen(is_clean=False, recovery_point=3)
    rig.commit_all()
    assert TransactionWriter(log).aborted() == [(7, 0)]
