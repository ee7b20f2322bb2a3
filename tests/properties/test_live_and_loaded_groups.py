"""A live shard and one that is loaded from its log are equal, whatever was done to the live one.

The log is the only memory that a new coordinator has. Whatever operations ran, in whatever order, refused or
committed, in transactions or not: as soon as the log has decided on everything, a shard that replays the log
has the same offsets with the same expiry times, the same recorded group metadata, the same groups, and the
same open transactions. A classic group's members live in memory alone while a rebalance runs, as in Kafka;
whenever the group is Stable or Empty they are those of its record, unless the log refused that record.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from broker.coordinator.classic.states import GroupState
from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.coordinator.group_operation import GroupSettings
from broker.coordinator.group_shard import GroupShard
from broker.coordinator.offsets.offset_records import OffsetAndMetadata, offset_record, offset_tombstone
from broker.coordinator.ports import CurrentTime
from broker.coordinator.runtime.pending_writes import Transaction
from broker.coordinator.runtime.result import CoordinatorResult
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.records.control import TransactionMarker
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import GroupWorld

WALKS: Final = 100
STEPS: Final = 120
SETTINGS: Final = GroupSettings(
    group_initial_rebalance_delay_ms=1_000,
    offsets_retention_ms=60_000,
    offsets_retention_check_interval_ms=30_000,
)
AT_REST: Final = (GroupState.EMPTY, GroupState.STABLE)
SUBSCRIPTION: Final = b"\0\1\0\0\0\1\0\1t\0\0\0\0"
"""A consumer's metadata that names the topic t."""


class Walk:
    """A live shard and all that may be done to it, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = GroupWorld(SETTINGS)
        self.world.cluster.topics[GROUP_TOPIC] = 1
        self.runtime = self.world.groups._runtime
        self.members: dict[str, dict[str, int]] = {"g": {}, "h": {}}
        """By group: who has joined, with its generation."""
        self.joining: list[tuple[str, Pending[Any]]] = []
        self.memory_only: set[str] = set()
        """Groups of which the log has refused something: they may be ahead of their record."""

    def step(self) -> None:
        does = self.random.choice(
            (
                self.commit, self.commit, self.delete_offset, self.delete_group, self.delete_topic,
                self.write_in_a_transaction, self.write_in_a_transaction, self.end_a_transaction,
                self.join, self.join, self.sync, self.leave, self.an_error_of_ours, self.time_passes,
                self.the_log_becomes_slow, self.the_log_decides, self.the_log_decides,
            )
        )  # fmt: skip
        does()
        for group, answer in self.joining:
            if answer.done:
                self.joined(group, answer.response)
        self.joining = [each for each in self.joining if not each[1].done]

    def place(self) -> tuple[str, str, int]:
        return self.random.choice("gh"), self.random.choice("tu"), self.random.randrange(2)

    # Offsets

    def commit(self) -> None:
        group, topic, partition = self.place()
        member_id, generation = "", -1
        if self.members[group] and self.random.random() < 0.5:
            member_id, generation = next(iter(self.members[group].items()))
        self.world.commit(
            self.random.randrange(10), group_id=group, topic=topic, partition=partition, version=4,
            retention_ms=self.random.choice((-1, -1, 0, 20_000, 500_000)),
            member_id=member_id, generation=generation,
        )  # fmt: skip

    def delete_offset(self) -> None:
        group, topic, partition = self.place()
        self.world.groups.delete_offsets(deletion(group, topic, partition))

    def delete_group(self) -> None:
        self.world.groups.delete_group(self.random.choice("gh"))

    def delete_topic(self) -> None:
        self.world.groups.topics_changed({self.random.choice("tu"): bytes(16)})

    # Transactions

    def write_in_a_transaction(self) -> None:
        places = [self.place() for _ in range(self.random.randrange(1, 4))]

        def operation(shard: GroupShard, now: CurrentTime) -> CoordinatorResult[ErrorCode]:
            result = CoordinatorResult(ErrorCode.NONE)
            for place in places:
                committed = OffsetAndMetadata(self.random.randrange(10), commit_timestamp_ms=now.wall_ms)
                is_gone = self.random.random() < 0.2
                record = offset_tombstone(*place) if is_gone else offset_record(*place, committed)
                result.records.append(record)
            return result

        producer = Transaction(self.random.randrange(2), 0)
        self.runtime.write(0, operation, same, transaction=producer)

    def end_a_transaction(self) -> None:
        marker = TransactionMarker(self.random.random() < 0.7, 0)
        ended = Transaction(self.random.randrange(2), 0, marker)
        self.runtime.write(0, lambda shard, now: CoordinatorResult(ErrorCode.NONE), same, transaction=ended)

    # Members

    def join(self) -> None:
        group, instance = self.random.choice("gh"), self.random.choice((None, None, "one"))
        is_again = instance is None and self.random.random() < 0.5
        answer = self.world.join(
            group, next(iter(self.members[group]), "") if is_again else "", version=9 if instance else 3,
            instance=instance, session_ms=10_000, rebalance_ms=5_000, protocols=(("range", SUBSCRIPTION),),
        )  # fmt: skip
        if isinstance(answer, Pending):
            self.joining.append((group, answer))
        else:
            self.joined(group, answer)

    def joined(self, group: str, response: Any) -> None:
        if response.error_code == ErrorCode.NONE:
            self.members[group][response.member_id] = response.generation_id

    def sync(self) -> None:
        group = self.random.choice("gh")
        shares = {member: f"share of {member}".encode() for member in self.members[group]}
        for member, generation in self.members[group].items():
            self.world.sync(member, generation, shares, group_id=group)

    def leave(self) -> None:
        group = self.random.choice("gh")
        leaving = list(self.members[group])[: self.random.randrange(3)]
        self.world.groups.leave(group, [LeaveGroupRequest.MemberIdentity(each) for each in leaving])
        for each in leaving:
            del self.members[group][each]

    def an_error_of_ours(self) -> None:
        """It leaves a group half changed. The log is at hand, so that the group's end can be written."""
        if not self.world.log.held:
            self.world.log.held = None
            self.runtime.write(0, spoil(self.random.choice("gh")), same)

    # Time and the log

    def time_passes(self) -> None:
        """Not while the log is slow: a write that is not confirmed in time, and refused after that, is one
        of a broker that is no leader any longer."""
        if not self.world.log.held:
            self.world.log.held = None
            self.world.timers.advance(self.random.choice((1, 1_000, 5_000, 11_000, 31_000, 70_000)))

    def the_log_becomes_slow(self) -> None:
        if self.world.log.held is None:
            self.world.log.held = []

    def the_log_decides(self) -> None:
        """On some of the writes that it has held back."""
        for _ in range(self.random.randrange(6)):
            if self.world.log.held:
                error = self.random.choice((ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS))
                if error:
                    self.memory_only |= {"g", "h"}
                self.world.log.decide(error)

    def compare(self) -> None:
        if self.world.log.held:
            return
        other = self.world.loaded_coordinator()
        live, loaded = self.world.shard("g"), self.world.shard("g", other)
        assert recorded(live) == recorded(loaded)
        mine, theirs = live.group_metadata.groups, loaded.group_metadata.groups
        for group_id in mine.keys() | theirs.keys():
            assert group_id in mine
            if mine[group_id].state not in AT_REST:
                continue
            assert group_id in theirs
            if group_id not in self.memory_only:
                assert membership(mine[group_id]) == membership(theirs[group_id])
        other.close()


