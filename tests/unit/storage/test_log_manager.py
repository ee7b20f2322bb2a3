"""All logs of a node: what a start meets, what housekeeping does beside the loop, what an end leaves."""

from __future__ import annotations

import errno
import logging

import pytest

from config.limits import PREFERRED_DIRECTORIES
from config.ports import Files
from storage import housekeeping
from storage.background_task_lanes import LANES_AT_ONCE
from storage.checkpoints import encode_offsets, read_offsets
from storage.directories import DirectoryRefused
from storage.errors import LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.housekeeping import LOGGED_SEGMENTS_PER_LOOK, LogManagerSettings
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.meta_properties import MetaProperties, encode_meta_properties
from storage.opening import read_partition_metadata
from storage.partition_log import PartitionLog
from tests.support.rigs.log_rig import (
    NOW_MS,
    TOPIC_ID,
    client_batch,
    everything,
    leader_batch,
    offsets_of,
)
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce, RunsLater
from tests.support.rigs.transactions import TransactionWriter

DAY_MS = 86_400_000


class World:
    """Directories, a clock, and one manager after another."""

    def __init__(self, *paths: str, files: Files | None = None) -> None:
        self.memory = MemoryFiles()
        self.files = files or self.memory
        self.paths = list(paths or ("/data",))
        self.clock = ManualClock(NOW_MS)
        self.offload: RunsAtOnce | RunsLater = RunsAtOnce()

    def manager(self, **arguments: object) -> LogManager:
        return LogManager(
            self.files, self.paths, clock=self.clock, random_source=NoRandomSource(), offload=self.offload,
            **arguments,  # type: ignore[arg-type]
        )  # fmt: skip

    def started(self, **arguments: object) -> LogManager:
        manager = self.manager(**arguments)
        self.report = manager.start()
        return manager

    def pass_seconds(self, manager: LogManager, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now_ms += 1000
            manager.housekeeping()


def fill(log: PartitionLog, count: int = 3) -> None:
    for _ in range(count):
        log.append_as_leader(client_batch(b"value"), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def test_a_clean_end_and_a_quick_start() -> None:
    world = World()
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig()))
    manager.create("orders", 1, TOPIC_ID, LogConfig())
    manager.shut_down(broker_epoch=5)
    assert world.memory.read_text("/data/.kafka_cleanshutdown") == '{"version":0,"brokerEpoch":5}'
    assert world.memory.listdir("/data/orders-0") == [
        "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
        "00000000000000000003.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    ]  # fmt: skip
    world.memory.cut_power(keep_names=False)
    manager = world.started()
    assert (world.report.logs, world.report.scanned_segments, world.report.problems) == (2, 0, [])
    assert manager.directories[0].clean_broker_epoch == 5
    assert not world.memory.exists("/data/.kafka_cleanshutdown")
    log = manager.get("orders", 0)
    assert log is not None
    assert (log.topic_id, log.log_end_offset, log.high_watermark, log.recovery_point) == (TOPIC_ID, 3, 3, 3)
    assert len(everything(log)) > 0


def test_indexes_are_synced_before_the_clean_mark_though_all_records_were() -> None:
    world = World()
    world.started().shut_down()
    manager = world.started()
    log = manager.create("orders", 0, TOPIC_ID, LogConfig(flush_messages=1))
    writer = TransactionWriter(log)
    writer.write(7)
    writer.end(7, commit=False)
    fill(log)
    manager.housekeeping()
    assert log.recovery_point == log.log_end_offset == 5
    manager.shut_down()
    world.memory.cut_power()
    log = world.started().logs["orders", 0]
    assert world.report.scanned_segments == 0
    assert TransactionWriter(log).aborted() == [(7, 0)]
    assert log.active.time_index.entries() == [(NOW_MS, 0)]


def test_an_idle_log_is_not_synced_again_at_a_clean_end() -> None:
    world = World()
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig()))
    manager.shut_down()
    faulty = FaultyFiles(world.memory)
    world.files = faulty
    manager = world.started()
    syncs = Fault("fdatasync", number=10**9, path_part="orders-0")
    faulty.faults = [syncs]
    manager.shut_down()
    assert syncs.seen == 0


def test_after_a_kill_everything_is_looked_at() -> None:
    world = World()
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig()))
    world.memory.kill_process()
    manager = world.started()
    assert (world.report.logs, world.report.scanned_segments) == (1, 1)
    assert manager.logs["orders", 0].log_end_offset == 3


