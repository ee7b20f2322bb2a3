"""What checkpoints say of a log that was cut, or deleted and made anew, is not believed of what came then."""

from __future__ import annotations

import errno

import pytest

from protocol.records.header import headers
from storage.errors import LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from storage.truncation_markers import (
    TRUNCATION_MARKER_FILE,
    CheckpointedOffsets,
    TruncationMarker,
    read_truncation_marker,
)
from tests.support.rigs.log_rig import NOW_MS, TOPIC_ID, LogRig, client_batch, everything
from tests.support.rigs.storage_world import ManualClock, NoRandomSource, RunsAtOnce

OTHER_ID = bytes(range(16, 32))
PATH = "/data/orders-0"
CONFIG = LogConfig(file_delete_delay_ms=0)


class Node:
    """One life after the other over the same disk."""

    def __init__(self, files: MemoryFiles | FaultyFiles | None = None) -> None:
        self.files = files or MemoryFiles()
        self.clock = ManualClock(NOW_MS)
        self.start()

    def start(self) -> None:
        self.manager = LogManager(
            self.files, ["/data"], clock=self.clock, random_source=NoRandomSource(), offload=RunsAtOnce()
        )
        self.report = self.manager.start()

    def a_minute_goes_by(self) -> None:
        for _ in range(2):
            self.clock.now_ms += 60_000
            self.manager.housekeeping()

    @property
    def log(self) -> PartitionLog:
        log = self.manager.get("orders", 0)
        assert log is not None
        return log

    def append(self, count: int) -> None:
        for _ in range(count):
            self.log.append_as_leader(client_batch(b"value"), leader_epoch=0, now_ms=NOW_MS)

    def append_and_sync(self, count: int) -> None:
        self.append(count)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.flush()
        self.a_minute_goes_by()


def begun(memory: MemoryFiles) -> Node:
    """A log of four batches that are synced, and all checkpoints know it."""
    node = Node(memory)
    node.manager.create("orders", 0, TOPIC_ID, CONFIG)
    node.append_and_sync(4)
    assert "orders 0 4" in memory.read_text("/data/recovery-point-offset-checkpoint")
    return node


def test_after_a_cut_a_kill_and_a_power_cut_no_batch_counts_as_synced_that_is_not() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.log.truncate_to(0, now_ms=NOW_MS)
    node.append(1)
    memory.kill_process()
    node.start()
    assert (node.log.log_end_offset, node.log.recovery_point, node.log.high_watermark) == (1, 0, 0)
    node.append_and_sync(1)
    memory.cut_power(keep_names=False)
    node.start()
    assert node.log.log_end_offset == node.log.recovery_point == 2


def test_a_cut_that_a_kill_met_before_its_sync_is_on_the_disk_after_a_clean_end() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.log.truncate_to(2, now_ms=NOW_MS)
    memory.kill_process()
    node.start()
    assert (node.log.log_end_offset, node.log.recovery_point) == (2, 2)
    node.manager.shut_down()
    memory.cut_power()
    node.start()
    assert node.log.log_end_offset == 2


def test_a_cut_log_that_has_rolled_is_read_from_end_to_end() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.log.truncate_to(1, now_ms=NOW_MS)
    node.append(1)
    node.log.roll(NOW_MS)
    node.append(3)
    memory.kill_process()
    node.start()
    assert node.report.scanned_segments == 2


def test_the_mark_goes_when_the_checkpoints_are_written_again() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.log.truncate_to(2, now_ms=NOW_MS)
    assert read_truncation_marker(memory, PATH) == TruncationMarker(2, 0)
    node.log.truncate_to(1, now_ms=NOW_MS)
    node.append(2)
    node.log.truncate_to(2, now_ms=NOW_MS)
    assert read_truncation_marker(memory, PATH) == TruncationMarker(1, 0)
    node.a_minute_goes_by()
    assert not memory.exists(f"{PATH}/{TRUNCATION_MARKER_FILE}")
    assert "orders 0 2" in memory.read_text("/data/recovery-point-offset-checkpoint")
    assert "orders 0 1" in memory.read_text("/data/replication-offset-checkpoint")


def test_a_cut_above_what_the_checkpoints_say_leaves_a_mark_until_it_is_synced() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.append(4)
    node.log.truncate_to(4, now_ms=NOW_MS)
    assert read_truncation_marker(memory, PATH) == TruncationMarker(4, 0)
    node.a_minute_goes_by()
    assert not memory.exists(f"{PATH}/{TRUNCATION_MARKER_FILE}")


def test_a_cut_is_synced_before_its_mark_goes_in_a_later_life_too() -> None:
    """Records of before would stand below a high watermark that speaks of those that came after the cut."""
    memory = MemoryFiles()
    node = begun(memory)
    node.log.truncate_to(2, now_ms=NOW_MS)
    memory.kill_process()
    node.start()
    node.append(3)
    node.log.update_high_watermark(5)
    node.a_minute_goes_by()
    assert not memory.exists(f"{PATH}/{TRUNCATION_MARKER_FILE}")
    memory.cut_power(keep_names=False)
    node.start()
    assert (node.log.log_end_offset, node.log.high_watermark) == (5, 5)


