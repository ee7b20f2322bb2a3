"""The `uniform` assignor: equal shares before few moves.

What follows is for groups in which all members subscribe the same topics; `uniform_heterogeneous` is for the
others. Shares differ by one partition at most. Each member keeps what it has up to its share; what is beyond
that, and what nobody had, goes to those who have less, in the order of the members.

Where the division leaves a rest, as many members have a share that is larger by one. The first members that
fill the larger share by what they have already get it; a member that does not is passed over as long as
enough members are left for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.coordinator.consumer.assignors.group_spec import Assignment, GroupSpec, MemberSpec
from broker.coordinator.consumer.assignors.uniform_heterogeneous import UniformHeterogeneousAssignment
from config.java_order import LEAST_BUCKETS, bucket_order
from protocol.primitives import Uuid

Partition = tuple[Uuid, int]


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """The uniform assignment. If no member subscribes to an existing topic, members may be missing in it."""
    if group.is_homogeneous:
        return _assign_homogeneous(group)
    return UniformHeterogeneousAssignment(group).build()


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    if not group.members:
        return {}
    topic_ids = java_hash_order(next(iter(group.members.values())).topic_ids)
    if not topic_ids:
        return {}
    free = list(_unowned(topic_ids, group))
    kept: dict[str, dict[Uuid, list[int]]] = {}
    wanting: list[tuple[str, int]] = []
    share, larger_left = divmod(sum(group.partition_counts[each] for each in topic_ids), len(group.members))
    members_left = len(group.members)
    subscribed = frozenset(topic_ids)
    for member_id, member in group.members.items():
        may_be_larger = larger_left > 0
        kept[member_id], wanted = _keep(member, subscribed, share + may_be_larger, free)
        if wanted and may_be_larger and members_left > larger_left:
            wanted -= 1
            may_be_larger = False
        if wanted:
            wanting.append((member_id, wanted))
        larger_left -= may_be_larger
        members_left -= 1
    _hand_out(free, wanting, kept)
    return {
        member_id: {topic_id: tuple(sorted(partitions)) for topic_id, partitions in topics.items()}
        for member_id, topics in kept.items()
    }


def _unowned(topic_ids: Sequence[Uuid], group: GroupSpec) -> Iterator[Partition]:
    """The partitions that the last assignment gave to no member."""
    owned = {
        (topic_id, partition)
        for member in group.members.values()
        for topic_id, partitions in member.assigned.items()
        for partition in partitions
    }
    for topic_id in topic_ids:
        for partition in range(group.partition_counts[topic_id]):
            if (topic_id, partition) not in owned:
                yield topic_id, partition


def _keep(
    member: MemberSpec, subscribed: frozenset[Uuid], share: int, free: list[Partition]
) -> tuple[dict[Uuid, list[int]], int]:
    """The partitions that the member keeps, and the number that it lacks. Those beyond its share become
    free."""
    kept: dict[Uuid, list[int]] = {}
    for topic_id, partitions in member.assigned.items():
        if topic_id not in subscribed:
            continue
        if partitions[:share]:
            kept[topic_id] = list(partitions[:share])
        free.extend((topic_id, partition) for partition in partitions[share:])
        share -= min(share, len(partitions))
    return kept, share


def _hand_out(
    free: list[Partition], wanting: list[tuple[str, int]], kept: dict[str, dict[Uuid, list[int]]]
) -> None:
    position = 0
    for member_id, wanted in wanting:
        for topic_id, partition in free[position : position + wanted]:
            kept[member_id].setdefault(topic_id, []).append(partition)
        position += wanted


def java_hash_order(topic_ids: Sequence[Uuid]) -> list[Uuid]:
    """The topics in the order in which a HashSet of Java returns them.

    That order decides which topic is assigned first, so it must be Kafka's to come to Kafka's assignment.
    """
    buckets = LEAST_BUCKETS  # such a table is made for its size, so it is never more than three quarters full
    while buckets < len(topic_ids) * 4 // 3 + 1:
        buckets *= 2
    return bucket_order(dict.fromkeys(topic_ids), _java_hash, buckets)


def _java_hash(topic_id: Uuid) -> int:
    """Java's UUID.hashCode, as an unsigned number."""
    number = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (number >> 32 ^ number) & 0xFFFFFFFF
