"""A start after a crash with more to read than the broker reads itself: workers do it, and it is as if the
broker had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storage.checkpoints import read_offsets
from storage.jobs import DirectWorkers, Job, JobFailed
from storage.log_config import LogConfig
from storage.log_loading import RecoverySettings
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from storage.recovery import OnDamage
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, client_batch, everything, leader_batch
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce

LOGS = 5
BATCH_BYTES = 500_000


class CountingWorkers(DirectWorkers):
    """Says what it was asked for; may fail."""

    def __init__(self, files: MemoryFiles, *, fails: bool = False) -> None:
        super().__init__(files)
        self.fails = fails
        self.plans: list[list[str]] = []
        self.at_once = 0

    def run_all(
        self, job: Job[Any, Any], plans: list[Any], at_once: int, tell: Callable[[str], None]
    ) -> list[Any]:
        self.plans += [[log.directory for log in plan.logs] for plan in plans]
        self.at_once = at_once
        if self.fails:
            return [JobFailed("killed") for _ in plans]
        return super().run_all(job, plans, at_once, tell)


class Crashed:
    """Two directories with five logs of 2 MB; the process has died."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.told: list[str] = []
        self.workers = CountingWorkers(self.files)
        manager = self.started()
        for partition in range(LOGS):
            log = manager.create("t", partition, TOPIC_ID, LogConfig())
            for sequence in range(4):
                batch = client_batch(bytes(BATCH_BYTES), producer=(7, 0, sequence))
                log.append_as_leader(batch, leader_epoch=2, now_ms=NOW_MS)
        self.content = {key: everything(log) for key, log in manager.logs.items()}
        self.files.kill_process()

    def started(self, on_damage: OnDamage = OnDamage.REFUSE) -> LogManager:
        manager = LogManager(
            self.files, ["/a", "/b"], clock=ManualClock(NOW_MS), random_source=NoRandomSource(),
            offload=RunsAtOnce(), workers=self.workers, recovery=RecoverySettings(threads_per_directory=2,
            on_damage=on_damage), tell=self.told.append,
        )  # fmt: skip
        self.report = manager.start()
        return manager

    def path_of(self, partition: int) -> str:
        return f"/{'ab'[partition % 2]}/t-{partition}/00000000000000000000.log"

    def flip(self, partition: int, position: int) -> None:
        file = self.files.open(self.path_of(partition), write=True)
        file.write([bytes([file.pread(1, position)[0] ^ 0x10])], position)


def last_sequences(log: PartitionLog) -> list[int]:
    entry = log.producer_state.get(7)
    return [] if entry is None else [batch.last_sequence for batch in entry.batches]


@pytest.mark.parametrize("fails", [False, True])
def test_workers_find_what_the_broker_would(fails: bool) -> None:
    crashed = Crashed()
    crashed.workers.fails = fails
    manager = crashed.started()
    asked = sorted(directory for plan in crashed.workers.plans for directory in plan)
    assert asked == ["/a/t-0", "/a/t-2", "/a/t-4", "/b/t-1", "/b/t-3"]
    assert crashed.workers.at_once == min(4, len(crashed.workers.plans))
    assert crashed.report.logs == crashed.report.scanned_segments == LOGS
    assert crashed.report.problems == []
    for key, log in manager.logs.items():
        assert everything(log) == crashed.content[key]
        assert (log.log_end_offset, log.recovery_point) == (4, 0)
        assert last_sequences(log) == [0, 1, 2, 3], "all that a repeated batch may be compared with"
        assert log.leader_epochs.entries() == [(2, 0)]
    if not fails:
        assert "Recovering 5 logs that were not closed in order: 9 MiB to read" in crashed.told[0]
        assert "Recovered 9 MiB" in crashed.told[1]
    manager.shut_down()
    assert crashed.started().logs["t", 0].log_end_offset == 4
    assert crashed.report.scanned_segments == 0


