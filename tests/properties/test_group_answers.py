"""What a group answers to anybody at any moment, against a table that says it in one place.

Clients here do not behave: they name members of earlier lives, wrong generations, each other's instance ids.
Every error code is foretold from the group as it stands (its state, generation, members, who holds which
instance id) by rules that were written down apart from the code under test; committed offsets are kept in a
dictionary beside it, with what deletes them and what may not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.coordinator.group_operation import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.serving.pending import Pending
from tests.support.rigs.group_world import GroupWorld, is_parked, now

SESSION_MS = 10_000
REBALANCE_MS = 20_000
LONGEST_MS = 2**31 - 1
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=1_000,
    offsets_retention_ms=10**15,
    offsets_retention_check_interval_ms=LONGEST_MS,
)
SUBSCRIBES_T = b"\0\0\0\0\0\1\0\1t\0\0\0\0"
INSTANCES = (None, "i", "j")
NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
OLD, MOVING = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS


class View(NamedTuple):
    """The group as an administrator would see it, before a request."""

    state: str
    generation: int
    members: frozenset[str]
    holders: dict[str, str]
    given_out: frozenset[str]

    def identity(self, member: str, instance: str | None) -> ErrorCode:
        """Who may speak at all: an instance belongs to one member id."""
        if instance is not None and instance in self.holders and self.holders[instance] != member:
            return FENCED
        if instance is not None and instance not in self.holders:
            return UNKNOWN
        return NONE if member in self.members else UNKNOWN

    def speaks(self, member: str, instance: str | None, generation: int) -> ErrorCode:
        return self.identity(member, instance) or (NONE if generation == self.generation else OLD)


GONE = View("Dead", -1, frozenset(), {}, frozenset())

who = st.integers(0, 30)
instances = st.sampled_from(INSTANCES)
drift = st.sampled_from((0, 0, 0, -1, 1))
patience = st.sampled_from((REBALANCE_MS, REBALANCE_MS, REBALANCE_MS, 0, -1, 1, LONGEST_MS))
"""Rebalance time-outs that clients name."""


class Answers(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = GroupWorld(SETTINGS)
        self.ids = ["stranger"]
        self.offsets: dict[tuple[str, int], int] = {}
        self.joining: list[Pending[Any]] = []
        self.made_by_join = False
        """The group was written down when it came to be; one of a lone commit exists by its offsets."""

    def view(self) -> View:
        group = self.world.shard("g").group_metadata.groups.get("g")
        if group is None:
            return GONE
        holders = {m.group_instance_id: m.member_id for m in group.members.values() if m.group_instance_id}
        pending = frozenset(group.pending_members)
        return View(group.state.value, group.generation, frozenset(group.members), holders, pending)

    def pick(self, number: int) -> str:
        return self.ids[number % len(self.ids)]

    def learn(self) -> None:
        """Ids that clients were told since."""
        waiting, self.joining = self.joining, []
        for pending in waiting:
            if pending.response is None:
                self.joining.append(pending)
            elif pending.response.member_id and pending.response.member_id not in self.ids:
                self.ids.append(pending.response.member_id)

    def ask_to_join(self, member: str, rebalance_ms: int, **request: Any) -> ErrorCode | None:
        """The error of a join, None while it waits."""
        was_gone = self.view() == GONE
        answer: Any = self.world.join(
            "g", member, protocols=(("range", SUBSCRIBES_T),), session_ms=SESSION_MS,
            rebalance_ms=rebalance_ms, **request,
        )  # fmt: skip
        if was_gone:
            self.made_by_join = self.view() != GONE
        if is_parked(answer):
            self.joining.append(answer)
            return None
        response = now(answer)
        if response.member_id and response.member_id not in self.ids:
            self.ids.append(response.member_id)
        return ErrorCode(response.error_code)

    # Requests

    @rule(instance=instances, version=st.sampled_from((3, 9)), rebalance_ms=patience)
    def join_as_new(self, instance: str | None, version: int, rebalance_ms: int) -> None:
        before = self.view()
        version = 9 if instance else version
        error = self.ask_to_join("", rebalance_ms, instance=instance, version=version)
        if instance is None and version == 9:
            assert error is ErrorCode.MEMBER_ID_REQUIRED
        elif instance in before.holders and before.state == "Stable":
            assert error is NONE, "a static member is back, and nobody else need know"
            assert self.view().generation == before.generation
            assert self.view().state == "Stable"
        else:
            assert error in (None, NONE)
            assert self.view().state in ("PreparingRebalance", "CompletingRebalance")

    @rule(number=who, instance=instances, rebalance_ms=patience)
    def join_again(self, number: int, instance: str | None, rebalance_ms: int) -> None:
        before, member = self.view(), self.pick(number)
        error = self.ask_to_join(member, rebalance_ms, instance=instance)
        if member in before.given_out:
            # Only dynamic members wait under an id; Kafka stumbles over a static one and says so.
            assert error in ((None, NONE) if instance is None else (ErrorCode.UNKNOWN_SERVER_ERROR,))
        else:
            refused = before.identity(member, instance)
            assert error in ((refused,) if refused else (None, NONE)), (before, member)

    @rule(number=who, instance=instances, off=drift)
    def sync(self, number: int, instance: str | None, off: int) -> None:
        before, member = self.view(), self.pick(number)
        generation = before.generation + off
        answer = self.world.sync(member, generation, dict.fromkeys(before.members, b"x"), instance=instance)
        expected = before.speaks(member, instance, generation)
        if before.state in ("Dead", "Empty"):
            expected = UNKNOWN
        elif expected is NONE and before.state == "PreparingRebalance":
            expected = MOVING
        if expected is not NONE:
            assert now(answer).error_code == expected
        elif before.state == "Stable" or not is_parked(answer):
            assert now(answer).error_code == NONE
            assert self.view().state == "Stable"
        else:
            assert self.view().state == "CompletingRebalance"

    @rule(number=who, instance=instances, off=drift)
    def heartbeat(self, number: int, instance: str | None, off: int) -> None:
        before, member = self.view(), self.pick(number)
        generation = before.generation + off
        expected = before.speaks(member, instance, generation)
        if expected is NONE and before.state == "PreparingRebalance":
            expected = MOVING
        assert self.world.heartbeat(member, generation, instance=instance) is expected

    @rule(number=who, instance=instances)
    def leave(self, number: int, instance: str | None) -> None:
        before, member = self.view(), self.pick(number)
        by_instance = instance is not None and number % 3 == 0
        named = "" if by_instance else member
        (answer,) = now(
            self.world.groups.leave("g", [LeaveGroupRequest.MemberIdentity(named, instance)])
        ).members
        if by_instance:
            expected = NONE if instance in before.holders else UNKNOWN
        elif member in before.given_out:
            expected = NONE
        else:
            expected = before.identity(member, instance)
        assert answer.error_code == expected
        gone = before.holders.get(instance or "", "") if by_instance else member
        assert expected is not NONE or gone not in self.view().members | self.view().given_out

    # Offsets

    @rule(
        number=who,
        instance=instances,
        off=drift,
        topic=st.sampled_from(("t", "u")),
        offset=st.integers(0, 99),
    )
    def commit_as_member(self, number: int, instance: str | None, off: int, topic: str, offset: int) -> None:
        before, member = self.view(), self.pick(number)
        generation = max(before.generation + off, 0)
        error = self.world.commit_error(
            offset, topic=topic, member_id=member, generation=generation, instance=instance
        )
        expected = before.speaks(member, instance, generation)
        if before.state == "Dead":
            expected = ErrorCode.GROUP_ID_NOT_FOUND
        elif expected is NONE and before.state == "CompletingRebalance":
            expected = MOVING
        assert error is expected
        if error is NONE:
            self.offsets[topic, 0] = offset

    @rule(topic=st.sampled_from(("t", "u")), offset=st.integers(0, 99))
    def commit_without_a_group(self, topic: str, offset: int) -> None:
        before = self.view()
        if before == GONE:
            self.made_by_join = False
        error = self.world.commit_error(offset, topic=topic)
        assert error is (NONE if before.state in ("Dead", "Empty") else UNKNOWN)
        if error is NONE:
            self.offsets[topic, 0] = offset

    @rule(topic=st.sampled_from(("t", "u")))
    def delete_an_offset(self, topic: str) -> None:
        before = self.view()
        cls = OffsetDeleteRequest
        places = [cls.OffsetDeleteRequestTopic(topic, [cls.OffsetDeleteRequestPartition(0)])]
        response = now(self.world.groups.delete_offsets(cls("g", places)))
        if before.state == "Dead":
            assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            return
        assert response.error_code == NONE
        error = response.topics[0].partitions[0].error_code
        if before.state in ("CompletingRebalance", "Stable"):
            assert error == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic == "t" else NONE)
        if error == NONE:
            self.offsets.pop((topic, 0), None)

    @rule()
    def delete_the_group(self) -> None:
        before = self.view()
        expected = {"Dead": ErrorCode.GROUP_ID_NOT_FOUND, "Empty": NONE}.get(
            before.state, ErrorCode.NON_EMPTY_GROUP
        )
        assert now(self.world.groups.delete_group("g")) is expected
        if expected is NONE:
            self.offsets.clear()
            assert self.view() == GONE

    # The world

    @rule(milliseconds=st.sampled_from((1, 500, 1_000, 4_000, SESSION_MS, REBALANCE_MS)))
    def time_passes(self, milliseconds: int) -> None:
        self.world.timers.advance(milliseconds)
        self.learn()

    @rule()
    def everybody_falls_silent(self) -> None:
        """However it stood, after a session and a rebalance nobody is left."""
        self.world.timers.advance(5 * 60_000 + SESSION_MS + 2 * LONGEST_MS)
        self.learn()
        after = self.view()
        assert after.state in ("Dead", "Empty")
        assert not after.members | after.given_out
        assert self.joining == []

    @rule()
    def the_coordinator_moves(self) -> None:
        before = self.view()
        self.world.restart()
        self.learn()
        assert self.joining == []
        if before.state == "Empty" and before.generation == 0 and not (self.made_by_join or self.offsets):
            assert self.view() == GONE, "nothing was ever written of it"
        elif before.state in ("Stable", "Empty"):
            assert self.view() == before._replace(given_out=frozenset())

    @invariant()
    def the_offsets_are_those_of_the_dictionary(self) -> None:
        if not hasattr(self, "world"):
            return
        found = self.world.shard("g").offset_metadata.committed.topics("g")
        assert {
            (topic, index): kept.offset for topic, entries in found.items() for index, kept in entries.items()
        } == self.offsets


TestAnswers = Answers.TestCase
TestAnswers.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
