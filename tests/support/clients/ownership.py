"""Who has which partition, by the owners' own words, in the order in which they were said.

A consumer says `has` when the callback of an assignment begins, and `gives` when the callback of a revocation
does, each with the time of the one clock of the machine. A partition that one has while another one has it is
a violation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

HAS: Final = "has"
GIVES: Final = "gives"
LOST: Final = "lost"
"""It was told that it is no member any longer: it has given the partitions up too late, through no fault of
the coordinator's."""
BORN: Final = "born"
CLOSES: Final = "closes"
ENDS: Final = "ends"


class Word(NamedTuple):
    """What one consumer says."""

    at_ns: int
    verb: str
    group: str
    consumer: str
    partitions: tuple[int, ...] = ()

    def line(self) -> str:
        return " ".join([str(self.at_ns), self.verb, self.group, self.consumer, *map(str, self.partitions)])


def word(line: str) -> Word:
    at_ns, verb, group, consumer, *partitions = line.split()
    return Word(int(at_ns), verb, group, consumer, tuple(map(int, partitions)))


class Verdict(NamedTuple):
    violations: list[str]
    lost: int
    """Times that a consumer was told that it had lost its partitions."""
    replaced: int
    """Consumers that were closed."""
    handed: int
    """Partitions that were given up and taken up by somebody else."""


def judged(words: Iterable[Word]) -> Verdict:
    """Read in the order of time; at one time a partition is given up before it is taken up."""
    owners: dict[tuple[str, int], str] = {}
    last: dict[tuple[str, int], str] = {}
    violations, lost, replaced, handed = [], 0, 0, 0
    for said in sorted(words, key=lambda each: (each.at_ns, each.verb == HAS)):
        replaced += said.verb == ENDS
        lost += said.verb == LOST and bool(said.partitions)
        for partition in said.partitions:
            place = said.group, partition
            owner = owners.get(place)
            if said.verb == HAS:
                if owner is not None and owner != said.consumer:
                    violations.append(
                        f"{said.at_ns}: {said.group}-{partition} of {said.consumer} is {owner}'s"
                    )
                handed += last.get(place) not in (None, said.consumer)
                owners[place] = last[place] = said.consumer
            elif owner == said.consumer:
                del owners[place]
    return Verdict(violations, lost, replaced, handed)


def stable_since_ns(words: Iterable[Word], partitions: Mapping[str, int]) -> int | None:
    """The time of the word with which each group's partitions were shared evenly among those who live, and
    after which nothing was said; None if they are not.

    partitions: by group.
    """
    holds: dict[str, dict[str, set[int]]] = {group: {} for group in partitions}
    last_ns = None
    for said in sorted(words):
        members = holds[said.group]
        if said.verb == BORN:
            members[said.consumer] = set()
        elif said.verb == CLOSES:
            members.pop(said.consumer, None)
        elif said.verb == HAS:
            members.setdefault(said.consumer, set()).update(said.partitions)
        elif said.consumer in members:
            members[said.consumer].difference_update(said.partitions)
        last_ns = said.at_ns
    for group, members in holds.items():
        count, most = len(members), partitions[group]
        if sorted(number for held in members.values() for number in held) != list(range(most)):
            return None
        if {len(held) for held in members.values()} - {most // count, -(-most // count)}:
            return None
    return last_ns