def test_a_torn_tail_is_cut_by_a_worker() -> None:
    crashed = Crashed()
    file = crashed.files.open(crashed.path_of(3), write=True)
    file.write([leader_batch(4, b"not whole")[:-1]], file.size())
    manager = crashed.started()
    assert everything(manager.logs["t", 3]) == crashed.content["t", 3]
    assert crashed.report.cut_bytes == 76
    assert "cut at byte" in crashed.report.problems[0]


def test_a_damaged_log_is_offline_alone_until_it_is_repaired() -> None:
    crashed = Crashed()
    crashed.files.write_atomically("/b/log-start-offset-checkpoint", b"0\n2\nt 1 1\nt 3 1\n")
    crashed.flip(1, BATCH_BYTES + 5_000)
    for _ in range(2):
        manager = crashed.started()
        assert sorted(manager.logs) == [("t", 0), ("t", 2), ("t", 3), ("t", 4)]
        (reason,) = manager.offline.values()
        assert f"{crashed.path_of(1)} is damaged: no valid record batch at byte" in reason
        assert "where offset 1 should be" in reason
        assert "barnabas log repair /b/t-1" in reason
        assert any(reason in problem for problem in crashed.report.problems)
        manager.shut_down()
        assert crashed.files.exists("/a/.kafka_cleanshutdown")
        assert not crashed.files.exists("/b/.kafka_cleanshutdown"), "the next start must look at it too"
        assert read_offsets(crashed.files, "/b/log-start-offset-checkpoint") == {("t", 1): 1, ("t", 3): 1}
    manager = crashed.started(OnDamage.TRUNCATE)
    assert manager.logs["t", 1].log_end_offset == 1
    assert manager.offline == {}
    assert manager.logs["t", 3].log_end_offset == 4


def test_of_a_log_in_two_directories_the_longer_one_is_used() -> None:
    """As a crash in the middle of a move's last step leaves it."""
    crashed = Crashed()
    manager = crashed.started()
    manager.shut_down()
    crashed.files.makedirs("/b/t-0")
    for name in crashed.files.listdir("/a/t-0"):
        crashed.files.write_atomically(f"/b/t-0/{name}", crashed.files.read_bytes(f"/a/t-0/{name}"))
    manager = crashed.started()
    home = manager.directory_of("t", 0)
    assert home is not None
    assert home.path == "/a"
    assert "is in /a/t-0 and in /b/t-0" in crashed.report.problems[0]
    manager.logs["t", 0].append_as_leader(client_batch(b"more"), leader_epoch=2, now_ms=NOW_MS)
    manager.shut_down()
    aside = [name for name in crashed.files.listdir("/b") if name.startswith("t-0.")]
    assert len(aside) == 1
    assert aside[0].endswith("-stray")
    crashed.files.rename("/a/t-0", "/b/t-0")
    crashed.files.rename(f"/b/{aside[0]}", "/a/t-0")
    manager = crashed.started()
    home = manager.directory_of("t", 0)
    assert home is not None
    assert (home.path, manager.logs["t", 0].log_end_offset) == ("/b", 5)


def test_of_a_log_in_two_directories_the_one_of_a_later_epoch_is_used() -> None:
    """As where a directory comes back that was given up, and its log copied anew from another leader."""
    crashed = Crashed()
    crashed.started().shut_down()
    copied = {name: crashed.files.read_bytes(f"/a/t-0/{name}") for name in crashed.files.listdir("/a/t-0")}
    manager = crashed.started()
    for _ in range(3):
        manager.logs["t", 0].append_as_leader(client_batch(b"cut"), leader_epoch=2, now_ms=NOW_MS)
    manager.shut_down()
    crashed.files.rename("/a/t-0", "/kept")
    crashed.files.makedirs("/b/t-0")
    for name, content in copied.items():
        crashed.files.write_atomically(f"/b/t-0/{name}", content)
    manager = crashed.started()
    manager.logs["t", 0].append_as_leader(client_batch(b"new"), leader_epoch=3, now_ms=NOW_MS)
    manager.shut_down()
    crashed.files.rename("/kept", "/a/t-0")
    manager = crashed.started()
    home = manager.directory_of("t", 0)
    assert home is not None
    assert (home.path, manager.logs["t", 0].log_end_offset) == ("/b", 5)
