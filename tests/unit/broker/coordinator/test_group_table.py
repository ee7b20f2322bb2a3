"""What each event does in each state: the answer, what is written, where the group goes.

`a` leads and `b` follows in generation 1. In PreparingRebalance a third, `c`, has just joined and waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from broker.coordinator.classic.group_records import GROUP_VERSION, read_group
from broker.coordinator.classic.states import TRANSITIONS, GroupState, GroupStateCause
from broker.coordinator.group_keys import GROUP, read_key
from broker.coordinator.runtime.batches import loaded_batches
from protocol.errors import ErrorCode, InvariantViolated
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import GroupWorld, is_parked

OTHER = (("range", b"other"),)


class Cast(NamedTuple):
    """A group in some state, and who is who in it."""

    world: GroupWorld
    a: str
    b: str
    c: str


def stable() -> Cast:
    world = GroupWorld()
    world.cluster.topics["t"] = 1
    a, b = world.stable_group(2)
    return Cast(world, a, b, world.new_id("another"))


def empty() -> Cast:
    cast = stable()
    cast.world.leave(cast.a, cast.b)
    return cast


def preparing() -> Cast:
    cast = stable()
    c = cast.world.new_id()
    assert is_parked(cast.world.join("g", c))
    return cast._replace(c=c)


def completing() -> Cast:
    world = GroupWorld()
    a, b = world.new_id(), world.new_id()
    world.join("g", a)
    world.join("g", b)
    world.timers.advance(6_000)
    return Cast(world, a, b, world.new_id("another"))


def answer_of(answer: Any) -> str:
    """The name of the answer's error, or that it is parked."""
    if isinstance(answer, ErrorCode):
        return answer.name
    response = answer.response if isinstance(answer, Pending) else answer
    if response is None:
        return "parked"
    if hasattr(response, "topics"):
        return ErrorCode(response.topics[0].partitions[0].error_code).name
    if getattr(response, "members", None) and hasattr(response.members[0], "error_code"):
        return ErrorCode(response.members[0].error_code).name
    return ErrorCode(response.error_code).name


def records_of(world: GroupWorld) -> list[str]:
    """What was written to the group's partition, in words."""
    words = []
    for data in world.log.batches.get(("__consumer_offsets", world.groups.partition_for("g")), []):
        for batch in loaded_batches(data, 0 if data[:8] == bytes(8) else int.from_bytes(data[:8], "big")):
            for key, value in batch.records:
                read = read_key(key)
                assert read is not None
                if read.kind != GROUP:
                    words.append("offset" if value else "no offset")
                elif value is None:
                    words.append("no group")
                else:
                    assert value[:2] == GROUP_VERSION.to_bytes(2, "big")
                    group = read_group(read.group, value)
                    words.append(f"generation {group.generation} of {len(group.members)}")
    return words


EVENTS: Mapping[str, Callable[[Cast], Any]] = {
    "join new": lambda cast: cast.world.join("g"),
    "join new old client": lambda cast: cast.world.join("g", version=3),
    "join other type": lambda cast: cast.world.join("g", protocol_type="connect"),
    "join no common protocol": lambda cast: cast.world.join("g", protocols=(("alien", b""),)),
    "join unknown": lambda cast: cast.world.join("g", "nobody"),
    "join leader": lambda cast: cast.world.join("g", cast.a),
    "join follower": lambda cast: cast.world.join("g", cast.b),
    "join follower changed": lambda cast: cast.world.join("g", cast.b, protocols=OTHER),
    "sync leader": lambda cast: cast.world.sync(cast.a, 1, {cast.a: b"1", cast.b: b"2"}),
    "sync follower": lambda cast: cast.world.sync(cast.b, 1),
    "sync old generation": lambda cast: cast.world.sync(cast.b, 0),
    "sync wrong protocol": lambda cast: cast.world.sync(cast.b, 1, protocol="alien"),
    "sync unknown": lambda cast: cast.world.sync("nobody", 1),
    "beat": lambda cast: cast.world.heartbeat(cast.b, 1),
    "beat old generation": lambda cast: cast.world.heartbeat(cast.b, 0),
    "beat unknown": lambda cast: cast.world.heartbeat("nobody", 1),
    "commit": lambda cast: cast.world.commit(1, member_id=cast.b, generation=1),
    "commit old generation": lambda cast: cast.world.commit(1, member_id=cast.b, generation=0),
    "commit unknown": lambda cast: cast.world.commit(1, member_id="nobody", generation=1),
    "commit simple": lambda cast: cast.world.commit(1),
    "leave": lambda cast: cast.world.leave(cast.b),
    "leave unknown": lambda cast: cast.world.leave("nobody"),
    "leave all": lambda cast: cast.world.leave(cast.a, cast.b),
    "delete": lambda cast: cast.world.groups.delete_group("g"),
    "silence": lambda cast: cast.world.timers.advance(10_000),  # all sessions end
}

