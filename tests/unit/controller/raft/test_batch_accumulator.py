"""Appends that share a batch: which may, and what listeners, snapshots and followers make of it."""

from __future__ import annotations

from controller.metadata.log import SnapshotId
from controller.raft.batch_accumulator import (
    SHARED_BYTES,
    SHARED_RECORDS,
    AccumulatedBatch,
    says_something,
    stays_alone,
)
from controller.raft.snapshot_files import list_snapshots
from protocol.metadata_log.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from protocol.records.header import headers
from protocol.records.reader import records as read_records
from tests.support.rigs.controllers import METADATA_LOG, ControllerFixture, one_node_config
from tests.support.rigs.replica_rig import ReplicaRig, ReplicaWorld, config_record


def written(rig: ReplicaRig, offset: int) -> list[tuple[int, int]]:
    """Base and last offsets of the batches from there on."""
    content = rig.log._disk.read_bytes(offset, 1 << 20)
    return [(header.base_offset, header.last_offset) for _, header in headers(content)]


def leading() -> tuple[ReplicaWorld, ReplicaRig]:
    world = ReplicaWorld(1)
    world.settle()
    return world, world.rigs[1]


def test_appends_of_one_turn_lie_in_one_batch_and_are_heard_one_by_one() -> None:
    world, leader = leading()
    offset = leader.log.end_offset
    leader.append(1, 2)
    leader.append(3)
    leader.append(4, 5, 6)
    world.settle()
    assert written(leader, offset) == [(offset, offset + 5)]
    assert leader.heard.numbers == [1, 2, 3, 4, 5, 6]
    assert leader.heard.image.offset == offset + 5
    leader.kill()
    leader.begin()
    world.settle()
    assert leader.heard.numbers == [1, 2, 3, 4, 5, 6]


def test_records_of_one_batch_have_one_time() -> None:
    """Kafka's RecordsIterator takes no record whose timestamp differs from its batch's."""
    world, leader = leading()
    offset = leader.log.end_offset
    leader.append(1)
    began_ms = world.clock.wall_ms()
    world.clock.move(3)
    leader.append(2)
    world.settle()
    content = leader.log._disk.read_bytes(offset, 1 << 20)
    assert [record.timestamp for record in read_records(content, 0)] == [began_ms, began_ms]
    assert leader.heard.image.timestamp_ms == began_ms


def test_markers_of_transactions_stay_alone() -> None:
    world, leader = leading()
    offset = leader.log.end_offset
    epoch = leader.log.leader.epoch
    leader.append(1)
    leader.log.append(epoch, [BeginTransactionRecord(name="t"), config_record(2)])
    leader.append(3)
    leader.append(4)
    leader.log.append(epoch, [config_record(5), EndTransactionRecord()])
    leader.append(6)
    world.settle()
    assert written(leader, offset) == [
        (offset, offset),
        (offset + 1, offset + 2),
        (offset + 3, offset + 4),
        (offset + 5, offset + 6),
        (offset + 7, offset + 7),
    ]
    assert leader.heard.numbers == [1, 2, 3, 4, 5, 6]
    assert stays_alone([AbortTransactionRecord(reason="x")])
    assert not stays_alone([NoOpRecord()])


def test_followers_hear_of_committed_idle_records_with_the_next_answer() -> None:
    world = ReplicaWorld(1, 2, 3)
    leader = world.leader()
    world.settle()
    follower = world.followers()[0]
    epoch, offset = leader.log.leader.epoch, leader.log.end_offset
    assert follower.log.high_watermark == offset
    leader.log.append(epoch, [NoOpRecord()])
    world.settle()
    assert (leader.log.high_watermark, follower.log.end_offset) == (offset + 1, offset + 1)
    assert follower.log.high_watermark == offset
    leader.log.append(epoch, [NoOpRecord()])
    leader.append(1)
    world.settle()
    assert follower.log.high_watermark == leader.log.high_watermark == offset + 3
    assert follower.heard.numbers == [1]
    leader.log.append(epoch, [NoOpRecord()])
    world.run(600)
    assert follower.log.high_watermark == offset + 4, "the time of its fetch was over"


def test_what_shares_a_batch_with_an_idle_record_is_news() -> None:
    accumulated = AccumulatedBatch(3, 100, 5)
    accumulated.add([b"x"], is_news=False)
    assert not accumulated.is_news
    accumulated.add([b"x"], is_news=True)
    accumulated.add([b"x"], is_news=False)
    assert accumulated.is_news
    assert not says_something([NoOpRecord(), NoOpRecord()])
    assert says_something([NoOpRecord(), config_record(1)])


def test_a_shared_batch_has_bounds() -> None:
    full = AccumulatedBatch(3, 100, 5)
    full.add([b"x"] * (SHARED_RECORDS - 1), is_news=True)
    assert full.takes(3, [b"x"])
    assert not full.takes(3, [b"x"] * 2)
    assert not full.takes(4, [b"x"])
    large = AccumulatedBatch(3, 100, 5)
    large.add([b"x" * (SHARED_BYTES - 1_000)], is_news=True)
    assert large.takes(3, [b"x" * 800])
    assert not large.takes(3, [b"x" * 1_000])
    content = full.close()
    assert not full.takes(3, [b"x"])
    ((_, header),) = headers(content)
    assert (header.base_offset, header.next_offset) == (100, full.end_offset)
    assert len(content) == full.size_bytes


def test_a_snapshot_ends_where_a_batch_does() -> None:
    each_time = one_node_config(metadata__log__max__record__bytes__between__snapshots="1")
    fixture = ControllerFixture(config=each_time)
    while fixture.timers.run_soon() or fixture.offload:
        fixture.offload.run()
    offset = fixture.log.end_offset
    epoch = fixture.log.leader.epoch
    for number in range(3):
        fixture.controller._append([config_record(number)])
    while fixture.timers.run_soon() or fixture.offload:
        fixture.offload.run()
    ((_, header),) = headers(fixture.log._disk.read_bytes(offset, 1 << 20))
    assert (header.base_offset, header.last_offset) == (offset, offset + 2)
    assert fixture.controller.image.offset == offset + 2
    ends = list_snapshots(fixture.files, METADATA_LOG)
    assert SnapshotId(offset + 3, epoch) in ends
    assert not {SnapshotId(offset + 1, epoch), SnapshotId(offset + 2, epoch)} & set(ends)


def test_followers_take_shared_batches_whole() -> None:
    world = ReplicaWorld(1, 2, 3)
    leader = world.leader()
    world.run(600)
    for first in (1, 11, 21):
        for number in range(first, first + 10):
            leader.append(number)
        world.settle()
    assert [rig.heard.numbers for rig in world.rigs.values()] == [list(range(1, 31))] * 3
    assert len({rig.heard.image.offset for rig in world.rigs.values()}) == 1