def test_the_lock_keeps_a_second_process_out() -> None:
    world = World("/data", "/more")
    manager = world.started()
    with pytest.raises(DirectoryRefused, match="/data is in use by another process"):
        world.started()
    manager.shut_down()
    second = World("/more", files=world.memory)
    second.started()
    with pytest.raises(DirectoryRefused, match="/more is in use"):
        world.started()
    third = World("/data", files=world.memory)
    third.started().shut_down()


def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    world = World()
    world.memory.makedirs("/data")
    world.memory.write_atomically(
        "/data/meta.properties", encode_meta_properties(MetaProperties("cluster-a", 3, bytes(16)), NOW_MS)
    )
    with pytest.raises(DirectoryRefused, match=r"cluster\.id=cluster-a, this node is of cluster cluster-b"):
        world.started(cluster_id="cluster-b", node_id=3)
    with pytest.raises(DirectoryRefused, match=r"node\.id=3, this is node 4"):
        world.started(cluster_id="cluster-a", node_id=4)
    manager = world.started(cluster_id="cluster-a", node_id=3)
    assert manager.directories[0].directory_id == bytes(16)


def test_new_logs_go_where_the_fewest_are() -> None:
    world = World("/a", "/b")
    manager = world.started()
    for partition in range(5):
        manager.create("t", partition, TOPIC_ID, LogConfig())
    assert world.memory.listdir("/a") == [".lock", "t-0", "t-2", "t-4"]
    assert world.memory.listdir("/b") == [".lock", "t-1", "t-3"]
    home = manager.directory_of("t", 3)
    assert home is not None
    assert home.path == "/b"
    with pytest.raises(LogStorageError, match="there already"):
        manager.create("t", 3, TOPIC_ID, LogConfig())


def test_a_log_goes_where_somebody_wished_it_if_it_was_not_there_yet() -> None:
    world = World("/a", "/b")
    manager = world.started()
    first, second = manager.directories
    manager.create("t", 0, TOPIC_ID, LogConfig())
    for partition in (0, 1, 2):
        manager.prefer("t", partition, second)
    manager.prefer("t", 2, first)
    manager.create("t", 1, TOPIC_ID, LogConfig())
    manager.create("t", 2, TOPIC_ID, LogConfig())
    assert world.memory.listdir("/a") == [".lock", "t-0", "t-2"]
    assert world.memory.listdir("/b") == [".lock", "t-1"]


def test_a_cordoned_directory_gets_new_logs_only_by_name() -> None:
    world = World("/a/", "/b")
    manager = world.started()
    first, second = manager.directories
    assert manager.cordon(["/a/"])
    assert not manager.cordon(["/a/"])
    for partition in range(3):
        manager.create("t", partition, TOPIC_ID, LogConfig())
    manager.prefer("t", 3, first)
    manager.create("t", 3, TOPIC_ID, LogConfig())
    assert world.memory.listdir("/a") == [".lock", "t-3"]
    assert world.memory.listdir("/b") == [".lock", "t-0", "t-1", "t-2"]
    assert manager.cordon(["/a/", "/b"])
    manager.create("t", 4, TOPIC_ID, LogConfig())
    assert manager.directory_of("t", 4) is first, "all are cordoned: the first one"
    assert manager.cordon(["/a/"])
    assert (first.is_cordoned, second.is_cordoned) == (True, False)
    assert manager.cordon([])
    manager.create("t", 5, TOPIC_ID, LogConfig())
    assert manager.directory_of("t", 5) is first


def test_wishes_are_bounded() -> None:
    world = World("/a", "/b")
    manager = world.started()
    _, second = manager.directories
    manager.prefer("forgotten", 0, second)
    for partition in range(PREFERRED_DIRECTORIES - 1):
        manager.prefer("remembered", partition, second)
    manager.prefer("forgotten", 0, second)  # the newest now
    manager.prefer("one-more", 0, second)
    manager.create("remembered", 0, TOPIC_ID, LogConfig())
    manager.create("remembered", 1, TOPIC_ID, LogConfig())
    manager.create("forgotten", 0, TOPIC_ID, LogConfig())
    assert world.memory.listdir("/a") == [".lock", "remembered-0"]
    assert world.memory.listdir("/b") == [".lock", "forgotten-0", "remembered-1"]


