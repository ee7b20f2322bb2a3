"""How the leader of a classic group distributes the partitions, as Kafka's assignors do.

Members are taken in the order of their instance ids, or of their member ids where they have none, so that
static members keep what they have. All members of a simulated group subscribe the same topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = ["ASSIGNORS", "COOPERATIVE", "Assignor", "Subscriber"]

Place = tuple[str, int]
COOPERATIVE: Final = "cooperative-sticky"


class Subscriber(msgspec.Struct, frozen=True):
    """A member as it says who it is. owned: what it has already."""

    member_id: str
    instance_id: str = ""
    owned: tuple[Place, ...] = ()

    @property
    def order(self) -> tuple[bool, str]:
        return (not self.instance_id, self.instance_id or self.member_id)


Assignor = Callable[[Sequence[Subscriber], Mapping[str, int]], dict[str, list[Place]]]
"""Takes the members and how many partitions each topic has; gives what each member is to have."""


def assign_ranges(members: Sequence[Subscriber], topics: Mapping[str, int]) -> dict[str, list[Place]]:
    """Consecutive partitions of each topic to each member; the first ones get one more if there is a rest."""
    ordered = sorted(members, key=lambda each: each.order)
    assigned: dict[str, list[Place]] = {each.member_id: [] for each in ordered}
    for topic, count in sorted(topics.items()):
        share, more = divmod(count, len(ordered))
        begin = 0
        for number, member in enumerate(ordered):
            end = begin + share + (number < more)
            assigned[member.member_id] += [(topic, index) for index in range(begin, end)]
            begin = end
    return assigned


def assign_in_turn(members: Sequence[Subscriber], topics: Mapping[str, int]) -> dict[str, list[Place]]:
    """One partition to each, again and again."""
    ordered = sorted(members, key=lambda each: each.order)
    assigned: dict[str, list[Place]] = {each.member_id: [] for each in ordered}
    for number, place in enumerate(places_of(topics)):
        assigned[ordered[number % len(ordered)].member_id].append(place)
    return assigned


def assign_stickily(members: Sequence[Subscriber], topics: Mapping[str, int]) -> dict[str, list[Place]]:
    """Everybody keeps what it has as far as its share goes, and what somebody else has is nobody's until it
    was given up: it is distributed in the next generation (KIP-429)."""
    ordered = sorted(members, key=lambda each: each.order)
    places = places_of(topics)
    share, more = divmod(len(places), len(ordered))
    claims: dict[Place, int] = {}
    for member in ordered:
        for place in member.owned:
            claims[place] = claims.get(place, 0) + 1
    assigned: dict[str, list[Place]] = {}
    for member in ordered:
        # What two take for their own belongs to neither.
        kept = [place for place in places if place in member.owned and claims[place] == 1]
        most = share + (more > 0 and len(kept) > share)
        more -= most > share
        assigned[member.member_id] = kept[:most]
    taken = {place for each in assigned.values() for place in each}
    for place in places:
        if place not in taken:
            member = min(ordered, key=lambda each: len(assigned[each.member_id]))
            assigned[member.member_id].append(place)
    return {
        member.member_id: [
            place
            for place in assigned[member.member_id]
            if place not in claims or (place in member.owned and claims[place] == 1)
        ]
        for member in ordered
    }


def places_of(topics: Mapping[str, int]) -> list[Place]:
    return [(topic, index) for topic, count in sorted(topics.items()) for index in range(count)]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"range": assign_ranges, "roundrobin": assign_in_turn, COOPERATIVE: assign_stickily}
)