# state, event, answer, records written by it, next state
TABLE: tuple[tuple[Callable[[], Cast], str, str, list[str], str], ...] = (
    (empty, "join new", "MEMBER_ID_REQUIRED", [], "Empty"),
    (empty, "join new old client", "parked", [], "PreparingRebalance"),
    (empty, "join other type", "MEMBER_ID_REQUIRED", [], "Empty"),
    (empty, "join unknown", "UNKNOWN_MEMBER_ID", [], "Empty"),
    (empty, "sync follower", "UNKNOWN_MEMBER_ID", [], "Empty"),
    (empty, "beat", "UNKNOWN_MEMBER_ID", [], "Empty"),
    (empty, "commit", "UNKNOWN_MEMBER_ID", [], "Empty"),
    (empty, "commit simple", "NONE", ["offset"], "Empty"),
    (empty, "leave", "UNKNOWN_MEMBER_ID", [], "Empty"),
    (empty, "delete", "NONE", ["no group"], "Dead"),
    (empty, "silence", "", [], "Empty"),
    (preparing, "join new", "MEMBER_ID_REQUIRED", [], "PreparingRebalance"),
    (preparing, "join new old client", "parked", [], "PreparingRebalance"),
    (preparing, "join other type", "INCONSISTENT_GROUP_PROTOCOL", [], "PreparingRebalance"),
    (preparing, "join no common protocol", "INCONSISTENT_GROUP_PROTOCOL", [], "PreparingRebalance"),
    (preparing, "join unknown", "UNKNOWN_MEMBER_ID", [], "PreparingRebalance"),
    (preparing, "join leader", "parked", [], "PreparingRebalance"),
    (preparing, "join follower changed", "parked", [], "PreparingRebalance"),
    (preparing, "sync leader", "REBALANCE_IN_PROGRESS", [], "PreparingRebalance"),
    (preparing, "sync follower", "REBALANCE_IN_PROGRESS", [], "PreparingRebalance"),
    (preparing, "sync old generation", "ILLEGAL_GENERATION", [], "PreparingRebalance"),
    (preparing, "beat", "REBALANCE_IN_PROGRESS", [], "PreparingRebalance"),
    (preparing, "beat old generation", "ILLEGAL_GENERATION", [], "PreparingRebalance"),
    (preparing, "commit", "NONE", ["offset"], "PreparingRebalance"),
    (preparing, "commit simple", "UNKNOWN_MEMBER_ID", [], "PreparingRebalance"),
    (preparing, "leave", "NONE", [], "PreparingRebalance"),
    (preparing, "leave all", "NONE", [], "CompletingRebalance"),
    (preparing, "delete", "NON_EMPTY_GROUP", [], "PreparingRebalance"),
    (preparing, "silence", "", [], "CompletingRebalance"),
    (completing, "join new", "MEMBER_ID_REQUIRED", [], "CompletingRebalance"),
    (completing, "join new old client", "parked", [], "PreparingRebalance"),
    (completing, "join leader", "NONE", [], "CompletingRebalance"),
    (completing, "join follower", "NONE", [], "CompletingRebalance"),
    (completing, "join follower changed", "parked", [], "PreparingRebalance"),
    (completing, "sync leader", "NONE", ["generation 1 of 2"], "Stable"),
    (completing, "sync follower", "parked", [], "CompletingRebalance"),
    (completing, "sync old generation", "ILLEGAL_GENERATION", [], "CompletingRebalance"),
    (completing, "sync wrong protocol", "INCONSISTENT_GROUP_PROTOCOL", [], "CompletingRebalance"),
    (completing, "sync unknown", "UNKNOWN_MEMBER_ID", [], "CompletingRebalance"),
    (completing, "beat", "NONE", [], "CompletingRebalance"),
    (completing, "commit", "REBALANCE_IN_PROGRESS", [], "CompletingRebalance"),
    (completing, "leave", "NONE", [], "PreparingRebalance"),
    (completing, "leave all", "NONE", ["generation 2 of 0"], "Empty"),
    (completing, "silence", "", ["generation 2 of 0"], "Empty"),
    (stable, "join new", "MEMBER_ID_REQUIRED", [], "Stable"),
    (stable, "join new old client", "parked", [], "PreparingRebalance"),
    (stable, "join no common protocol", "INCONSISTENT_GROUP_PROTOCOL", [], "Stable"),
    (stable, "join leader", "parked", [], "PreparingRebalance"),
    (stable, "join follower", "NONE", [], "Stable"),
    (stable, "join follower changed", "parked", [], "PreparingRebalance"),
    (stable, "sync leader", "NONE", [], "Stable"),
    (stable, "sync follower", "NONE", [], "Stable"),
    (stable, "sync old generation", "ILLEGAL_GENERATION", [], "Stable"),
    (stable, "sync wrong protocol", "INCONSISTENT_GROUP_PROTOCOL", [], "Stable"),
    (stable, "beat", "NONE", [], "Stable"),
    (stable, "beat old generation", "ILLEGAL_GENERATION", [], "Stable"),
    (stable, "beat unknown", "UNKNOWN_MEMBER_ID", [], "Stable"),
    (stable, "commit", "NONE", ["offset"], "Stable"),
    (stable, "commit old generation", "ILLEGAL_GENERATION", [], "Stable"),
    (stable, "commit unknown", "UNKNOWN_MEMBER_ID", [], "Stable"),
    (stable, "commit simple", "UNKNOWN_MEMBER_ID", [], "Stable"),
    (stable, "leave", "NONE", [], "PreparingRebalance"),
    (stable, "leave unknown", "UNKNOWN_MEMBER_ID", [], "Stable"),
    (stable, "leave all", "NONE", ["generation 2 of 0"], "Empty"),
    (stable, "delete", "NON_EMPTY_GROUP", [], "Stable"),
    (stable, "silence", "", ["generation 2 of 0"], "Empty"),
)


