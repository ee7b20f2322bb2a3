"""Few descriptors for many logs: files are let go and opened again, and nobody notices."""

from __future__ import annotations

from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.open_files import FEWEST_OPEN, OpenFiles, bound_for
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, client_batch, everything
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce


class BoundedFiles(MemoryFiles):
    def __init__(self, bound: int) -> None:
        super().__init__()
        self.open_files = OpenFiles(bound)


def manager_over(files: BoundedFiles) -> LogManager:
    manager = LogManager(
        files, ["/a"], clock=ManualClock(NOW_MS), random_source=NoRandomSource(), offload=RunsAtOnce(),
    )  # fmt: skip
    manager.start()
    return manager


def test_more_logs_than_open_files() -> None:
    files = BoundedFiles(5)
    manager = manager_over(files)
    config = LogConfig(segment_bytes=400)
    for partition in range(20):
        manager.create("t", partition, TOPIC_ID, config)
    for _ in range(4):
        for log in manager.logs.values():
            log.append_as_leader(client_batch(bytes(100)), leader_epoch=0, now_ms=NOW_MS)
            assert len(files.open_files) <= 5
    assert files.open_files.closed_count > 60
    content = {key: everything(log) for key, log in manager.logs.items()}
    assert all(len(data) == 4 * 170 for data in content.values())
    manager.shut_down()
    assert len(files.open_files) == 0
    manager = manager_over(files)
    assert len(files.open_files) <= 5
    assert {key: everything(log) for key, log in manager.logs.items()} == content
    manager.shut_down()


def test_what_is_held_is_not_let_go() -> None:
    files = BoundedFiles(2)
    manager = manager_over(files)
    for partition in range(6):
        log = manager.create("t", partition, TOPIC_ID, LogConfig())
        log.append_as_leader(client_batch(b"value"), leader_epoch=0, now_ms=NOW_MS)
    slices = []
    for log in manager.logs.values():
        found = log.read(0, max_bytes=1000)
        assert found is not None
        found.retain()
        found.read()
        slices.append(found)
    assert len(files.open_files) == 6, "each goes on to some socket"
    for each in slices:
        each.release()
    assert len(files.open_files) == 2, "what is not held any more goes at once"
    manager.create("more", 0, TOPIC_ID, LogConfig()).append_as_leader(
        client_batch(b"value"), leader_epoch=0, now_ms=NOW_MS
    )
    assert len(files.open_files) == 2


def test_the_bound_leaves_room_for_connections() -> None:
    assert bound_for(1024) == 384
    assert bound_for(1 << 20) == (1 << 19) - 128
    assert bound_for(64) == FEWEST_OPEN
