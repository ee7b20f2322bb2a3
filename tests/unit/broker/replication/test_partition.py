"""One hosted partition: role, epochs, high watermark, and who is told of what."""

from __future__ import annotations

from typing import Any

import pytest

from broker.replication.partition import Partition
from broker.replication.watched_batches import WatchedBatches, is_trusted
from config.limits import KIB, MIB, WALKED_ON_NODE_BYTES, WALKED_PARTITIONS_PER_CONNECTION
from protocol.errors import ErrorCode
from protocol.serving.session import WalkedBytes
from tests.support.rigs.handler_rig import HandlerRig


class Watcher:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any, int]] = []

    def partition_grew(self, token: Any, size_bytes: int) -> None:
        self.heard.append(("grew", token, size_bytes))

    def partition_changed(self, token: Any) -> None:
        self.heard.append(("changed", token, 0))


class Waiter:
    def __init__(self) -> None:
        self.errors: list[ErrorCode] = []

    def replicated(self, partition: Partition, error: ErrorCode) -> None:
        self.errors.append(error)


def hosted(
    replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] | None = None, **configs: Any
) -> tuple[HandlerRig, Partition]:
    rig = HandlerRig()
    rig.topic("t", replicas=replicas, isr=isr, leader_epoch=5, **configs)
    return rig, rig.replicas.by_name["t", 0]


def follow(partition: Partition, leader_id: int = 1, leader_epoch: int = 5, **changes: Any) -> bool:
    values: dict[str, Any] = {
        "leader_id": leader_id,
        "leader_epoch": leader_epoch,
        "partition_epoch": 9,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "min_insync_replicas": partition.min_insync_replicas,
        "now_ms": 0,
    }
    return partition.follow_image(**(values | changes))


