"""What both assignors promise, whatever the group; and the order in which they prefer members."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.consumer.assignors.group_spec import Assignment, Assignor, GroupSpec, MemberSpec
from broker.coordinator.consumer.assignors.range_assignor import assign_ranges
from broker.coordinator.consumer.assignors.uniform_assignor import assign_uniformly
from broker.coordinator.consumer.subscriptions import DEFAULT_ASSIGNOR_ORDER
from broker.coordinator.consumer.target_assignment import ASSIGNORS
from config.broker_config import CONSUMER_ASSIGNORS
from protocol.primitives import Uuid

TOPICS = tuple(bytes([number]) * 16 for number in range(5))


def test_every_assignor_that_may_be_configured_is_there() -> None:
    assert ASSIGNORS.keys() == set(CONSUMER_ASSIGNORS.values()) == set(DEFAULT_ASSIGNOR_ORDER)


def groups() -> st.SearchStrategy[GroupSpec]:
    subscriptions = st.sets(st.sampled_from(TOPICS)).map(sorted).map(tuple)

    def with_counts(counts: list[int], topic_ids: list[tuple[Uuid, ...]], is_homogeneous: bool) -> GroupSpec:
        chosen = [topic_ids[0]] * len(topic_ids) if is_homogeneous else topic_ids
        members = {f"m{number}": MemberSpec(each) for number, each in enumerate(chosen)}
        return GroupSpec(members, is_homogeneous, dict(zip(TOPICS, counts, strict=True)))

    return st.builds(
        with_counts,
        st.lists(st.integers(1, 9), min_size=len(TOPICS), max_size=len(TOPICS)),
        st.lists(subscriptions, min_size=1, max_size=7),
        st.booleans(),
    )


def owners(given_: Mapping[str, Assignment]) -> dict[tuple[Uuid, int], str]:
    found: dict[tuple[Uuid, int], str] = {}
    for member_id, topics in given_.items():
        for topic_id, partitions in topics.items():
            assert partitions == tuple(sorted(set(partitions)))
            for partition in partitions:
                assert found.setdefault((topic_id, partition), member_id) == member_id
    return found


def with_assigned(group: GroupSpec, given_: Mapping[str, Assignment]) -> GroupSpec:
    members = {
        member_id: member._replace(assigned=given_.get(member_id, {}))
        for member_id, member in group.members.items()
    }
    return group._replace(members=members)


@pytest.mark.parametrize("assign", [assign_ranges, assign_uniformly])
@given(groups())
def test_each_partition_goes_to_one_subscriber(assign: Assignor, group: GroupSpec) -> None:
    found = owners(assign(group))
    for topic_id, count in group.partition_counts.items():
        is_subscribed = any(topic_id in member.topic_ids for member in group.members.values())
        wanted = set(range(count)) if is_subscribed else set()
        assert {partition for topic, partition in found if topic == topic_id} == wanted
    for (topic_id, _), member_id in found.items():
        assert topic_id in group.members[member_id].topic_ids


@pytest.mark.parametrize("assign", [assign_ranges, assign_uniformly])
@given(groups())
def test_an_assignment_that_is_assigned_again_stays(assign: Assignor, group: GroupSpec) -> None:
    first = assign(group)
    assert owners(assign(with_assigned(group, first))) == owners(first)


@settings(max_examples=200)
@given(groups(), st.integers(0, 6))
def test_uniform_shares_differ_by_one_and_a_leaving_member_moves_only_its_own(
    group: GroupSpec, leaver: int
) -> None:
    homogeneous = group._replace(
        members={name: MemberSpec(TOPICS) for name in group.members}, is_homogeneous=True
    )
    first = assign_uniformly(homogeneous)
    sizes = [sum(map(len, topics.values())) for topics in first.values()]
    assert max(sizes) - min(sizes) <= 1
    names = list(homogeneous.members)
    gone = names[leaver % len(names)]
    staying = with_assigned(homogeneous, first)
    staying = staying._replace(members={name: staying.members[name] for name in names if name != gone})
    after = owners(assign_uniformly(staying))
    for partition, owner in owners(first).items():
        assert owner == gone or after[partition] == owner


def test_ranges_go_to_static_members_first_then_by_member_id() -> None:
    topic_id = TOPICS[0]
    members = {
        "b": MemberSpec((topic_id,)),
        "a": MemberSpec((topic_id,)),
        "z": MemberSpec((topic_id,), instance_id="2"),
        "y": MemberSpec((topic_id,), instance_id="10"),
    }
    assert assign_ranges(GroupSpec(members, True, {topic_id: 6})) == {
        "y": {topic_id: (0, 1)},
        "z": {topic_id: (2, 3)},
        "a": {topic_id: (4,)},
        "b": {topic_id: (5,)},
    }


def test_a_group_of_nobody_is_assigned_nothing() -> None:
    empty = GroupSpec({}, True, {})
    assert assign_ranges(empty) == assign_uniformly(empty) == {}