def test_what_else_lies_in_a_directory() -> None:
    world = World()
    leaving = ["x.0123456789abcdef0123456789abcdef-delete", "t-1.00-future"]
    left = ["__cluster_metadata-0", "lost+found", "notes", "t-x", "y.00-stray"]
    for name in [*leaving, *left]:
        world.memory.makedirs(f"/data/{name}")
        world.memory.open(f"/data/{name}/file", create=True)
    manager = world.started()
    assert manager.logs == {}
    assert ["set aside" in problem for problem in world.report.problems] == [True, False, False]
    assert all("is no partition's directory" in problem for problem in world.report.problems[1:])
    world.pass_seconds(manager, 1)
    assert [name for name in world.memory.listdir("/data") if name != ".lock"] == left


def test_a_log_that_cannot_be_opened_is_offline_alone() -> None:
    files = FaultyFiles(MemoryFiles())
    world = World(files=files)
    manager = world.started()
    for partition in range(3):
        fill(manager.create("t", partition, TOPIC_ID, LogConfig()))
    manager.shut_down()
    files.faults = [Fault("open", path_part="t-1/", count=9)]
    manager = world.started()
    assert sorted(manager.logs) == [("t", 0), ("t", 2)]
    assert manager.get("t", 1) is None
    assert "t-1 is offline" in world.report.problems[0]
    with pytest.raises(LogStorageError, match="is there and cannot be used"):
        manager.create("t", 1, TOPIC_ID, LogConfig())
    fill(manager.logs["t", 0])


def test_a_segment_with_offsets_beyond_its_indexes_makes_its_log_offline_alone() -> None:
    world = World()
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig()))
    far = manager.create("orders", 1, TOPIC_ID, LogConfig())
    file = world.memory.open(far.active.log.path, write=True)
    file.write([leader_batch(3_000_000_000 + number, bytes(3_000)) for number in range(3)], 0)
    file.close()
    world.memory.kill_process()
    manager = world.started()
    assert list(manager.logs) == [("orders", 0)]
    assert "Offset 3000000002 is too large for this segment" in manager.offline["orders", 1]
    manager.shut_down()


def test_deletion_is_a_rename_now_and_a_removal_later() -> None:
    world = World()
    manager = world.started()
    log = manager.create("orders", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=10_000))
    fill(log)
    held = log.read(0, max_bytes=1 << 20)
    assert held is not None
    held.retain()
    manager.delete_async("orders", 0)
    manager.delete_async("orders", 0)
    assert manager.get("orders", 0) is None
    leaving = "orders-0.00000000000000000000000000000001-delete"
    assert world.memory.listdir("/data") == [".lock", leaving]
    again = manager.create("orders", 0, bytes(16), LogConfig())
    assert again.log_end_offset == 0
    assert offsets_of(held.read()) == [(0, 0), (1, 1), (2, 2)]
    held.release()
    world.pass_seconds(manager, 9)
    assert world.memory.exists(f"/data/{leaving}")
    world.pass_seconds(manager, 1)
    assert not world.memory.exists(f"/data/{leaving}")
    fill(again)


def test_what_was_planned_for_a_deleted_log_does_not_reach_the_next_one_of_its_name() -> None:
    world = World()
    world.offload = offload = RunsLater()
    manager = world.started()
    partitions = range(3 * LANES_AT_ONCE)
    for partition in partitions:
        log = manager.create("orders", partition, TOPIC_ID, LogConfig())
        fill(log)
        log.roll(NOW_MS)
    manager.housekeeping()
    for partition in partitions:
        manager.delete_async("orders", partition)
    for partition in partitions:
        manager.create("orders", partition, bytes(reversed(TOPIC_ID)), LogConfig())
    while offload.waiting:
        offload.run()
    world.memory.kill_process()
    for partition in partitions:
        path = f"/data/orders-{partition}"
        assert read_partition_metadata(world.memory, f"{path}/partition.metadata") != TOPIC_ID
        assert world.memory.listdir(path) == ["00000000000000000000.log", "partition.metadata"]


def test_the_metadata_of_a_new_log_is_on_the_disk_soon() -> None:
    world = World()
    manager = world.started()
    manager.create("orders", 0, TOPIC_ID, LogConfig())
    manager.housekeeping()
    assert world.memory.unsynced_bytes("/data/orders-0/partition.metadata") == 0
    world.memory.cut_power()
    assert read_partition_metadata(world.memory, "/data/orders-0/partition.metadata") == TOPIC_ID


