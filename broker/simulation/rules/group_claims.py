"""Which member of a group takes which partitions for its own, by what its clients say.

What a client owns is what it would act on: it owns a partition until it gives it up, even if its group has
gone on without it. So partitions may well be owned twice at one time; but never in one generation, where
everybody has been told who owns what, and nobody may commit in a generation that has passed.

Of a static member the instance id counts: it may come back with another member id in the same generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.simulation.histories.history import Event
from broker.simulation.verdict import Violation

__all__ = ["ONE_OWNER", "GroupClaims"]

ONE_OWNER: Final = "a partition has one owner in a generation"


class Owner(NamedTuple):
    """Who was the last to own a partition."""

    generation: int
    name: str
    member: str


class GroupClaims:
    """now: what each process owns, by its last line about it."""

    def __init__(self) -> None:
        self.now: dict[str, Event] = {}
        self._owners: dict[str, dict[int, dict[str, str]]] = {}
        """Group, generation, partition: the owner."""
        self._newest: dict[str, dict[str, Owner]] = {}
        """Group, partition."""
        self._replaced: dict[str, str] = {}
        """Member ids of static members that have come back with another one, and what that is."""

    def takes(self, event: Event) -> None:
        """A process owns this from here on."""
        before = self.now.pop(event.process, None)
        if not event.partitions:
            return
        self.now[event.process] = event
        if before is not None and before.group != event.group:
            raise ValueError(f"{event.process} is in two groups")
        owner = event.instance or event.member
        held = self._owners.setdefault(event.group, {}).setdefault(event.generation, {})
        newest = self._newest.setdefault(event.group, {})
        for partition in event.partitions:
            other = held.setdefault(partition, owner)
            if other != owner:
                raise Violation(
                    ONE_OWNER,
                    f"{partition} belongs to {other} and to {owner} ({event.process}) in generation "
                    f"{event.generation} of {event.group}",
                )
            last = newest.get(partition)
            if last is not None and last.name == event.instance and last.member != event.member:
                self._replaced[last.member] = event.member
            if last is None or last.generation <= event.generation:
                newest[partition] = Owner(event.generation, owner, event.member)

    @property
    def groups(self) -> list[str]:
        """Those in which anybody has owned anything."""
        return list(self._owners)

    def of_group(self, group: str) -> list[Event]:
        return [event for event in self.now.values() if event.group == group]

    def generations(self, group: str) -> Mapping[int, Mapping[str, str]]:
        """Who owned what in each."""
        return self._owners.get(group, MappingProxyType({}))

    def why_stale(self, commit: Event) -> str | None:
        """Why a commit that is asked for now must be refused, as clients can know; None if it need not."""
        successor = self._replaced.get(commit.member)
        if successor is not None:
            return f"{commit.instance} has come back as {successor}"
        owner = commit.instance or commit.member
        newest = self._newest.get(commit.group, {})
        for partition in commit.positions:
            last = newest.get(partition)
            if last is not None and last.generation > commit.generation and last.name != owner:
                return f"{partition} belongs to {last.name} since generation {last.generation}"
        return None

    def forget(self, group: str) -> None:
        """The group has been deleted: the next one of its name begins with new generations."""
        self._owners.pop(group, None)
        self._newest.pop(group, None)
