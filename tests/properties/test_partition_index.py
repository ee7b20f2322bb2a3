"""The index that goes from image to image is the one that a look at all partitions gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.metadata.image.partition_index import Group, PartitionIndex
from controller.metadata.image.topics import TopicsDelta, TopicsImage
from protocol.metadata_log.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

TOPICS = "abc"
BROKERS = st.integers(0, 4)
LISTS = st.lists(BROKERS, max_size=3, unique=True)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("topic"), st.sampled_from(TOPICS), LISTS),
        st.tuples(st.just("partition"), st.sampled_from(TOPICS), LISTS),
        st.tuples(st.just("change"), st.sampled_from(TOPICS), st.tuples(LISTS, LISTS, st.integers(-2, 4))),
        st.tuples(st.just("remove"), st.sampled_from(TOPICS), st.none()),
        st.tuples(st.just("clear"), st.sampled_from(TOPICS), st.none()),
        st.tuples(st.just("apply"), st.none(), st.none()),
    ),
    max_size=60,
)


def topic_id(name: str) -> bytes:
    return name.encode() * 16


class World:
    """Topics that change, batch by batch."""

    def __init__(self) -> None:
        self.image = TopicsImage()
        self.delta = TopicsDelta(self.image)
        self.partitions: dict[str, int] = {}

    def take(self, kind: str, name: str, value: Any) -> None:
        known = name in self.partitions
        if kind == "topic" and not known:
            self.partitions[name] = 0
            self.delta.create(TopicRecord(name, topic_id(name)))
        elif kind == "partition" and known:
            record = PartitionRecord(self.partitions[name], topic_id(name), value, value, [], value[:1])
            record.leader = value[0] if value else -1
            self.delta.add_partition(record)
            self.partitions[name] += 1
        elif kind == "change" and known and self.partitions[name]:
            isr, elr, leader = value
            index = (sum(isr) + leader) % self.partitions[name]
            record_ = PartitionChangeRecord(index, topic_id(name), isr, leader)
            record_.eligible_leader_replicas = elr
            record_.adding_replicas = isr[:1]
            self.delta.change_partition(record_)
        elif kind == "remove" and known:
            del self.partitions[name]
            self.delta.remove(RemoveTopicRecord(topic_id(name)))
        elif kind == "clear":
            self.delta.clear_elr(ClearElrRecord(name))

    def apply(self) -> None:
        self.image = self.delta.apply()
        self.delta = TopicsDelta(self.image)


@settings(max_examples=300, deadline=None)
@given(taken=steps)
def test_the_index_follows_each_change(taken: list[tuple[str, Any, Any]]) -> None:
    world = World()
    assert world.image.index.groups == {}
    for kind, name, value in taken:
        if kind == "apply":
            world.apply()
        else:
            world.take(kind, name, value)
    world.apply()
    assert world.image.known_index is not None, "it was handed on"
    fresh = TopicsImage(world.image.by_name, world.image.by_id)
    assert dict(world.image.index.groups) == dict(fresh.index.groups)
    for group in Group:
        for broker in range(-1, 5):
            assert (
                list(world.image.index.partitions(group, broker))
                == sorted(fresh.index.partitions(group, broker))
                or len({key.topic_id for key in fresh.index.partitions(group, broker)}) > 1
            )


def test_nothing_is_made_before_somebody_asks() -> None:
    world = World()
    world.take("topic", "a", [])
    world.take("partition", "a", [1, 2])
    world.apply()
    assert world.image.known_index is None
    assert world.image.index.count(Group.IN_ISR, 2) == 1
    assert (Group.LED_BY, 1) in world.image.index
    assert PartitionIndex().changed(()) == PartitionIndex()