@pytest.mark.parametrize(("begin", "event", "answer", "records", "state"), TABLE)
def test_an_event_in_a_state(
    begin: Callable[[], Cast], event: str, answer: str, records: list[str], state: str
) -> None:
    cast = begin()
    assert cast.world.state() == begin.__name__.capitalize().replace("ing", "ingRebalance")
    before = len(records_of(cast.world))
    result = EVENTS[event](cast)
    if answer:
        assert answer_of(result) == answer
    assert records_of(cast.world)[before:] == records
    assert cast.world.state() == state


def test_every_transition_of_the_table_is_in_the_drawing() -> None:
    leads_to = {
        cause: {target for (_, c), target in TRANSITIONS.items() if c is cause} for cause in GroupStateCause
    }
    assert leads_to == {
        GroupStateCause.FIRST_MEMBER_JOINED: {GroupState.PREPARING_REBALANCE},
        GroupStateCause.MEMBERSHIP_CHANGED: {GroupState.PREPARING_REBALANCE},
        GroupStateCause.ALL_JOINED: {GroupState.COMPLETING_REBALANCE},
        GroupStateCause.NOBODY_LEFT: {GroupState.EMPTY},
        GroupStateCause.ASSIGNMENT_STORED: {GroupState.STABLE},
        GroupStateCause.REMOVED: {GroupState.DEAD},
    }
    assert all((state, GroupStateCause.REMOVED) in TRANSITIONS for state in GroupState)


def test_a_transition_that_is_not_in_the_table_is_our_mistake() -> None:
    group = empty().world.shard("g").group_metadata.groups["g"]
    with pytest.raises(InvariantViolated, match="the transition is in the table"):
        group.move(GroupStateCause.ASSIGNMENT_STORED, 0)