@pytest.mark.parametrize(
    ("leader", "epoch", "leader_only", "expected"),
    [
        (1, -1, True, ErrorCode.NONE),
        (1, 5, True, ErrorCode.NONE),
        (1, 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 6, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, -1, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, -1, False, ErrorCode.NONE),
        (2, 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 6, False, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_epoch_is_judged_before_the_role(
    leader: int, epoch: int, leader_only: bool, expected: int
) -> None:
    _, partition = hosted(replicas=(1, 2))
    follow(partition, leader_id=leader)
    assert partition.refusal(epoch, leader_only=leader_only) == expected
    partition.go_offline()
    assert partition.refusal(epoch, leader_only=leader_only) == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_high_watermark_is_the_smallest_end_in_sync() -> None:
    rig, partition = hosted(replicas=(1, 2, 3))
    rig.write("t", count=10)
    assert partition.log.high_watermark == 0
    partition.follower_fetched(2, 7, now_ms=0)
    assert partition.log.high_watermark == 0, "the third was not heard yet"
    partition.follower_fetched(3, 4, now_ms=0)
    assert partition.log.high_watermark == 4
    partition.follower_fetched(3, 2, now_ms=0)
    assert partition.log.high_watermark == 4, "never back"
    partition.follower_fetched(9, 10, now_ms=0)
    follow(partition, isr=(1, 2))
    assert partition.log.high_watermark == 7
    follow(partition, isr=(1,))
    assert partition.log.high_watermark == 10


def test_the_high_watermark_stands_while_too_few_are_in_sync() -> None:
    rig, partition = hosted(replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    partition.log.append_as_leader(rig.batch(4), leader_epoch=5, now_ms=rig.clock.wall_ms())
    size_bytes = partition.log.size_bytes
    partition.appended(size_bytes)
    assert (partition.is_under_min_isr, partition.log.high_watermark) == (True, 0)
    watcher = Watcher()
    partition.watch(watcher, "x")
    partition.require_insync(1)
    assert (partition.is_under_min_isr, partition.log.high_watermark) == (False, 4)
    assert watcher.heard == [("grew", "x", size_bytes)]


def test_a_new_epoch_begins_at_the_log_end() -> None:
    rig, partition = hosted()
    rig.write("t", count=3)
    assert not follow(partition)
    assert follow(partition, leader_epoch=6)
    assert partition.leader_epoch_start_offset == 3
    assert partition.log.leader_epochs.entries() == [(5, 0), (6, 3)]


def test_who_is_elected_keeps_its_high_watermark_until_the_followers_are_heard() -> None:
    """It had learned of 4 records that all have, and leads with 10 of which it must not promise the rest."""
    rig, partition = hosted(replicas=(1, 2, 3))
    rig.write("t", count=10)
    partition.follower_fetched(2, 4, now_ms=0)
    partition.follower_fetched(3, 4, now_ms=0)
    follow(partition, 2, 6, isr=(1, 2, 3))
    follow(partition, 1, 7, isr=(1, 2, 3))
    assert (partition.log.high_watermark, partition.leader_epoch_start_offset) == (4, 10)
    assert partition.log.leader_epochs.entries() == [(5, 0), (7, 10)]
    seen = []
    for replica, offset in ((2, 10), (3, 4), (3, 7), (3, 10)):
        partition.follower_fetched(replica, offset, now_ms=0)
        seen.append(partition.log.high_watermark)
    assert seen == [4, 4, 7, 10]


def test_watchers_are_told_once() -> None:
    rig, partition = hosted()
    watchers = [Watcher(), Watcher()]
    for number, watcher in enumerate(watchers):
        partition.watch(watcher, number)
    rig.write("t")
    rig.write("t")
    size = partition.log.active.size_bytes // 2
    assert [watcher.heard for watcher in watchers] == [[("grew", 0, size)], [("grew", 1, size)]]
    partition.watch(watchers[0], "again")
    partition.watch(watchers[1], "again")
    partition.unwatch(watchers[1])
    follow(partition, leader_id=2, leader_epoch=6)
    assert watchers[0].heard[1:] == [("changed", "again", 0)]
    assert len(watchers[1].heard) == 1


def test_who_waits_for_replicas_is_told_in_order_or_told_why_not() -> None:
    rig, partition = hosted(replicas=(1, 2))
    rig.write("t", count=6)
    first, second, third = Waiter(), Waiter(), Waiter()
    for offset, waiter in ((2, first), (4, second), (6, third)):
        partition.wait_for_commit(offset, waiter)
    partition.follower_fetched(2, 4, now_ms=0)
    assert [w.errors for w in (first, second, third)] == [[ErrorCode.NONE], [ErrorCode.NONE], []]
    follow(partition, leader_id=2, leader_epoch=6)
    assert third.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    partition.retire()
    assert len(third.errors) == 1


def test_who_has_given_up_waiting_is_told_nothing_and_the_others_are() -> None:
    """The last of them waits for a batch that was sent again, before those that came behind it."""
    rig, partition = hosted(replicas=(1, 2))
    rig.write("t", count=6)
    waiters = [Waiter() for _ in range(4)]
    for offset, waiter in zip((2, 4, 6, 1), waiters, strict=True):
        partition.wait_for_commit(offset, waiter)
    partition.forget_commit_waiter(waiters[1])
    partition.forget_commit_waiter(waiters[1])
    partition.follower_fetched(2, 4, now_ms=0)
    assert [waiter.errors for waiter in waiters] == [[ErrorCode.NONE], [], [], [ErrorCode.NONE]]
    assert list(partition.commit_waiters) == [waiters[2]]


P, Q = (b"t", 0), (b"t", 1)


def test_the_first_batches_of_a_connection_are_watched() -> None:
    watched = WatchedBatches(always=False)
    a: WalkedBytes = {}
    assert not is_trusted(a, P)
    seen = [watched.next_is_walked(a, P, 1000, 0) for _ in range(10)]
    assert seen == [True] * 8 + [False] * 2
    assert is_trusted(a, P)
    assert not is_trusted(a, Q)
    assert watched.next_is_walked(a, Q, 1000, 0)
    assert watched.next_is_walked(a, (b"made anew", 0), 1000, 0)
    assert watched.next_is_walked({}, P, 1000, 0)
    assert all(WatchedBatches(always=True).next_is_walked(a, P, MIB, 0) for _ in range(20))


@pytest.mark.parametrize(("size_bytes", "walked"), [(16 * KIB, 8), (20 * KIB, 7), (64 * KIB, 2), (MIB, 1)])
def test_the_larger_the_batches_the_fewer_are_watched(size_bytes: int, walked: int) -> None:
    watched = WatchedBatches(always=False)
    a: WalkedBytes = {}
    seen = [watched.next_is_walked(a, P, size_bytes, 0) for _ in range(10)]
    assert seen == [True] * walked + [False] * (10 - walked)


def test_the_node_watches_so_many_bytes_in_a_second_beyond_first_batches() -> None:
    watched = WatchedBatches(always=False)
    size_bytes, crowd = 16 * KIB, 3 * WALKED_ON_NODE_BYTES // (16 * KIB)
    connections: list[WalkedBytes] = [{} for _ in range(crowd)]
    late: WalkedBytes = {}

    def walked(connection: WalkedBytes, now_ms: int) -> bool:
        return watched.next_is_walked(connection, P, size_bytes, now_ms)

    assert all(walked(each, 0) for each in connections), "the first of each connection, always"
    assert not any(walked(each, 999) for each in connections)
    assert not any(walked(each, 1999) for each in connections), "who was let off is trusted"
    assert walked(late, 3000)
    assert walked(late, 3000), "another second has begun"


def test_who_has_written_to_very_many_partitions_is_watched_on_none() -> None:
    watched = WatchedBatches(always=False)
    a: WalkedBytes = {}
    for index in range(WALKED_PARTITIONS_PER_CONNECTION):
        assert not is_trusted(a, P)
        assert watched.next_is_walked(a, (b"t", index), 1000, 0)
    for index in range(3 * WALKED_PARTITIONS_PER_CONNECTION):
        assert is_trusted(a, (b"t", index))
        assert not watched.next_is_walked(a, (b"t", index), 1000, 0)
    assert len(a) == WALKED_PARTITIONS_PER_CONNECTION
    assert WatchedBatches(always=True).next_is_walked(a, P, 1000, 0)