def test_unclaimed_logs_are_set_aside_on_request_and_untouched_by_retention() -> None:
    world = World()
    manager = world.started()
    fill(manager.create("mine", 0, TOPIC_ID, LogConfig()))
    fill(manager.create("stray", 0, TOPIC_ID, LogConfig()))
    manager.shut_down()
    world.clock.now_ms += 30 * 86_400_000
    manager = world.started(default_config=LogConfig(retention_ms=1))
    assert manager.get("mine", 0) is not None
    assert [log.topic for log in manager.unclaimed()] == ["stray"]
    world.pass_seconds(manager, 40)
    assert manager.logs["mine", 0].log_start_offset == 3
    assert manager.logs["stray", 0].log_start_offset == 0
    manager.set_aside("stray", 0)
    assert any(name.endswith("-stray") for name in world.memory.listdir("/data"))


def test_checkpoints_are_written_in_their_time_and_only_when_they_changed() -> None:
    world = World()
    world.offload = offload = RunsLater()
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig(flush_messages=1)))
    path = "/data/replication-offset-checkpoint"
    world.pass_seconds(manager, 5)
    assert not world.memory.exists(path)
    while offload.run():
        pass
    assert read_offsets(world.memory, path) == {("orders", 0): 3}
    assert manager.logs["orders", 0].recovery_point == 3
    assert world.memory.read_text("/data/orders-0/leader-epoch-checkpoint") == "0\n1\n0 0\n"
    world.pass_seconds(manager, 5)
    assert offload.run() == 1, "a look at the directory, and nothing to write"
    world.pass_seconds(manager, 50)
    offload.run()
    assert read_offsets(world.memory, "/data/recovery-point-offset-checkpoint") == {("orders", 0): 3}


