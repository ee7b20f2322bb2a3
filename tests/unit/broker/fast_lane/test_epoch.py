"""A change of each kind between two requests of one read: the second is answered as if there was no lane.

A new kind of change that could alter an answer belongs into `CHANGES`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from broker.fast_lane.epoch import LaneEpoch
from broker.fast_lane.produce_lane import ProduceLane
from broker.metadata.cache import MetadataCache
from broker.network.connection import MUTED
from broker.network.limits import ConnectionLimits
from broker.server.dynamic_configs import DynamicConfigListeners
from config.limits import WAITING_PRODUCE_PER_CONNECTION
from controller.metadata.image.cluster_image import EMPTY_IMAGE
from protocol.errors import ErrorCode
from protocol.metadata_log.cluster import ClientQuotaRecord
from storage.faulty_files import Fault
from tests.support.rigs.handler_rig import NOT_THERE, CountingRandomSource
from tests.support.rigs.produce_world import WALKED, ProduceWorld

WAITS: Final = -2
"""In place of an error code: there is no answer yet."""


class Change(NamedTuple):
    """What happens, and what the request behind it is told. needs_epoch: the lane would not see the change by
    itself."""

    happens: Callable[[ProduceWorld], object]
    code: int
    acks: int = 1
    version: int = 12
    needs_epoch: bool = True


def made_anew(world: ProduceWorld) -> None:
    world.remove("t")
    world.topic("t")


def start_raised(world: ProduceWorld) -> None:
    partition = world.rig.replicas.by_name["t", 0]
    partition.raise_log_start(partition.log.high_watermark)


def too_few_in_sync(world: ProduceWorld) -> None:
    world.configure("t", "min.insync.replicas", "2")
    world.move("t", replicas=[1, 2], isr=[1])


def disk_full(world: ProduceWorld) -> None:
    world.files.faults.append(Fault("write", count=10**6, path_part=".log"))


def configured(key: str, value: str) -> Callable[[ProduceWorld], object]:
    return lambda world: world.configure("t", key, value)


def moved(**changes: Any) -> Callable[[ProduceWorld], object]:
    return lambda world: world.move("t", 0, **changes)


CHANGES: Final = {
    "topic deleted": Change(lambda world: world.remove("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "topic deleted, by id": Change(lambda world: world.remove("t"), ErrorCode.UNKNOWN_TOPIC_ID, version=13),
    "topic made anew": Change(made_anew, ErrorCode.NONE),
    "topic made anew, by id": Change(made_anew, ErrorCode.UNKNOWN_TOPIC_ID, version=13),
    "another leader": Change(moved(leader=2), ErrorCode.NOT_LEADER_OR_FOLLOWER, needs_epoch=False),
    "no leader": Change(moved(leader=-1), ErrorCode.NOT_LEADER_OR_FOLLOWER, needs_epoch=False),
    "moved away": Change(moved(leader=2, replicas=[2], isr=[2]), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "another leader epoch": Change(moved(leader=1), ErrorCode.NONE, needs_epoch=False),
    "an entry denies it": Change(
        lambda world: world.deny_by_entry("t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ),
    "no write permitted": Change(lambda world: world.deny("t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    "log directory failed": Change(
        lambda world: world.rig.replicas.log_went_offline("t", 0), ErrorCode.KAFKA_STORAGE_ERROR
    ),
    "too few in sync": Change(too_few_in_sync, ErrorCode.NOT_ENOUGH_REPLICAS, acks=-1, needs_epoch=False),
    "more in sync": Change(moved(replicas=[1, 2], isr=[1, 2]), WAITS, acks=-1, needs_epoch=False),
    "smaller batches": Change(
        configured("max.message.bytes", "10"), ErrorCode.MESSAGE_TOO_LARGE, needs_epoch=False
    ),
    "append time": Change(
        configured("message.timestamp.type", "LogAppendTime"), ErrorCode.NONE, needs_epoch=False
    ),
    "compacted": Change(configured("cleanup.policy", "compact"), ErrorCode.NONE, needs_epoch=False),
    "another codec": Change(configured("compression.type", "gzip"), ErrorCode.NONE, needs_epoch=False),
    "each append synced": Change(configured("flush.messages", "1"), ErrorCode.NONE, needs_epoch=False),
    "log start raised": Change(start_raised, ErrorCode.NONE, needs_epoch=False),
    "shutting down": Change(lambda world: world.connections[0].drain(), WAITS, needs_epoch=False),
    "throttled": Change(lambda world: world.connections[0].mute(1000), WAITS, needs_epoch=False),
    "disk full": Change(disk_full, ErrorCode.KAFKA_STORAGE_ERROR, needs_epoch=False),
}


def warmed(change: Change, *, fast: bool) -> ProduceWorld:
    world = ProduceWorld(fast=fast)
    world.topic("t")
    world.warm("t", acks=change.acks, version=change.version)
    return world


def read(world: ProduceWorld, change: Change) -> None:
    """One read: a request, the change, the same request twice."""
    one = world.request("t", bytes(world.rig.batch(size_bytes=50)), acks=change.acks, version=change.version)
    world.between = change.happens
    world.send(one + world.interlude() + one + one)


@pytest.mark.parametrize("name", CHANGES)
def test_the_request_behind_a_change_sees_it(name: str) -> None:
    change = CHANGES[name]
    slow, fast = warmed(change, fast=False), warmed(change, fast=True)
    taken = fast.taken_by_lane
    read(slow, change)
    read(fast, change)
    assert fast.taken_by_lane > taken, "the request before the change is on the lane"
    answers = fast.answers(version=change.version)
    before = len(slow.answers(version=change.version)) - (1 if change.code == WAITS else 3)
    assert answers[before][0] == ErrorCode.NONE
    if change.code == WAITS:
        assert len(answers) == before + 1
    else:
        assert [each[0] for each in answers[before + 1 :]] == [change.code] * 2
    assert fast.wires[0].sent == slow.wires[0].sent
    assert fast.content() == slow.content()
    assert fast.counted() == slow.counted()


@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.needs_epoch])
def test_without_the_epoch_the_change_would_not_be_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change = CHANGES[name]
    monkeypatch.setattr(LaneEpoch, "bump", lambda self: None)
    slow, fast = warmed(change, fast=False), warmed(change, fast=True)
    read(slow, change)
    read(fast, change)
    assert fast.wires[0].sent != slow.wires[0].sent or fast.content() != slow.content()


class WhileWaiting(NamedTuple):
    """What happens while answers wait for a follower, and what they are told."""

    happens: Callable[[ProduceWorld], object]
    code: int


def fetched(world: ProduceWorld) -> None:
    partition, now_ms = world.rig.replicas.by_name["t", 0], world.rig.clock.monotonic_ms()
    partition.follower_fetched(2, partition.log.log_end_offset, now_ms=now_ms)


def one_fetched(world: ProduceWorld) -> None:
    """The follower has the first of the batches that wait, and nobody else."""
    partition, now_ms = world.rig.replicas.by_name["t", 0], world.rig.clock.monotonic_ms()
    partition.follower_fetched(2, partition.log.high_watermark + 1, now_ms=now_ms)


def too_few_remain(world: ProduceWorld) -> None:
    """What was appended is replicated when the ISR has become too small for acks=all."""
    partition = world.rig.replicas.by_name["t", 0]
    partition.is_under_min_isr = True
    partition._acknowledge(partition.log.log_end_offset)
    partition.is_under_min_isr = False


WHILE_WAITING: Final = {
    "replicated": WhileWaiting(fetched, ErrorCode.NONE),
    "the first one replicated": WhileWaiting(one_fetched, WAITS),
    "the other one out of sync": WhileWaiting(moved(isr=[1]), ErrorCode.NONE),
    "too few remain in sync": WhileWaiting(too_few_remain, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    "another leader": WhileWaiting(moved(leader=2), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "no leader": WhileWaiting(moved(leader=-1), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "another leader epoch": WhileWaiting(moved(leader=1), WAITS),
    "moved away": WhileWaiting(moved(leader=2, replicas=[2, 3], isr=[2]), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "topic deleted": WhileWaiting(lambda world: world.remove("t"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "log directory failed": WhileWaiting(
        lambda world: world.rig.replicas.log_went_offline("t", 0), ErrorCode.KAFKA_STORAGE_ERROR
    ),
    "time over": WhileWaiting(lambda world: world.rig.timers.advance(30_000), ErrorCode.REQUEST_TIMED_OUT),
    "time nearly over": WhileWaiting(lambda world: world.rig.timers.advance(29_999), WAITS),
    "no write permitted": WhileWaiting(lambda world: world.deny("t"), WAITS),
    "epoch bumped": WhileWaiting(lambda world: world.rig.lane_epoch.bump(), WAITS),
    "the client has gone": WhileWaiting(lambda world: world.connections[0].peer_gone("it goes"), WAITS),
}


def waited(change: WhileWaiting, version: int, *, fast: bool) -> ProduceWorld:
    """Three requests that wait when something happens, and two behind it."""
    world = ProduceWorld(fast=fast)
    world.topic("t", replicas=[1, 2], isr=[1, 2])
    for _ in range(2):
        world.warm("t", acks=-1, version=version)
        fetched(world)
        world.run()
    one = world.request("t", bytes(world.rig.batch(size_bytes=50)), acks=-1, version=version)
    taken = world.taken_by_lane
    world.send(one * 3)
    assert world.taken_by_lane == taken + 3 * fast
    assert world.connections[0].waiting == world.dispatcher.metrics.waiting == 3
    change.happens(world)
    world.run()
    if world.wires[0].closed is None:
        world.send(one * 2)
    return world


@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize("name", WHILE_WAITING)
def test_an_answer_that_waits_sees_a_change(name: str, version: int) -> None:
    change = WHILE_WAITING[name]
    slow, fast = waited(change, version, fast=False), waited(change, version, fast=True)
    answers = fast.answers(version=version)
    before = 2 * (WALKED + 1)
    if change.code != WAITS:
        assert [each[0] for each in answers[before : before + 3]] == [change.code] * 3
    else:
        assert [each[0] for each in answers[before:]] == [0] * (name == "the first one replicated")
    assert fast.wires[0].sent == slow.wires[0].sent
    assert fast.connections[0].waiting == slow.connections[0].waiting
    assert fast.dispatcher.metrics.waiting == slow.dispatcher.metrics.waiting
    assert fast.content() == slow.content()
    assert fast.counted() == slow.counted()


def test_no_more_answers_wait_than_may() -> None:
    world = waited(WHILE_WAITING["epoch bumped"], 12, fast=True)
    taken = world.taken_by_lane
    world.send(world.request("t", bytes(world.rig.batch()), acks=-1) * 40)
    connection = world.connections[0]
    assert connection.waiting == WAITING_PRODUCE_PER_CONNECTION
    assert world.taken_by_lane == taken + WAITING_PRODUCE_PER_CONNECTION - 5
    for _ in range(3):
        fetched(world)
        world.run()
    assert connection.waiting == 0
    assert not world.rig.replicas.by_name["t", 0].commit_waiters
    assert [each[0] for each in world.answers()[-45:]] == [0] * 45


def test_batches_of_transactions_take_the_long_way() -> None:
    """Also after the first one, which was verified, and beside plain ones of the same connection."""
    world = ProduceWorld(fast=True)
    world.topic("t")
    world.warm("t")
    taken = world.taken_by_lane
    for sequence in range(WALKED):
        batch = world.rig.batch(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        world.send(world.request("t", bytes(batch), transactional_id="tx"))
        world.rig.timers.run_soon()
    assert [code for code, _, _ in world.answers()] == [ErrorCode.NONE] * (2 * WALKED + 1)
    assert world.taken_by_lane == taken
    assert world.rig.asked_coordinator.asked == [("tx", ("t", 0), False)]


def test_after_a_change_the_lane_is_taken_again() -> None:
    world = warmed(CHANGES["another leader epoch"], fast=True)
    for _ in range(3):
        world.rig.lane_epoch.bump()
        taken = world.taken_by_lane
        world.send(world.request("t", bytes(world.rig.batch())) * 4)
        assert world.taken_by_lane == taken + 3


def test_a_partition_whose_disk_fails_keeps_no_other_from_the_lane() -> None:
    world = ProduceWorld(fast=True)
    world.topic("t", 2)
    for index in (0, 1):
        world.warm("t", index=index)

    def taken(index: int) -> int:
        before = world.taken_by_lane
        world.send(world.request("t", bytes(world.rig.batch()), index=index) * 2)
        return world.taken_by_lane - before

    world.files.faults.append(Fault("write", count=10**6, path_part="/t-1."))
    assert [taken(index) for index in (1, 0, 1, 0)] == [0, 2, 0, 2]
    world.files.faults.clear()
    assert taken(1) == 1, "the long way tells in the log that the disk works again"
    assert taken(1) == 2
    assert not world.rig.replicas.appends.failing


def test_each_image_bumps_the_epoch() -> None:
    epoch = LaneEpoch()
    cache = MetadataCache(random_source=CountingRandomSource(), lane_epoch=epoch)
    before = epoch.number
    cache.apply(EMPTY_IMAGE)
    assert epoch.number > before


def test_each_change_of_a_partitions_standing_bumps_the_epoch() -> None:
    world = ProduceWorld(fast=True)
    world.topic("t", replicas=[1, 2, 3], isr=[1, 2, 3])
    partition, epoch = world.rig.replicas.by_name["t", 0], world.rig.lane_epoch
    shrinking = None

    def shrink() -> None:
        nonlocal shrinking
        shrinking = partition.prepare_isr_shrink([3], 5)

    def reject() -> None:
        assert shrinking is not None
        assert partition.isr_rejected(shrinking)

    shrink()
    for change in (reject, lambda: partition.require_insync(2), partition.retire, partition.go_offline):
        before = epoch.number
        change()
        assert epoch.number > before


def test_there_is_no_lane_where_a_quota_may_throttle() -> None:
    world = warmed(CHANGES["another leader"], fast=True)
    assert isinstance(world.connections[0].fast_lane(0), ProduceLane)
    world = ProduceWorld(fast=True, throttled=True)
    world.topic("t")
    world.warm("t")
    assert world.connections[0].fast_lane(0) is None


def behind_a_quota(*, bumps: bool, monkeypatch: pytest.MonkeyPatch) -> ProduceWorld:
    """One read: a request on the lane, a quota that it would exceed, and the same request twice."""
    world = warmed(CHANGES["another leader"], fast=True)
    if not bumps:
        monkeypatch.setattr(LaneEpoch, "bump", lambda self: None)
    read(world, Change(lambda changed: changed.limit(producer_byte_rate=1), ErrorCode.NONE))
    return world


def test_the_request_behind_a_quota_is_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    world = behind_a_quota(bumps=True, monkeypatch=monkeypatch)
    assert len(world.answers()) == WALKED + 3
    assert world.connections[0].holds == MUTED
    without_epoch = behind_a_quota(bumps=False, monkeypatch=monkeypatch)
    assert len(without_epoch.answers()) == WALKED + 4
    assert without_epoch.connections[0].holds == 0


def test_a_quota_that_is_gone_leaves_the_lane_to_all() -> None:
    world = warmed(CHANGES["another leader"], fast=True)
    one = world.request("t", bytes(world.rig.batch()))
    taken = world.taken_by_lane
    world.limit(producer_byte_rate=1e9)
    world.send(one * 3)
    assert world.taken_by_lane == taken, "who has a quota takes the long way"
    world.limit(producer_byte_rate=None)
    world.send(one * 3)
    assert world.taken_by_lane == taken + 2
    world.limit(consumer_byte_rate=1e9)
    world.send(one * 3)
    assert world.taken_by_lane == taken + 2


def test_clients_without_a_quota_stay_on_the_lane() -> None:
    world = warmed(CHANGES["another leader"], fast=True)
    taken = world.taken_by_lane
    entity = [ClientQuotaRecord.EntityData("client-id", "other")]
    world.rig.apply(ClientQuotaRecord(entity, "producer_byte_rate", 1.0))
    world.limit()
    world.send(world.request("t", bytes(world.rig.batch())) * 3)
    assert world.taken_by_lane == taken + 2
    world.send(world.request("t", bytes(world.rig.batch()), client_id="other") * 3)
    assert world.taken_by_lane == taken + 2
    assert world.connections[0].holds == MUTED


def test_there_is_no_lane_for_a_session_that_will_end() -> None:
    """Whether it has ended is looked at with each request, which a lane would be in the way of (KIP-368)."""
    world = ProduceWorld(fast=True)
    world.connections[0].session.authentication = "that of a session with an end"
    world.topic("t")
    world.warm("t")
    assert world.connections[0].fast_lane(0) is None


def test_dynamic_configs_of_the_broker_bump_the_epoch() -> None:
    rig = ProduceWorld(fast=True).rig
    shared: Any = SimpleNamespace(
        logs=SimpleNamespace(cleaner=SimpleNamespace(settings=None)),
        server=SimpleNamespace(limits=ConnectionLimits(), close_excess=list),
        change_stores=lambda config: None,
        authentication=SimpleNamespace(change=lambda config: None),
    )
    acceptors: Any = {endpoint.listener: None for endpoint in rig.config.broker_listeners}
    epoch = LaneEpoch()
    followers = DynamicConfigListeners(shared, rig.services, acceptors, NOT_THERE, epoch)
    followers.follow(rig.image, rig.config)
    assert epoch.number > 0
