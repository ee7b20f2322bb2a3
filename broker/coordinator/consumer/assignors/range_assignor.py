"""The `range` assignor: each member gets neighbouring partitions of every topic that it subscribes.

A topic's partitions are cut into as many ranges as it has subscribers, the first ones longer by one where the
division leaves a rest. Ranges go to members in a fixed order: static members by instance id, then the others
by member id. So members of equal subscriptions get the same partitions of topics of equal size, which makes
joins possible, and a static member gets the same ones whenever it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.consumer.assignors.group_spec import Assignment, GroupSpec, MemberSpec
from protocol.primitives import Uuid


def assign_ranges(group: GroupSpec) -> dict[str, Assignment]:
    """The assignment by ranges. Every member is in it."""
    assignment: dict[str, dict[Uuid, tuple[int, ...]]] = {}
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in sorted(group.members, key=lambda each: _order(each, group.members)):
        assignment[member_id] = {}
        for topic_id in group.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in subscribers.items():
        quota, longer = divmod(group.partition_counts[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + quota + (place < longer)
            if start == end:
                break
            assignment[member_id][topic_id] = tuple(range(start, end))
            start = end
    return dict(assignment)


def _order(member_id: str, members: Mapping[str, MemberSpec]) -> tuple[bool, bytes]:
    """The members in their order: static ones first, by names as Java compares them, by UTF-16 code units."""
    instance_id = members[member_id].instance_id
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")
