"""A disk that was full when a log was to be made or opened, and has room again."""

from __future__ import annotations

import errno

import pytest

from broker.replication.log_retries import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, LogRetries
from broker.replication.replica_manager import LeaderChange
from protocol.errors import ErrorCode
from protocol.metadata_log.topics import PartitionRecord, TopicRecord
from storage.faulty_files import Fault, FaultyFiles
from storage.memory_files import MemoryFiles
from tests.support.rigs.handler_rig import HandlerRig, topic_id
from tests.unit.broker.handlers.test_log_dirs_handlers import Directories

ALWAYS = 10**9


class Retried:
    """A broker whose logs lie on a disk that can be full, and who hears what became of them."""

    def __init__(self, rig: HandlerRig, disk: FaultyFiles) -> None:
        self.rig = rig
        self.disk = disk
        self.changes: list[LeaderChange] = []
        self.made: list[tuple[str, int]] = []
        self.retries = LogRetries(
            rig.replicas,
            rig.clock,
            rig.timers,
            on_leader_change=self.changes.append,
            on_made=self.made.append,
        )

    def fill(self, error: int = errno.ENOSPC, call: str = "makedirs") -> None:
        self.disk.faults = [Fault(call, count=ALWAYS, error=error)]

    def empty(self) -> None:
        self.disk.faults = []

    @property
    def asked(self) -> int:
        return self.disk.faults[0].hits


@pytest.fixture
def full() -> Retried:
    disk = FaultyFiles(MemoryFiles())
    made = Retried(HandlerRig(files=disk), disk)
    made.fill()
    return made


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_log_is_made_when_there_is_space(
    full: Retried, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    full.fill(error)
    full.rig.topic("t", 3)
    assert full.rig.replicas.partition("t", 2) == ErrorCode.KAFKA_STORAGE_ERROR
    full.rig.timers.advance(FIRST_PAUSE_MS)
    assert full.rig.replicas.partition("t", 2) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "3 partitions wait for space on a disk" in caplog.text
    full.empty()
    full.rig.timers.advance(2 * FIRST_PAUSE_MS)
    assert full.changes == [LeaderChange("t", index, 0, True) for index in range(3)]
    assert full.made == [("t", 0), ("t", 1), ("t", 2)]
    assert full.rig.write("t", 2) == 0
    assert not full.rig.replicas.without_space


def test_the_pauses_grow_up_to_a_bound_and_begin_anew(full: Retried) -> None:
    full.rig.topic("t")
    looks = []
    for second in range(1, 400):
        before = full.asked
        full.rig.timers.advance(1000)
        looks += [second] if full.asked > before else []
    pauses = [after - before for before, after in zip([0, *looks], looks, strict=False)]
    assert pauses[:6] == [1, 2, 4, 8, 16, 32]
    assert set(pauses[6:]) == {LONGEST_PAUSE_MS // 1000}
    full.empty()
    full.rig.timers.advance(LONGEST_PAUSE_MS)
    full.fill()
    full.rig.topic("u", number=2)
    before = full.asked
    full.rig.timers.advance(FIRST_PAUSE_MS)
    assert full.asked == before + 1


def test_what_is_deleted_is_not_waited_for(full: Retried) -> None:
    made = full.rig.topic("t")
    full.rig.remove_topic(made)
    full.empty()
    full.rig.timers.advance(FIRST_PAUSE_MS)
    assert (full.made, full.rig.replicas.by_name) == ([], {})
    assert full.rig.replicas.partition("t", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broken_disk_is_not_tried_again(full: Retried) -> None:
    full.fill(errno.EIO)
    full.rig.topic("t")
    full.empty()
    full.rig.timers.advance(LONGEST_PAUSE_MS)
    assert full.rig.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_broker_that_goes_tries_no_more(full: Retried) -> None:
    full.rig.topic("t")
    full.retries.stop()
    full.empty()
    full.rig.timers.advance(LONGEST_PAUSE_MS)
    full.fill()
    full.rig.topic("u", number=2)
    full.empty()
    full.rig.timers.advance(LONGEST_PAUSE_MS)
    assert full.rig.replicas.by_name == {}


def test_a_log_that_a_start_had_no_space_to_open_is_opened_when_there_is() -> None:
    before = Directories()
    before.topic("t", 2)
    before.write("t", 0, count=3)
    before.write("t", 1, count=4)
    before.manager.shut_down()
    before.disk.faults = [Fault("read", path_part="t-0/partition.metadata", count=2, error=errno.ENOSPC)]
    rig = Directories(before.disk)
    retried = Retried(rig, before.disk)
    partitions = [
        PartitionRecord(partition_id=index, topic_id=topic_id(1), replicas=[1], isr=[1], leader=1)
        for index in range(2)
    ]
    rig.apply(TopicRecord("t", topic_id(1)), *partitions)
    assert rig.replicas.partition("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.write("t", 1) == 4
    rig.timers.advance(FIRST_PAUSE_MS)
    assert rig.write("t", 0) == 3
    assert retried.made == [("t", 0)]
    assert (rig.manager.offline, rig.replicas.without_space) == ({}, {})
