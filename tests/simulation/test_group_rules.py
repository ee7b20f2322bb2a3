"""Each rule of groups strikes where it should: histories and coordinators made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.histories.history import Event
from broker.simulation.rules.group_claims import ONE_OWNER
from broker.simulation.rules.group_rules import (
    EPOCHS,
    ONE_MEMBER,
    GroupRules,
    _Newest,
    check_epochs,
    check_members,
)
from broker.simulation.rules.offset_registers import GOES_BACK, REMEMBERED, STALE
from broker.simulation.verdict import Violation

TOPIC_ID = b"t" * 16


class Told:
    """Rules that are told a history, in short words."""

    def __init__(self, *, newest: int | None = None) -> None:
        """newest: the node that was elected last to be the coordinator, of two."""
        places = [] if newest is None else [NodePlace(number, True, True) for number in (1, 2)]
        self.world = ClusterWorld(1, places)
        self.rules = GroupRules(self.world)
        if newest is not None:
            self.rules._newest[self.rules._index_of("g")] = _Newest(7, newest)

    def tell(self, process: str, kind: str, operation: str, **fields: Any) -> None:
        event: Any = {"type": kind, "operation": operation, "group": "g", **fields}
        self.rules.has_happened(Event(time_ms=0, process=process, **event))

    def own(
        self, process: str, generation: int, *partitions: str, instance: str = "", member: str = ""
    ) -> None:
        self.tell(
            process,
            "ok",
            "own",
            member=member or f"m-{process}",
            instance=instance,
            generation=generation,
            partitions=partitions,
        )

    def begin(
        self, process: str, generation: int, offset: int, instance: str = "", member: str = ""
    ) -> Callable[[str], None]:
        """Asks for a commit; its end is said to what comes back."""
        said: Any = {
            "member": member or f"m-{process}",
            "instance": instance,
            "generation": generation,
            "positions": {"a-0": offset},
        }
        self.tell(process, "invoke", "commit", **said)
        return lambda outcome: self.tell(process, outcome, "commit", **said)

    def commit(self, process: str, generation: int, offset: int, outcome: str = "ok", **who: str) -> None:
        self.begin(process, generation, offset, **who)(outcome)

    def look_up(self, process: str, offset: int, broker: str = "node-1") -> None:
        self.tell(process, "invoke", "committed", partitions=("a-0",))
        self.tell(process, "ok", "committed", positions={"a-0": offset}, broker=broker)


@pytest.fixture
def told() -> Told:
    return Told()


def strikes(rule: str, act: Callable[[], object]) -> None:
    with pytest.raises(Violation) as caught:
        act()
    assert caught.value.rule == rule


def test_two_owners_in_one_generation(told: Told) -> None:
    told.own("c1", 3, "a-0", "a-1")
    told.own("c2", 4, "a-0")
    told.own("c1", 3)
    strikes(ONE_OWNER, lambda: told.own("c3", 3, "a-1"))


def test_a_static_member_that_has_come_back_is_the_same_owner(told: Told) -> None:
    told.own("c1", 3, "a-0", instance="i", member="m-1")
    told.own("c1.2", 3, "a-0", instance="i", member="m-2")
    told.commit("c1.2", 3, 5, instance="i", member="m-2")
    strikes(STALE, lambda: told.commit("c1", 3, 6, instance="i", member="m-1"))


def test_a_commit_in_a_generation_that_has_passed(told: Told) -> None:
    told.own("c1", 3, "a-0")
    in_time = told.begin("c1", 3, 10)
    told.own("c2", 4, "a-0")
    in_time("ok")
    told.commit("c1", 3, 12, "fail")
    strikes(STALE, lambda: told.commit("c1", 3, 12))


def test_a_commit_that_goes_back(told: Told) -> None:
    told.own("c1", 3, "a-0")
    told.commit("c1", 3, 10)
    told.commit("c1", 3, 5, "fail")
    strikes(GOES_BACK, lambda: told.commit("c1", 3, 9))


def test_a_reset_may_go_back(told: Told) -> None:
    told.commit("c1", 3, 10)
    told.tell("admin", "ok", "reset", positions={"a-0": 2})
    told.commit("c1", 3, 4)


def test_what_was_asked_for_without_an_answer_may_come_late(told: Told) -> None:
    """On the connection that was given up; until another member has committed in a later generation."""
    told.own("c1", 3, "a-0")
    told.commit("c1", 3, 5, "info")
    told.commit("c1", 3, 10)
    told.look_up("c1", 5)
    told.own("c2", 4, "a-0")
    told.commit("c2", 4, 12)
    strikes(REMEMBERED, lambda: told.look_up("c2", 5))


def test_a_look_up_that_does_not_find_the_last_commit(told: Told) -> None:
    told.look_up("c1", -1)
    told.commit("c1", 3, 10)
    told.look_up("c1", 10)
    strikes(REMEMBERED, lambda: told.look_up("c2", -1))


def test_a_look_up_may_find_what_is_committed_meanwhile(told: Told) -> None:
    told.tell("c2", "invoke", "committed", partitions=("a-0",))
    told.commit("c1", 3, 10)
    told.commit("c1", 3, 20)
    told.tell("c2", "ok", "committed", positions={"a-0": 10}, broker="node-1")


def test_what_an_old_coordinator_tells_was_committed_once() -> None:
    """It answers from memory. Whoever believes it may go on from there, and the newest one may not say so."""
    told = Told(newest=1)
    told.commit("c1", 3, 5)
    told.commit("c1", 3, 10)
    told.look_up("c1", 5, "node-2")
    assert told.world.coverage.counts["group rules: an old coordinator told what was committed"] == 1
    strikes(REMEMBERED, lambda: told.look_up("c2", 5, "node-1"))
    told.commit("c1", 3, 7)
    strikes(REMEMBERED, lambda: told.look_up("c1", 6, "node-2"))


def test_what_was_asked_for_and_overtaken_may_be_told_by_an_old_coordinator() -> None:
    told = Told(newest=1)
    told.own("c1", 3, "a-0")
    told.commit("c1", 3, 5, "info")
    told.own("c2", 4, "a-0")
    told.commit("c2", 4, 12)
    told.look_up("c1", 5, "node-2")


def test_who_answered_is_no_old_coordinator_if_nobody_knows_who_it_was() -> None:
    told = Told(newest=1)
    told.commit("c1", 3, 5)
    told.commit("c1", 3, 10)
    strikes(REMEMBERED, lambda: told.look_up("c1", 5, ""))


def test_a_reset_is_no_commit(told: Told) -> None:
    told.commit("c1", 3, 10)
    told.tell("c1", "ok", "reset", positions={"a-0": 2})
    strikes(REMEMBERED, lambda: told.look_up("c2", 2))


def test_where_commits_were_lost_it_is_counted() -> None:
    told = Told()
    told.world.losses[GROUP_TOPIC, 0] = None
    told.own("c1", 3, "a-0")
    told.own("c2", 3, "a-0")
    told.commit("c1", 3, 10)
    told.look_up("c1", 4)
    told.commit("c1", 3, 5)
    counts = told.world.coverage.counts
    assert counts["group rules: g owns twice"] == 1
    assert counts["group rules: lost a commit of g"] == 1


def member(name: str, epoch: int, *partitions: int) -> ConsumerGroupMember:
    return ConsumerGroupMember(
        name, member_epoch=epoch, assigned={TOPIC_ID: dict.fromkeys(partitions, epoch)}
    )


def test_a_partition_that_belongs_to_two_members_of_a_consumer_group() -> None:
    group = ConsumerGroup("g")
    group.put_member("m-1", member("m-1", 2, 0, 1))
    group.put_member("m-2", member("m-2", 2, 2))
    check_members(group)
    gives_up = msgspec.structs.replace(member("m-2", 2, 2), pending_revocation={TOPIC_ID: {1: 2}})
    group.put_member("m-2", gives_up)
    strikes(ONE_MEMBER, lambda: check_members(group))


def test_a_target_that_gives_a_partition_to_two_members() -> None:
    group = ConsumerGroup("g")
    group.put_target("m-1", {TOPIC_ID: (0, 1)})
    check_members(group)
    group.put_target("m-2", {TOPIC_ID: (1,)})
    strikes(ONE_MEMBER, lambda: check_members(group))


def test_epochs_that_are_not_in_order() -> None:
    group = ConsumerGroup("g")
    group.epoch, group.assignment_epoch = 5, 4
    group.put_member("m-1", member("m-1", 4))
    check_epochs(group)
    group.put_member("m-1", member("m-1", 5))
    strikes(EPOCHS, lambda: check_epochs(group))
    group.assignment_epoch = 6
    strikes(EPOCHS, lambda: check_epochs(group))
