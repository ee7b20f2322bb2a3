"""The subscriptions of the members of a consumer group, counted: names, expressions, and what those match.

The counts are derived from the members and from the resolved expressions. A heartbeat that would change a
member changes a copy, to see to what the group would subscribe then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.operation import TopicsView

DEFAULT_ASSIGNOR_ORDER: Final = ("uniform", "range")
"""All assignors. If as many members prefer one as another, the first one here wins, in the order of Java's
hash table."""


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched when it was matched last."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata image that was used."""
    timestamp_ms: int


class Subscriptions:
    """The counts for one group."""

    __slots__ = ("assignors", "by_name", "by_regex", "regexes")

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}
        """The number of members that subscribe to each topic by name."""
        self.by_regex: dict[str, int] = {}
        """The number of resolved expressions that match each topic."""
        self.regexes: dict[str, int] = {}
        """The number of members that subscribe to each expression."""
        self.assignors: dict[str, int] = {}
        """The number of members that prefer each assignor."""

    def copy(self) -> Subscriptions:
        copied = Subscriptions()
        for name in self.__slots__:
            setattr(copied, name, dict(getattr(self, name)))
        return copied

    def change_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        for member, step in ((old, -1), (new, 1)):
            if member is None:
                continue
            for name in member.subscribed_topic_names:
                _count(self.by_name, name, step)
            if member.subscribed_topic_regex:
                _count(self.regexes, member.subscribed_topic_regex, step)
            if member.server_assignor is not None:
                _count(self.assignors, member.server_assignor, step)

    def change_resolved(self, old: ResolvedRegex | None, new: ResolvedRegex | None) -> None:
        for resolved, step in ((old, -1), (new, 1)):
            for name in resolved.topics if resolved is not None else ():
                _count(self.by_regex, name, step)

    def names(self) -> Iterator[str]:
        """Every subscribed topic, whether it exists or not."""
        yield from self.by_name
        yield from (name for name in self.by_regex if name not in self.by_name)

    def has_names_of(self, other: Subscriptions) -> bool:
        """Whether these are the topics of the other ones, named and matched alike."""
        return self.by_name.keys() == other.by_name.keys() and self.by_regex.keys() == other.by_regex.keys()

    def is_homogeneous(self, member_count: int) -> bool:
        """Whether all members subscribe to the same topics."""
        if not self.regexes:
            return all(count == member_count for count in self.by_name.values())
        if next(iter(self.regexes.values())) != member_count or self.by_name:
            return False
        return all(count == 1 for count in self.by_regex.values())

    def preferred_assignor(self) -> str | None:
        """The assignor that most members name, of those that there are; None if no member names one. Apache
        Kafka may have written that a member wants one of its operator's."""
        named = [name for name in DEFAULT_ASSIGNOR_ORDER if name in self.assignors]
        return max(named, key=self.assignors.__getitem__, default=None)


def subscribed_names(member: ConsumerGroupMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The topics to which one member subscribes. An expression that is not resolved yet matches nothing."""
    found = resolved.get(member.subscribed_topic_regex or "")
    if found is None:
        return member.subscribed_topic_names
    if not member.subscribed_topic_names:
        return found.topics  # the set itself: it knows its hash, and equals itself at once
    return member.subscribed_topic_names | found.topics


class SubscribedTopics:
    """The topics that exist and to which a member subscribes, by id. Looked up one by one: an expression may
    match ten thousand, and a heartbeat asks for those of the member's partitions."""

    def __init__(self, names: frozenset[str], topics: TopicsView) -> None:
        self._names, self._topics = names, topics

    def __contains__(self, topic_id: object) -> bool:
        return isinstance(topic_id, bytes) and self._topics.topic_name(topic_id) in self._names

    def __bool__(self) -> bool:
        return any(self._topics.topic_id(name) is not None for name in self._names)


def _count(counts: dict[str, int], name: str, step: int) -> None:
    count = counts.get(name, 0) + step
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)
