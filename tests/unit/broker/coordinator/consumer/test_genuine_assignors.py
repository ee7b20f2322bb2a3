"""The same groups to our assignors and to the classes of Apache Kafka: the assignments are equal.

Groups have a life: what one assignment gave is what the members of the next one have, while members come and
go, subscriptions change and topics grow. Racks are said to Kafka, which must not heed them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from broker.coordinator.consumer.assignors.group_spec import Assignment, Assignor, GroupSpec, MemberSpec
from broker.coordinator.consumer.assignors.range_assignor import assign_ranges
from broker.coordinator.consumer.assignors.uniform_assignor import assign_uniformly
from protocol.primitives import Uuid
from tests.support.genuine.java_oracle.message_oracle import assignments

pytestmark = [pytest.mark.java]

GROUPS: Final = 250
AGES: Final = 8
ASSIGNORS: Final[dict[str, Assignor]] = {"range": assign_ranges, "uniform": assign_uniformly}


def spec_at_random(chance: random.Random, counts: dict[Uuid, int], before: GroupSpec | None) -> GroupSpec:
    """A group, or what has become of one."""
    members = {} if before is None else dict(before.members)
    for member_id in chance.sample(list(members), chance.randrange(len(members) // 2 + 1)):
        del members[member_id]
    for _ in range(chance.choice([0, 1, 1, 2, 8]) if members else chance.choice([1, 2, 5, 30])):
        instance_id = f"instance-{chance.random()}" if chance.random() < 0.2 else None
        members[f"m{chance.randrange(10**9)}"] = MemberSpec((), {}, instance_id)
    everything = tuple(counts)
    is_homogeneous = chance.random() < 0.5
    common = tuple(chance.sample(everything, chance.randint(0, len(everything))))
    for member_id, member in members.items():
        own = tuple(chance.sample(everything, chance.randint(0, len(everything))))
        is_faithful = not is_homogeneous and before is not None and chance.random() < 0.6
        topic_ids = common if is_homogeneous else member.topic_ids if is_faithful else own
        members[member_id] = member._replace(topic_ids=topic_ids)
    return GroupSpec(members, is_homogeneous, dict(counts))


def lives() -> Iterator[tuple[str, GroupSpec, dict[str, Assignment]]]:
    """Groups with the assignments that we give them."""
    for seed in range(GROUPS):
        chance = random.Random(seed)
        name = chance.choice(list(ASSIGNORS))
        sizes = chance.choice([(1, 4), (1, 20), (30, 60)])
        counts = {chance.randbytes(16): chance.randint(*sizes) for _ in range(chance.choice([1, 2, 4, 20]))}
        group: GroupSpec | None = None
        for _ in range(AGES):
            group = spec_at_random(chance, counts, group)
            given = ASSIGNORS[name](group)
            yield name, group, given
            members = {
                member_id: member._replace(assigned=given.get(member_id, {}))
                for member_id, member in group.members.items()
            }
            group = group._replace(members=members)
            for topic_id in chance.sample(list(counts), chance.choice([0, 0, 1])):
                counts[topic_id] += chance.randint(1, 5)


def question(name: str, group: GroupSpec) -> dict[str, Any]:
    return {
        "assignor": name,
        "homogeneous": group.is_homogeneous,
        "topics": {topic_id.hex(): count for topic_id, count in group.partition_counts.items()},
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "rack": f"rack{number % 4}",
                "topics": [topic_id.hex() for topic_id in member.topic_ids],
                "assigned": [[topic_id.hex(), list(each)] for topic_id, each in member.assigned.items()],
            }
            for number, (member_id, member) in enumerate(group.members.items())
        ],
    }


def shown(given: dict[str, Assignment]) -> dict[str, dict[str, list[int]]]:
    return {
        member_id: {topic_id.hex(): list(partitions) for topic_id, partitions in topics.items()}
        for member_id, topics in given.items()
        if topics
    }


def test_assignments_are_those_of_kafkas_assignors() -> None:
    asked = list(lives())
    answers = assignments(question(name, group) for name, group, _ in asked)
    assert len(answers) == len(asked) == GROUPS * AGES
    for number, ((name, group, given), answer) in enumerate(zip(asked, answers, strict=True)):
        assert shown(given) == answer, (number, name, group)
    assert sum(1 for answer in answers if answer) > len(answers) // 2
