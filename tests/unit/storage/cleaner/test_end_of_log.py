"""The last records go where nothing lies behind them: a reader still comes to the end."""

from __future__ import annotations

import msgspec

from protocol.records.header import headers
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, client_batch, everything
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce

KEY = ("t", 0)
CONFIG = LogConfig(
    segment_bytes=2000, index_interval_bytes=300, file_delete_delay_ms=1000, min_cleanable_dirty_ratio=0.01
)


def start(files: MemoryFiles, clock: ManualClock) -> LogManager:
    manager = LogManager(
        files,
        ["/a"],
        clock=clock,
        random_source=NoRandomSource(),
        offload=RunsAtOnce(),
        default_config=CONFIG,
    )
    manager.start()
    return manager


def test_the_batch_before_the_end_leaves_its_header() -> None:
    files, clock = MemoryFiles(), ManualClock(NOW_MS)
    log = start(files, clock).create(*KEY, TOPIC_ID, CONFIG)
    for number in range(3):
        batch = client_batch(b"v" + bytes(400), key=b"k%d" % number)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(client_batch(b"without a key"), leader_epoch=0, now_ms=NOW_MS)
    end = log.log_end_offset
    log.append_as_leader(client_batch(bytes(1500), key=b"k9"), leader_epoch=0, now_ms=NOW_MS)
    assert log.active.base_offset == end
    files.kill_process()
    torn = files.open(f"{log.directory}/{end:020d}.log", write=True)
    torn.truncate(700)  # so that the active segment is empty after the start
    torn.close()

    manager = start(files, clock)
    again = manager.get(*KEY)
    assert again is not None
    again.update_high_watermark(again.log_end_offset)
    again.update_config(msgspec.structs.replace(CONFIG, compact=True, delete=False))
    for _ in range(2):  # the first look syncs what was read at the start
        clock.now_ms += 20_000
        manager.housekeeping()
    assert manager.cleaner.statistics.passes == 1
    assert again.log_end_offset == end
    assert max(header.next_offset for _, header in headers(everything(again))) == end
