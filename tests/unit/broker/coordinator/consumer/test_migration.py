"""Groups with members change their protocol: who is a member, what is recorded, what may be refused."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.consumer.operation import ConsumerGroupSettings
from broker.coordinator.group_keys import SHORT
from broker.coordinator.group_operation import GroupSettings
from protocol.codec.compiler import decode, encode
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.join_group import JoinGroupResponse
from protocol.records.reader import batch_records
from tests.support.rigs.group_world import GroupWorld, is_parked, now

SESSION_MS = 10_000
REBALANCE_MS = 20_000


def world_with(policy: str = "bidirectional", **settings: Any) -> GroupWorld:
    consumer = ConsumerGroupSettings(
        group_consumer_assignment_interval_ms=0, group_consumer_migration_policy=policy
    )
    world = GroupWorld(GroupSettings(consumer=consumer, **settings))
    world.cluster.topics.update({"t": 4})
    return world


def subscription(topics: tuple[str, ...] = ("t",), owned: tuple[int, ...] = (), version: int = 1) -> bytes:
    said = ConsumerProtocolSubscription(topics=list(topics))
    if owned:
        said.owned_partitions = [ConsumerProtocolSubscription.TopicPartition("t", list(owned))]
    return version.to_bytes(2) + encode(said, version)


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    given = [ConsumerProtocolAssignment.TopicPartition("t", list(partitions))] if partitions else []
    return b"\0\1" + encode(ConsumerProtocolAssignment(given, user_data), 1)


def partitions(blob: bytes) -> list[int]:
    given = decode(ConsumerProtocolAssignment, int.from_bytes(blob[:2]), blob[2:])
    return [number for topic in given.assigned_partitions for number in topic.partitions]


class Classic:
    """A classic consumer."""

    def __init__(self, world: GroupWorld, instance: str | None = None) -> None:
        self.world, self.instance = world, instance
        self.member_id = "" if instance is not None else world.new_id(protocols=(("range", subscription()),))
        self.generation = -1
        self.owned: list[int] = []

    def ask(self, topics: tuple[str, ...] = ("t",)) -> Any:
        return self.world.join(
            member_id=self.member_id,
            instance=self.instance,
            protocols=(("range", subscription(topics, tuple(self.owned))),),
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )

    def hear(self, answer: Any) -> JoinGroupResponse:
        response: JoinGroupResponse = now(answer)
        assert response.error_code == 0, response
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def sync(self, shares: dict[str, bytes] | None = None) -> Any:
        return self.world.sync(
            self.member_id, self.generation, shares, instance=self.instance, protocol="range"
        )

    def take(self, answer: Any) -> list[int]:
        response = now(answer)
        assert response.error_code == 0, response
        self.owned = partitions(response.assignment)
        return self.owned

    def beat(self) -> ErrorCode:
        return self.world.heartbeat(self.member_id, self.generation, instance=self.instance)

    def rejoins(self) -> list[int]:
        """In a consumer group nobody waits for others."""
        self.hear(self.ask())
        return self.take(self.sync())


def stable(world: GroupWorld, shares: dict[int, tuple[int, ...]], **options: Any) -> list[Classic]:
    """Classic members in a stable group, the first one leader."""
    members = [Classic(world, **options) for _ in shares]
    asked = [member.ask() for member in members]
    world.timers.advance(2 * world.settings.group_initial_rebalance_delay_ms)
    for member, answer in zip(members, asked, strict=True):
        member.hear(answer)
    given = {members[number].member_id: assignment(*share) for number, share in shares.items()}
    waiting = [member.sync() for member in members[1:]]
    leading = members[0].sync(given)
    for member, answer in zip(members, [leading, *waiting], strict=True):
        member.take(answer)
    return members


def beat(
    world: GroupWorld, member_id: str, epoch: int, owned: tuple[int, ...] | None = None, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    topic_id = world.cluster.topic_id("t") or b""
    if owned is not None:
        kept = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, list(owned))] if owned else []
        fields["topic_partitions"] = kept
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    answer: ConsumerGroupHeartbeatResponse = now(
        world.groups.consumer_heartbeat(request, world.context(68, 1))
    )
    return answer


def join(world: GroupWorld, member_id: str = "n", **fields: Any) -> ConsumerGroupHeartbeatResponse:
    return beat(world, member_id, 0, (), rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], **fields)


def given(response: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert response.assignment is not None
    return [number for topic in response.assignment.topic_partitions for number in topic.partitions]


def kinds(world: GroupWorld, since: int = 0) -> list[tuple[int, bool]]:
    """What kinds of records were written, and whether they were tombstones."""
    batches = world.log.batches["__consumer_offsets", world.groups.partition_for("g")][since:]
    return [
        (SHORT.unpack_from(record.key or b"")[0], record.value is None)
        for batch in batches
        for record in batch_records(batch)
    ]


def group_type(world: GroupWorld) -> str:
    (listed,) = world.groups.list_groups([], []).groups
    return listed.group_type


def mixed(world: GroupWorld) -> tuple[Classic, Classic, int]:
    """Two classic members and `n`; who has what is settled. The last is the epoch of `n`."""
    a, b = stable(world, {0: (0, 1), 1: (2, 3)})
    epoch = join(world).member_epoch
    for member in (a, b):
        assert member.beat() is ErrorCode.REBALANCE_IN_PROGRESS
        member.rejoins()
        if member.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            member.rejoins()
    answer = beat(world, "n", epoch, ())
    assert sorted([*a.owned, *b.owned, *given(answer)]) == [0, 1, 2, 3]
    return a, b, answer.member_epoch


def test_a_group_is_taken_over_with_what_its_members_have() -> None:
    world = world_with()
    a, _ = stable(world, {0: (0, 1), 1: (2, 3)})
    assert world.commit_error(7, member_id=a.member_id, generation=a.generation) is ErrorCode.NONE
    before = len(world.log.batches["__consumer_offsets", world.groups.partition_for("g")])
    joined = join(world)
    assert (joined.error_code, joined.member_epoch, given(joined)) == (0, a.generation + 1, [])
    takes_over = [(2, True), (5, False), (5, False), (3, False), (7, False), (7, False), (6, False)]
    assert kinds(world, before)[:9] == [*takes_over, (8, False), (8, False)]
    for restarted in (False, True):
        if restarted:
            world.restart()
        group = world.groups.describe_consumer_group("g")
        assert (group.group_epoch, group.group_state) == (a.generation + 1, "Reconciling")
        assert [each.member_type for each in group.members] == [0, 0, 1]
        has = [[p.partitions for p in each.assignment.topic_partitions] for each in group.members]
        assert has == [[[0, 1]], [[2, 3]], []]
        assert world.committed().offset == 7
        assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.commit_error(8, member_id=a.member_id, generation=a.generation) is ErrorCode.NONE


def test_members_of_both_protocols_share_and_never_overlap() -> None:
    world = world_with()
    a, b, epoch = mixed(world)
    assert (a.beat(), b.beat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert world.groups.describe_consumer_group("g").group_state == "Stable"
    assert now(a.world.sync(a.member_id, a.generation - 1)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert now(world.sync("n", epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    other = now(world.sync(a.member_id, a.generation, protocol="other"))
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    c = Classic(world)
    assert c.rejoins() == []
    (left,) = world.leave(c.member_id).members
    assert left.error_code == 0
    assert c.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert group_type(world) == "consumer"


def test_a_classic_member_that_does_not_join_or_sync_or_speak_is_removed() -> None:
    world = world_with()
    stable(world, {0: (0, 1), 1: (2, 3)})
    epoch = join(world).member_epoch

    def members() -> int:
        return len(world.groups.describe_consumer_group("g").members)

    def wait_ms(milliseconds: int) -> None:
        for _ in range(milliseconds // 5_000):
            world.timers.advance(5_000)
            beat(world, "n", epoch, ())

    assert members() == 3
    wait_ms(SESSION_MS + 5_000)
    assert members() == 1
    c, d = Classic(world), Classic(world)
    c.hear(c.ask())
    d.rejoins()
    epoch = beat(world, "n", epoch, ()).member_epoch
    for _ in range(REBALANCE_MS // 5_000):
        c.beat()
        d.beat()
        wait_ms(5_000)
    assert c.beat() is ErrorCode.UNKNOWN_MEMBER_ID, "it never asked for its share"
    assert d.beat() is ErrorCode.UNKNOWN_MEMBER_ID, "it was told to join again for longer than it may take"


def test_who_waits_in_a_classic_group_is_sent_to_join_anew() -> None:
    world = world_with()
    a = Classic(world)
    waiting = a.ask()
    assert is_parked(waiting)
    assert join(world).error_code == 0
    assert now(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    a.rejoins()
    assert group_type(world) == "consumer"


def test_the_last_member_of_the_newer_protocol_makes_the_group_classic_again() -> None:
    world = world_with()
    a, b, epoch = mixed(world)
    before = len(world.log.batches["__consumer_offsets", world.groups.partition_for("g")])
    beat(world, "n", -1)
    assert group_type(world) == "classic"
    written = kinds(world, before)
    assert written[-1] == (2, False)
    assert {kind for kind, is_tombstone in written if is_tombstone} == {3, 4, 5, 6, 7, 8}
    assert world.groups.describe("g", 5).group_state == "PreparingRebalance"
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    asked = [a.ask(), b.ask()]
    for member, answer in zip((a, b), asked, strict=True):
        member.hear(answer)
    assert a.generation == epoch + 1
    following = b.sync()
    assert a.take(a.sync({a.member_id: assignment(0, 1), b.member_id: assignment(2, 3)})) == [0, 1]
    assert b.take(following) == [2, 3]
    world.restart()
    assert a.beat() is ErrorCode.NONE


def test_what_a_downgraded_group_has_is_loaded_from_its_record() -> None:
    world = world_with()
    a, b, _ = mixed(world)
    beat(world, "n", -1)
    world.restart()
    group = world.groups.describe("g", 5)
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert {each.member_id: partitions(each.member_assignment) for each in group.members} == {
        a.member_id: a.owned,
        b.member_id: b.owned,
    }
    assert a.beat() is ErrorCode.NONE


def test_a_static_member_changes_its_protocol_both_ways() -> None:
    world = world_with()
    a = Classic(world, instance="one")
    asked = a.ask()
    world.timers.advance(2 * world.settings.group_initial_rebalance_delay_ms)
    a.hear(asked)
    a.take(a.sync({a.member_id: assignment(0, 1, 2, 3)}))
    joined = join(world, instance_id="one")
    assert (joined.error_code, given(joined)) == (0, [0, 1, 2, 3])
    assert group_type(world) == "consumer"
    assert a.beat() is ErrorCode.FENCED_INSTANCE_ID
    back = Classic(world, instance="one")
    back.hear(back.ask())
    assert group_type(world) == "classic"
    assert back.generation == joined.member_epoch
    assert back.take(back.sync()) == [0, 1, 2, 3]
    assert back.beat() is ErrorCode.NONE
    world.restart()
    assert back.beat() is ErrorCode.NONE


def test_a_member_whose_time_is_over_is_removed_though_the_group_cannot_become_classic() -> None:
    world = world_with()
    assert join(world).error_code == 0
    unread = (("range", subscription()), ("other", b""))
    classic = []
    for said in (unread, (("other", subscription()),)):
        member = world.new_id(protocols=said)
        joined = now(world.join(member_id=member, protocols=said, session_ms=1_800_000))
        synced = now(world.sync(member, joined.generation_id, protocol=said[0][0]))
        assert (joined.error_code, synced.error_code) == (0, 0)
        classic.append(member)
    refused = beat(world, "n", -1)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "Cannot downgrade the classic group g" in (refused.error_message or "")
    world.timers.advance(world.settings.consumer.group_consumer_session_timeout_ms + 1)
    assert world.groups.failures == 0
    left = [member.member_id for member in world.groups.describe_consumer_group("g").members]
    assert left == classic
    assert group_type(world) == "consumer"


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", False, False), ("Upgrade", True, False), ("DOWNGRADE", False, True)],
)
def test_the_policy_decides(policy: str, upgrades: bool, downgrades: bool) -> None:
    world = world_with(policy)
    stable(world, {0: (0, 1, 2, 3)})
    answer = join(world)
    assert (answer.error_code == 0) is upgrades
    if not upgrades:
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "online upgrade is disabled" in (answer.error_message or "")
    world = world_with(policy)
    join(world)
    asked = world.join(protocols=(("range", subscription()),))
    if policy == "disabled":
        assert now(asked).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    a = Classic(world)
    a.rejoins()
    beat(world, "n", -1)
    assert group_type(world) == ("classic" if downgrades else "consumer")


def test_what_cannot_be_taken_over_stays_as_it_is() -> None:
    world = world_with()
    (leader,) = world.stable_group(1, protocol_type="connect")
    assert "embedded protocol" in (join(world).error_message or "")
    world.leave(leader)
    world = world_with()
    (leader,) = world.stable_group(1)
    assert "is malformed" in (join(world).error_message or "")
    assert world.heartbeat(leader, 1) is ErrorCode.NONE
    world = world_with()
    a = Classic(world)
    asked = a.ask()
    world.timers.advance(2 * world.settings.group_initial_rebalance_delay_ms)
    a.hear(asked)
    now(a.sync({a.member_id: assignment(0, user_data=b"mine")}))
    assert "custom assignor" in (join(world).error_message or "")
    assert a.beat() is ErrorCode.NONE


def test_a_classic_client_needs_the_consumer_protocol_and_one_that_all_have() -> None:
    world = world_with()
    join(world)
    refused = now(world.join(member_id="x", protocol_type="connect"))
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    Classic(world).rejoins()
    other = now(world.join(member_id="x", protocols=(("sticky", subscription()),)))
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    nonsense = now(world.join(member_id="x", protocols=(("range", b"?"),)))
    assert nonsense.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_conversion_that_the_log_refuses_has_not_been(direction: str) -> None:
    world = world_with()
    if direction == "up":
        a, b = stable(world, {0: (0, 1), 1: (2, 3)})
    else:
        a, b, epoch = mixed(world)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = join(world) if direction == "up" else beat(world, "n", -1)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refusal = ErrorCode.NONE
    assert group_type(world) == ("classic" if direction == "up" else "consumer")
    assert (a.beat(), b.beat()) == (ErrorCode.NONE, ErrorCode.NONE)
    if direction == "up":
        return
    assert beat(world, "n", epoch, ()).error_code == 0
    for _ in range(6):
        world.timers.advance(9_000)
        a.beat()
        b.beat()
    assert group_type(world) == "classic", "the member whose leaving was refused has a session again"