def test_until_a_cut_is_synced_no_checkpoint_says_more_than_was_left() -> None:
    """Whatever a power cut brings back, the next start believes nothing of it."""
    memory = MemoryFiles()
    node = begun(memory)
    for _ in range(2):
        node.log.truncate_to(2, now_ms=NOW_MS)
        node.append(3)
        node.log.update_high_watermark(5)
        assert node.log.durability.checkpointed_high_watermark(5) == 2
        memory.kill_process()
        node.start()
    assert node.log.durability.checkpointed_high_watermark(5) == 2
    node.a_minute_goes_by()
    assert node.log.durability.checkpointed_high_watermark(5) == 5


def test_a_sync_between_the_attempts_of_a_cut_leaves_its_mark() -> None:
    """What it has brought to the disk is not the log that was cut."""
    memory = MemoryFiles()
    begun(memory).manager.shut_down()
    faulty = FaultyFiles(memory)
    node = Node(faulty)
    faulty.faults = [Fault("truncate", path_part=f"{PATH}/{0:020d}.log", error=errno.ENOSPC)]
    with pytest.raises(LogStorageError, match="cannot be cut to offset 2"):
        node.log.truncate_to(2, now_ms=NOW_MS)
    node.log.flush()
    node.a_minute_goes_by()
    assert read_truncation_marker(memory, PATH) == TruncationMarker(2, 0)
    memory.kill_process()
    node.start()
    assert node.log.log_end_offset == 4
    assert node.log.recovery_point == 2
    node.log.truncate_to(2, now_ms=NOW_MS)
    node.a_minute_goes_by()
    assert not memory.exists(f"{PATH}/{TRUNCATION_MARKER_FILE}")


def test_an_orderly_end_leaves_no_mark() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.log.truncate_to(2, now_ms=NOW_MS)
    node.manager.shut_down()
    memory.cut_power(keep_names=False)
    assert not memory.exists(f"{PATH}/{TRUNCATION_MARKER_FILE}")
    node.start()
    assert (node.log.log_end_offset, node.log.recovery_point, node.report.scanned_segments) == (2, 2, 0)


def test_a_new_topic_of_the_same_name_is_not_believed_what_the_old_one_was() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.manager.delete_async("orders", 0)
    node.manager.create("orders", 0, OTHER_ID, CONFIG)
    node.append(1)
    memory.kill_process()
    node.start()
    assert node.log.topic_id == OTHER_ID
    assert (node.log.log_end_offset, node.log.recovery_point, node.log.high_watermark) == (1, 0, 0)


def test_a_log_that_begins_anew_lower_keeps_its_records_though_a_checkpoint_knows_a_later_start() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.log.increase_log_start(4)
    node.a_minute_goes_by()
    assert "orders 0 4" in memory.read_text("/data/log-start-offset-checkpoint")
    node.log.truncate_fully_and_start_at(1, now_ms=NOW_MS)
    node.append(2)
    memory.kill_process()
    node.start()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (1, 3)


def test_a_log_that_lost_its_end_is_not_believed_what_it_was_before() -> None:
    memory = MemoryFiles()
    node = begun(memory)
    node.append(4)
    node.log.update_high_watermark(8)
    node.a_minute_goes_by()
    memory.cut_power()
    node.start()
    assert (node.log.log_end_offset, node.log.high_watermark) == (4, 4)
    node.append(4)
    memory.kill_process()
    node.start()
    assert (node.log.log_end_offset, node.log.high_watermark) == (8, 4)


@pytest.mark.parametrize("content", [b"", bytes(41), b"nonsense nonsense", b"00000000000000000003"])
def test_a_mark_whose_content_was_lost_believes_nothing(content: bytes) -> None:
    memory = MemoryFiles()
    memory.makedirs(PATH)
    assert read_truncation_marker(memory, PATH) is None
    memory.write_atomically(f"{PATH}/{TRUNCATION_MARKER_FILE}", content)
    assert read_truncation_marker(memory, PATH) == TruncationMarker(0, 0)


def test_without_its_mark_a_log_is_not_cut() -> None:
    faulty = FaultyFiles(MemoryFiles())
    rig = LogRig(faulty)
    rig.append(b"v", b"v")
    rig.append(b"w")
    rig.log.durability.set_max_checkpointed_offset(lambda: 3)
    content = everything(rig.log)
    faulty.faults = [Fault("write", path_part=TRUNCATION_MARKER_FILE, error=errno.ENOSPC)]
    with pytest.raises(LogStorageError, match="cannot be cut to offset 0"):
        rig.log.truncate_to(0, now_ms=NOW_MS)
    assert everything(rig.log) == content


