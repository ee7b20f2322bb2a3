"""The `uniform` assignor where members subscribe different topics.

Everybody keeps the partitions of topics that he still subscribes. Partitions that are left go, topic by
topic, to the subscribers that have least. Then partitions move, topic by topic and over again, from
subscribers with most to those with least, until no topic changes or the rounds are used up.

Topics come in the order of partitions per subscriber, the heaviest first. Where all subscribers of a topic
subscribe the same topics their shares differ by one at most. Where subscriptions overlap this comes close.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.coordinator.consumer.assignors.group_spec import Assignment, GroupSpec
from protocol.primitives import Uuid

MOST_ROUNDS: Final = 16
"""The largest number of rounds over all topics. Subscriptions that overlap in chains could need very many."""
NOBODY: Final = -1
_SIGN: Final = 1 << 63


class UniformHeterogeneousAssignment:
    """Computes one assignment. Members are numbers here: their places in the group."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._subscribers: dict[Uuid, list[int]] = {}
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners = {
            topic_id: [NOBODY] * group.partition_counts[topic_id] for topic_id in self._subscribers
        }
        self._sizes = [0] * len(group.members)
        """The number of partitions that each member has by now."""

    def build(self) -> dict[str, Assignment]:
        if not self._subscribers:
            return {}
        self._keep()
        topic_ids = sorted(self._subscribers, key=self._order)
        for topic_id in topic_ids:
            self._hand_out(topic_id)
        self._balance([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        return self._result()

    def _order(self, topic_id: Uuid) -> tuple[float, int, int, int]:
        """The topics with most partitions per subscriber first, then those with fewest subscribers, then by
        the id as two signed numbers."""
        subscribers = len(self._subscribers[topic_id])
        high, low = int.from_bytes(topic_id[:8], "big"), int.from_bytes(topic_id[8:], "big")
        return -(len(self._owners[topic_id]) / subscribers), subscribers, high ^ _SIGN, low ^ _SIGN

    def _keep(self) -> None:
        for number, member in enumerate(self._group.members.values()):
            subscribed = set(member.topic_ids)
            for topic_id, partitions in member.assigned.items():
                if topic_id in subscribed:
                    self._sizes[number] += len(partitions)
                    for partition in partitions:
                        self._owners[topic_id][partition] = number

    def _hand_out(self, topic_id: Uuid) -> None:
        owners = self._owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
        if not free:
            return
        ranking = Ranking(self._subscribers[topic_id], self._sizes)
        for partition in free:
            self._move(owners, partition, ranking.next_poorest())

    def _move(self, owners: list[int], partition: int, to: int) -> None:
        if owners[partition] != NOBODY:
            self._sizes[owners[partition]] -= 1
        owners[partition] = to
        self._sizes[to] += 1

    def _balance(self, topic_ids: Sequence[Uuid]) -> None:
        """Moves partitions in rounds, and stops when all other topics were looked at since the last one that
        changed."""
        last_changed = NOBODY
        for _ in range(MOST_ROUNDS):
            for place, topic_id in enumerate(topic_ids):
                if place == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed == NOBODY:
                    last_changed = place

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Moves partitions of a topic. Returns whether one has moved."""
        ranking = Ranking(self._subscribers[topic_id], self._sizes)
        if ranking.difference <= 1:
            return False
        owners = self._owners[topic_id]
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        has_moved = False
        while not ranking.is_balanced:
            giver = ranking.next_richest()
            while giver != NOBODY and not held.get(giver):
                ranking.exclude_richest()
                giver = ranking.next_richest()
            if giver == NOBODY:
                break
            partition = held[giver].pop()
            taker = ranking.next_poorest()
            if ranking.is_balanced:
                break
            self._move(owners, partition, taker)
            has_moved = True
        return has_moved

    def _result(self) -> dict[str, Assignment]:
        member_ids = list(self._group.members)
        found: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in member_ids}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[member_ids[owner]].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: tuple(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in found.items()
        }


class Ranking:
    """The subscribers of a topic, from those with least to those with most partitions.

    Who comes next as the poorest, or the richest, is told in constant time. The poorest are a range at the
    front: when each in it has been given one partition, their level has risen by one, and the range takes in
    those who have been on that level before. The richest are a range at the end, in the same way downwards.

        level       richest ──►  ┌─┐          `sizes` is read where a range grows: members outside of both
          │   poorest            │ │          ranges have there what they had at the beginning.
          │   ┌───────┐    ┌─────┘ │
          └───┴───────┴────┴───────┴─ members
    """

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._members[0]], sizes[self._members[-1]]
        self.difference = most - least
        self._poor_end = 0
        self._poor_level = least - 1
        self._poor_next = 0
        self._rich_start = self._rich_end = len(members)
        self._rich_level = most + 1
        self._rich_next = len(members) - 1

    @property
    def is_balanced(self) -> bool:
        """Whether moving a partition from the range of the richest to that of the poorest is no gain."""
        return self._rich_level - self._poor_level <= 1

    def next_poorest(self) -> int:
        """The member that gets the next partition."""
        if self._poor_next >= self._poor_end:
            self._poor_level += 1
            while (
                self._poor_end < len(self._members)
                and self._sizes[self._members[self._poor_end]] == self._poor_level
            ):
                self._poor_end += 1
            self._poor_next = 0
        member = self._members[self._poor_next]
        self._poor_next += 1
        return member

    def next_richest(self) -> int:
        """The member from which the next partition is taken; NOBODY if all have been excluded."""
        if self._rich_next < self._rich_start:
            if self._rich_end <= self._rich_start and self._rich_start > 0:
                # Everybody in the range was excluded: go on at the level of the next ones.
                self._rich_level = self._sizes[self._members[self._rich_start - 1]]
            else:
                self._rich_level -= 1
            while (
                self._rich_start > 0 and self._sizes[self._members[self._rich_start - 1]] == self._rich_level
            ):
                self._rich_start -= 1
            self._rich_next = self._rich_end - 1
        if self._rich_next < 0:
            return NOBODY
        member = self._members[self._rich_next]
        self._rich_next -= 1
        return member

    def exclude_richest(self) -> None:
        """Excludes the member that `next_richest` has named last, because it has no partition of this topic
        to give."""
        place, last = self._rich_next + 1, self._rich_end - 1
        self._members[place], self._members[last] = self._members[last], self._members[place]
        self._rich_end -= 1