def test_every_one_of_many_logs_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round over all logs may take longer than the time from one round to the next."""
    monkeypatch.setattr(housekeeping, "LOGS_PER_LOOK", 2)
    world = World()
    manager = world.started()
    logs = [manager.create("orders", index, TOPIC_ID, LogConfig(flush_ms=1_000)) for index in range(20)]
    for log in logs:
        fill(log)
    world.pass_seconds(manager, 20)
    assert [log.recovery_point for log in logs] == [3] * 20
    epochs = [f"/data/orders-{index}/leader-epoch-checkpoint" for index in range(20)]
    assert [path for path in epochs if not world.memory.exists(path)] == []


def test_the_log_start_survives_a_kill_once_it_was_saved() -> None:
    world = World()
    manager = world.started()
    log = manager.create("orders", 0, TOPIC_ID, LogConfig())
    fill(log)
    log.increase_log_start(2)
    world.pass_seconds(manager, 60)
    assert read_offsets(world.memory, "/data/log-start-offset-checkpoint") == {("orders", 0): 2}
    world.memory.kill_process()
    manager = world.started()
    assert manager.logs["orders", 0].log_start_offset == 2


def test_writes_of_one_lane_never_overtake_each_other() -> None:
    world = World()
    world.offload = offload = RunsLater()
    manager = world.started()
    log = manager.create("orders", 0, TOPIC_ID, LogConfig())
    for epoch in range(3):
        log.append_as_leader(client_batch(b"x"), leader_epoch=epoch, now_ms=NOW_MS)
        log.durability.write_leader_epochs()
        manager.housekeeping()
        assert len(offload.waiting) == 1
    while offload.run():
        pass
    assert world.memory.read_text("/data/orders-0/leader-epoch-checkpoint") == "0\n3\n0 0\n1 1\n2 2\n"


def test_a_failing_checkpoint_is_tried_again() -> None:
    full = Fault("write_atomically", path_part="replication-offset", error=errno.ENOSPC)
    files = FaultyFiles(MemoryFiles(), full)
    world = World(files=files)
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig()))
    world.pass_seconds(manager, 5)
    assert not files.exists("/data/replication-offset-checkpoint")
    world.pass_seconds(manager, 5)
    assert read_offsets(files, "/data/replication-offset-checkpoint") == {("orders", 0): 3}


def test_an_end_with_a_failing_disk_leaves_no_clean_mark() -> None:
    files = FaultyFiles(MemoryFiles(), Fault("fdatasync", count=99, path_part="/a/"))
    world = World("/a", "/b", files=files)
    manager = world.started()
    for partition in range(2):
        fill(manager.create("t", partition, TOPIC_ID, LogConfig()))
    manager.shut_down()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")


def test_a_damaged_checkpoint_costs_work_not_data() -> None:
    world = World()
    manager = world.started()
    fill(manager.create("orders", 0, TOPIC_ID, LogConfig()))
    manager.shut_down()
    whole = encode_offsets({("orders", 0): 3})
    world.memory.write_atomically("/data/recovery-point-offset-checkpoint", whole[:-4])
    manager = world.started()
    assert "recovery-point-offset-checkpoint" in world.report.problems[0]
    assert manager.logs["orders", 0].log_end_offset == 3


def test_producers_expire() -> None:
    world = World()
    manager = world.started()
    log = manager.create("orders", 0, TOPIC_ID, LogConfig(producer_id_expiration_ms=1000))
    log.append_as_leader(client_batch(b"x", producer=(7, 0, 0)), leader_epoch=0, now_ms=NOW_MS)
    world.pass_seconds(manager, 599)
    assert log.producer_state.get(7) is not None
    world.pass_seconds(manager, 1)
    assert log.producer_state.get(7) is None


def test_producers_do_not_expire_before_the_config_of_their_log_is_known() -> None:
    """It comes with the metadata of the cluster, some time after the start."""
    world = World()
    manager = world.started()
    log = manager.create("orders", 0, TOPIC_ID, LogConfig())
    log.append_as_leader(client_batch(b"x", producer=(7, 0, 0)), leader_epoch=0, now_ms=NOW_MS)
    manager.shut_down()
    world.clock.now_ms += 2 * DAY_MS
    manager = world.started()
    world.pass_seconds(manager, 600)
    found = manager.get("orders", 0)
    assert found is not None
    found.update_config(LogConfig(producer_id_expiration_ms=3 * DAY_MS))
    world.pass_seconds(manager, 600)
    assert found.producer_state.get(7) is not None
    world.clock.now_ms += DAY_MS
    world.pass_seconds(manager, 600)
    assert found.producer_state.get(7) is None


def test_retention_leaves_the_loop_to_others_when_renames_take_long() -> None:
    """Twenty expired segments of each of two logs, on a disk that takes 30 ms for each of them."""

    class Slow(MemoryFiles):
        def rename(self, source: str, target: str) -> None:
            world.clock.now_ms += 30 * source.endswith(".log")
            super().rename(source, target)

    world = World(files=Slow())
    manager = world.started(settings=LogManagerSettings(initial_task_delay_ms=0))
    logs = [manager.create("orders", number, TOPIC_ID, LogConfig(retention_bytes=0)) for number in range(2)]
    for log in logs:
        for _ in range(20):
            fill(log, 1)
            log.roll(NOW_MS)
    turns = []
    behind = []
    while any(len(log.segments) > 1 for log in logs):
        before = [len(log.segments) for log in logs]
        behind.append(manager.housekeeping())
        turns.append([was - len(log.segments) for was, log in zip(before, logs, strict=True)])
    assert turns == [[8, 0], [0, 8], [8, 0], [0, 8], [4, 0], [0, 4]]
    assert behind == [True] * 4 + [False] * 2


def test_of_a_hundred_logs_that_let_segments_go_some_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.storage")
    world = World()
    manager = world.started(settings=LogManagerSettings(initial_task_delay_ms=1000))
    for number in range(100):
        fill(manager.create("orders", number, TOPIC_ID, LogConfig(retention_ms=1, segment_bytes=100)), 2)
    world.pass_seconds(manager, 2)
    lines = caplog.messages
    assert sum("Incremented log start offset to 2 " in line for line in lines) == 100
    assert sum("Deleting segment LogSegment(" in line for line in lines) == LOGGED_SEGMENTS_PER_LOOK
    more = [line for line in lines if "more segments" in line]
    assert len(more) == 100 - LOGGED_SEGMENTS_PER_LOOK // 2
    assert len(lines) <= 2 * 100 + LOGGED_SEGMENTS_PER_LOOK


def test_retention_comes_back_to_a_log_whose_compaction_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    manager = world.started(settings=LogManagerSettings(initial_task_delay_ms=0))
    log = manager.create("orders", 0, TOPIC_ID, LogConfig(retention_bytes=0))
    fill(log, 1)
    log.roll(NOW_MS)
    with monkeypatch.context() as compacting:
        compacting.setattr(manager.cleaner, "is_cleaning", lambda key: True)
        assert not manager.housekeeping()
        assert not manager.housekeeping()
    assert len(log.segments) == 2
    manager.housekeeping()
    assert len(log.segments) == 1
