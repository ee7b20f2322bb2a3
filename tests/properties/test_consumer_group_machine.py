"""A consumer group under random members, against what must hold whatever they do.

Members join, leave, fall silent, change what they subscribe, hold on to partitions and say nothing of them,
while topics grow and appear. The model is dumb: it knows what each client believes that it works on, and the
largest epochs that were seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_groups import ConsumerGroups
from broker.coordinator.consumer.member_states import ConsumerGroupState
from broker.coordinator.consumer.operation import ConsumerGroupSettings
from broker.coordinator.consumer.subscriptions import subscribed_names
from broker.coordinator.runtime.result import CoordinatorRecord, UndoLog
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.primitives import Uuid
from tests.support.rigs.consumer_group_by_hand import GROUP, ConsumerGroupByHand

NAMES = ("a", "b", "c", "d", "e")
TOPICS = ("t", "u", "v")
SUBSCRIPTIONS = st.sets(st.sampled_from(TOPICS)).map(sorted)
NAME = st.sampled_from(NAMES)
REGEXES = st.sampled_from([None, None, None, "", "t|u", "[uv]"])

JOIN = st.tuples(
    st.just("join"), NAME, SUBSCRIPTIONS, REGEXES, st.booleans(), st.sampled_from([None, "uniform", "range"])
)
BEAT = st.tuples(st.just("beat"), NAME, st.booleans(), st.booleans())
ACTIONS = st.one_of(
    JOIN,
    JOIN,
    BEAT,
    BEAT,
    BEAT,
    st.tuples(st.just("change"), NAME, SUBSCRIPTIONS, REGEXES, st.booleans()),
    st.tuples(st.just("leave"), NAME, st.booleans()),
    st.tuples(st.just("silence"), NAME),
    st.tuples(st.just("late"), NAME),
    st.tuples(st.just("grow"), st.sampled_from(TOPICS), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 20_000)),
    st.tuples(st.just("resolve")),
)


def said(groups: ConsumerGroups) -> Any:
    """All that records say of the group, and what is derived from it."""
    group = groups.get(GROUP)
    if group is None:
        return None
    fields = {
        name: value
        for name, value in vars(group).items()
        if name not in ("subscriptions", "needs_metadata_check", "checked_in_epoch", "is_resolving")
    }
    counts = group.subscriptions
    return fields | {"counts": (counts.by_name, counts.by_regex, counts.regexes, counts.assignors)}


class RefusingGroup(ConsumerGroupByHand):
    """Each write is refused by the log once: then everything is as it was before."""

    def replay(self, records: Sequence[CoordinatorRecord]) -> UndoLog:
        before = _copy(said(self.groups))
        undo = UndoLog()
        for key, value in records:
            self.groups.replay(key, value, undo)
        undo.run()
        assert said(self.groups) == before
        return super().replay(records)


def _copy(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _copy(value) for key, value in state.items()}
    return tuple(map(_copy, state)) if isinstance(state, tuple) else state


class Model:
    """The group, its clients, and what was seen of them."""

    def __init__(self, assignment_interval_ms: int) -> None:
        settings_ = ConsumerGroupSettings(group_consumer_assignment_interval_ms=assignment_interval_ms)
        self.hand = RefusingGroup(settings_)
        self.alive: set[str] = set()
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}
        self.count = 0

    def play(self, action: tuple[Any, ...]) -> None:
        getattr(self, "do_" + action[0])(*action[1:])
        self.check()

    def do_join(
        self, name: str, topics: list[str], regex: str | None, is_static: bool, assignor: str | None
    ) -> None:
        if name in self.alive:
            return
        instance_id = name if is_static else None
        self.count += 1
        member = f"{name}{self.count}"
        answer = self.hand.join(member, topics, regex=regex, instance_id=instance_id, assignor=assignor)
        if not answer.error_code:
            self.alive.add(name)
            self.hand.members[name] = self.hand.members.pop(member)
            self.hand.members[name].name = member

    def do_beat(self, name: str, holds_on: bool, is_silent: bool) -> None:
        if name in self.alive:
            self.heard(name, self.send(name, holds_on=holds_on, is_silent=is_silent))

    def do_change(self, name: str, topics: list[str], regex: str | None, holds_on: bool) -> None:
        if name in self.alive:
            self.heard(name, self.send(name, topics=topics, regex=regex, holds_on=holds_on))

    def send(self, name: str, **options: Any) -> ConsumerGroupHeartbeatResponse:
        member = self.hand.members[name]
        self.hand.members[member.name] = member
        answer = self.hand.beat(member.name, **options)
        del self.hand.members[member.name]
        return answer

    def heard(self, name: str, answer: ConsumerGroupHeartbeatResponse) -> None:
        """A client that is refused stops working."""
        if answer.error_code:
            self.alive.discard(name)

    def do_leave(self, name: str, for_a_while: bool) -> None:
        if name in self.alive:
            member = self.hand.members[name]
            self.hand.members[member.name] = member
            self.hand.leave(member.name, for_a_while=for_a_while and member.instance_id is not None)
            del self.hand.members[member.name]
            self.alive.discard(name)

    def do_silence(self, name: str) -> None:
        member = self.hand.members.get(name)
        if member is not None and member.name in self.hand.group.members:
            self.alive.discard(name)
            self.hand.session_ends(member.name)

    def do_late(self, name: str) -> None:
        member = self.hand.members.get(name)
        if member is None or member.name not in self.hand.group.members:
            return
        if member.name in self.hand.deadlines:
            self.alive.discard(name)
            self.hand.rebalance_time_is_up(member.name)

    def do_grow(self, topic: str, count: int) -> None:
        self.hand.topic_changes(topic, self.hand.topics.counts.get(topic, 0) + count)

    def do_wait(self, milliseconds: int) -> None:
        self.hand.now_ms += milliseconds

    def do_resolve(self) -> None:
        self.hand.resolve()

    # What must hold

    def check(self) -> None:
        group = self.hand.group
        owned = [each for member in group.members.values() for each in member.owned()]
        assert len(owned) == len(set(owned)) == len(group.owners)
        worked_on = [each for name in self.alive for each in self.works_on(name)]
        assert len(worked_on) == len(set(worked_on)), "two clients work on one partition"
        epochs = (group.epoch, group.assignment_epoch)
        assert epochs >= self.epochs
        assert group.assignment_epoch <= group.epoch
        for member in group.members.values():
            assert member.member_epoch <= group.epoch
            if member.member_epoch > 0:
                assert member.member_epoch >= self.member_epochs.get(member.member_id, 0)
                self.member_epochs[member.member_id] = member.member_epoch
        self.epochs = epochs
        assert said(self.hand.loaded()) == said(self.hand.groups)

    def works_on(self, name: str) -> list[tuple[Uuid, int]]:
        owned = self.hand.members[name].owned
        return [(topic_id, number) for topic_id, numbers in owned.items() for number in numbers]

    def converge(self) -> None:
        """Everybody behaves from now on; who does not come back is forgotten."""
        known = {self.hand.members[name].name for name in self.alive}
        for member_id in list(self.hand.group.members):
            if member_id not in known:
                self.hand.session_ends(member_id)
        for _ in range(8):
            self.hand.now_ms += 20_000
            self.hand.resolve()
            for name in sorted(self.alive):
                self.play(("beat", name, False, False))
        group = self.hand.group
        assert {self.hand.members[name].name for name in self.alive} == group.members.keys()
        if not group.members:
            return
        assert group.state is ConsumerGroupState.STABLE
        assert group.owners == expected_partitions(group, self.hand)
        for name in self.alive:
            owner = self.hand.members[name].name
            assert {each for each, by in group.owners.items() if by == owner} == set(self.works_on(name))


def expected_partitions(group: ConsumerGroup, hand: ConsumerGroupByHand) -> dict[tuple[Uuid, int], str]:
    """Each partition of each subscribed topic with its owner; by names where nobody subscribes it."""
    found: dict[tuple[Uuid, int], str] = {}
    for topic, count in hand.topics.counts.items():
        topic_id = hand.topics.topic_id(topic)
        assert topic_id is not None
        subscribers = {
            member_id
            for member_id, member in group.members.items()
            if topic in subscribed_names(member, group.resolved)
        }
        for partition in range(count if subscribers else 0):
            owner = group.owners.get((topic_id, partition))
            assert owner in subscribers
            found[topic_id, partition] = owner
    return found


@pytest.mark.parametrize("assignment_interval_ms", [0, 1_000])
@settings(max_examples=150)
@given(st.lists(ACTIONS, max_size=40))
def test_no_partition_has_two_owners_and_every_group_comes_to_rest(
    assignment_interval_ms: int, actions: list[tuple[Any, ...]]
) -> None:
    model = Model(assignment_interval_ms)
    model.do_grow("t", 3)
    for action in actions:
        model.play(action)
    model.converge()