def test_a_log_that_gets_no_mark_is_not_made_and_leaves_no_open_file() -> None:
    faulty = FaultyFiles(MemoryFiles())
    node = Node(faulty)
    node.manager.create("orders", 0, TOPIC_ID, CONFIG)
    node.append_and_sync(2)
    node.manager.delete_async("orders", 0)
    faulty.faults = [Fault("write", path_part=TRUNCATION_MARKER_FILE, error=errno.ENOSPC)]
    with pytest.raises(OSError, match="No space"):
        node.manager.create("orders", 0, OTHER_ID, CONFIG)
    assert node.manager.get("orders", 0) is None
    node.manager.create("orders", 0, OTHER_ID, CONFIG)
    assert read_truncation_marker(faulty, PATH) == TruncationMarker(0, 0)


def test_a_log_that_cannot_be_put_away_is_not_given_to_a_new_topic_and_not_believed_unread() -> None:
    memory = MemoryFiles()
    faulty = FaultyFiles(memory)
    node = Node(faulty)
    node.manager.create("orders", 0, TOPIC_ID, CONFIG)
    node.append(2)
    faulty.faults = [Fault("rename", path_part="orders-0", error=errno.ENOSPC)]
    with pytest.raises(OSError, match="No space"):
        node.manager.delete_async("orders", 0)
    with pytest.raises(LogStorageError, match="could not be renamed"):
        node.manager.create("orders", 0, OTHER_ID, CONFIG)
    node.manager.shut_down()
    assert not memory.exists("/data/.kafka_cleanshutdown")
    memory.kill_process()
    node.start()
    assert (node.log.topic_id, node.log.log_end_offset) == (TOPIC_ID, 2)
    assert node.log.leader_epochs.entries() == [(0, 0)]


COMPACTED = LogConfig(
    segment_bytes=400, compact=True, delete=False, min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0
)


def append_with_key(node: Node, count: int, key: bytes = b"old") -> None:
    for _ in range(count):
        node.log.append_as_leader(client_batch(bytes(100), key=key), leader_epoch=0, now_ms=NOW_MS)
    node.log.update_high_watermark(node.log.log_end_offset)


def compacted(memory: MemoryFiles) -> Node:
    """A log of twenty batches with one key, of which the first eighteen have been compacted."""
    node = Node(memory)
    node.manager.create("orders", 0, TOPIC_ID, COMPACTED)
    append_with_key(node, 20)
    node.a_minute_goes_by()
    assert "orders 0 18" in memory.read_text("/data/cleaner-offset-checkpoint")
    return node


def compacted_anew(node: Node) -> list[int]:
    """Starts the node again, with 22 committed records, and compacts them. The offsets of the batches that
    are left."""
    node.start()
    node.log.update_config(COMPACTED)
    node.log.update_high_watermark(22)
    node.a_minute_goes_by()
    return [header.base_offset for _, header in headers(everything(node.log))]


def test_a_new_topic_of_the_same_name_is_not_compacted_already() -> None:
    memory = MemoryFiles()
    node = compacted(memory)
    node.manager.delete_async("orders", 0)
    node.manager.create("orders", 0, OTHER_ID, COMPACTED)
    append_with_key(node, 18)
    append_with_key(node, 4, b"new")
    memory.kill_process()
    assert compacted_anew(node) == [17, 19, 20, 21]
    assert "orders 0 20" in memory.read_text("/data/cleaner-offset-checkpoint")
    assert not memory.exists(f"{PATH}/{TRUNCATION_MARKER_FILE}")


def test_what_a_new_topic_of_the_same_name_lost_was_not_compacted_away() -> None:
    memory = MemoryFiles()
    node = compacted(memory)
    node.manager.delete_async("orders", 0)
    node.manager.create("orders", 0, OTHER_ID, COMPACTED)
    append_with_key(node, 6)
    size = node.log.segments[0].size_bytes // 2
    memory.kill_process()
    torn = memory.open(f"{PATH}/{0:020d}.log", write=True)
    torn.truncate(size)
    torn.close()
    node.start()
    assert node.log.log_end_offset == 1


@pytest.mark.parametrize("end", ["kill", "clean end"])
def test_what_came_after_a_cut_is_not_compacted_already(end: str) -> None:
    memory = MemoryFiles()
    node = compacted(memory)
    node.log.truncate_to(4, now_ms=NOW_MS)
    assert node.log.log_end_offset == 4
    append_with_key(node, 14)
    append_with_key(node, 4, b"new")
    if end == "kill":
        memory.kill_process()
    else:
        node.manager.shut_down()
    assert compacted_anew(node) == [17, 19, 20, 21]


def test_a_checkpoint_whose_write_failed_may_have_been_written() -> None:
    said, key = CheckpointedOffsets(), ("orders", 0)
    assert said.most(key) == 0
    said.says("a", {key: 4})
    said.may_say("a", {key: 9})
    said.may_say("a", {key: 2})
    said.says("b", {key: 3})
    assert (said.most(key), said.most(("bills", 0))) == (9, 0)
    said.says("a", {key: 2})
    assert said.most(key) == 3