def deletion(group: str, topic: str, partition: int) -> OffsetDeleteRequest:
    cls = OffsetDeleteRequest
    return cls(group, [cls.OffsetDeleteRequestTopic(topic, [cls.OffsetDeleteRequestPartition(partition)])])


def spoil(group: str) -> Any:
    """An operation that raises when it has changed half of a group."""

    def operation(shard: GroupShard, now: CurrentTime) -> CoordinatorResult[ErrorCode]:
        shard.begin(now, group)
        found = shard.group_metadata.get(group)
        if found is not None:
            found.pending_sync["nobody"] = None
        raise KeyError("a fault of ours")

    return operation


def same(error: ErrorCode) -> ErrorCode:
    return error


def recorded(shard: GroupShard) -> Any:
    """All that records have made of a shard."""
    groups, committed = shard.group_metadata, shard.offset_metadata.committed
    pending = shard.offset_metadata.pending
    return {
        "metadata": [
            (group_id, groups.recorded(group_id))
            for group_id in sorted(groups.groups)
            if groups.recorded(group_id) is not None
        ],
        "offsets": {group_id: committed.topics(group_id) for group_id in sorted(committed.groups())},
        "transactions": {producer: dict(held) for producer, held in sorted(pending.by_producer.items())},
        "unstable": sorted(
            (group_id, *place) for group_id in pending.groups() for place in pending.partitions(group_id)
        ),
    }


def membership(group: Any) -> Any:
    """What a new coordinator must know of a group. When it became empty decides on when it expires."""
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.state_timestamp_ms if group.state is GroupState.EMPTY else None,
        group.topics,
        {
            each.member_id: (each.group_instance_id, each.session_timeout_ms, each.assignment)
            for each in group.members.values()
        },
    )


@pytest.mark.parametrize("seed", range(WALKS))
def test_live_and_loaded_are_equal(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        walk.compare()


def test_a_simple_group_whose_last_offset_is_deleted_stays_until_it_expires() -> None:
    """As in Kafka. A loaded shard once forgot it at once."""
    world = GroupWorld(SETTINGS)
    world.commit_error(5)
    world.groups.delete_offsets(deletion("g", "t", 0))
    assert world.state() == "Empty"
    world.restart()
    assert world.state() == "Empty"
    world.timers.advance(31_000)
    assert world.groups.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_of_a_group_that_an_error_of_ours_has_ended_do_not_come_back() -> None:
    """They were told to join anew, so a new coordinator must not wait for them."""
    world = GroupWorld(SETTINGS)
    (member,) = world.stable_group(1)
    runtime = world.groups._runtime
    assert runtime.write(world.groups.partition_for("g"), spoil("g"), same) is ErrorCode.UNKNOWN_SERVER_ERROR
    for _ in range(2):
        assert world.state() == "Empty"
        assert world.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        world.restart()


def test_a_new_group_that_was_stored_too_late_is_there_all_the_same() -> None:
    world = GroupWorld(GroupSettings(group_initial_rebalance_delay_ms=10_000))
    world.log.held = []
    answer = world.join("g", version=3)
    world.timers.advance(5_000)
    assert isinstance(answer, Pending)
    assert answer.response is not None
    assert answer.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.decide()
    world.log.held = None
    for _ in range(2):
        assert world.state() == "Empty"
        world.restart()
