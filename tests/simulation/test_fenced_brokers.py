"""The rule that a fenced broker leads nothing: it sees each partition by itself, and changes no image."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from broker.simulation.rules.partition_rules import FENCED_LEADER, RegistrationRules
from broker.simulation.rules.wellness import reason_not_well
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.partition_index import Group, PartitionIndex
from controller.metadata.image.topics import NO_LEADER, TopicsImage
from tests.simulation.traffic import NODES, TOPIC, Traffic, becomes, on_leader, strikes


def fenced(image: ClusterImage, broker_id: int) -> ClusterImage:
    """The same metadata, in which this broker is fenced and nothing else has changed."""
    by_id = dict(image.brokers.by_id)
    by_id[broker_id] = msgspec.structs.replace(by_id[broker_id], fenced=True)
    return msgspec.structs.replace(image, brokers=msgspec.structs.replace(image.brokers, by_id=by_id))


def with_partition(image: ClusterImage, **change: Any) -> ClusterImage:
    """The same metadata, in which the watched partition has changed. The index of brokers is an empty one, so
    whoever asks it finds no partition of any broker."""
    topic = image.topics.by_name[TOPIC]
    registration = topic.partitions[0]
    change.setdefault("partition_epoch", registration.partition_epoch + 1)
    changed = msgspec.structs.replace(topic, partitions={0: msgspec.structs.replace(registration, **change)})
    topics = TopicsImage({TOPIC: changed}, {topic.id: changed}, PartitionIndex())
    return msgspec.structs.replace(image, topics=topics)


def test_a_leader_that_is_fenced_and_in_no_index(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    image = node.image
    assert image is not None
    without_index = msgspec.structs.replace(image.topics, known_index=PartitionIndex())
    seen = fenced(msgspec.structs.replace(image, topics=without_index), node.node_id)
    rules = RegistrationRules(traffic.watch.cluster)
    strikes(FENCED_LEADER, lambda: rules.came(node, image, seen, controller=True))


@pytest.mark.parametrize("role", ["leader", "in sync"])
def test_a_partition_that_comes_back_to_a_broker_that_is_still_fenced(traffic: Traffic, role: str) -> None:
    node, hosted = on_leader(traffic)
    image, leader = node.image, node.node_id
    assert image is not None
    other = next(each for each in NODES if each != leader)
    epoch = hosted.leader_epoch
    rules = RegistrationRules(traffic.watch.cluster)
    left = fenced(with_partition(image, leader=NO_LEADER, isr=(leader,), leader_epoch=epoch + 1), leader)
    rules.came(node, image, left, controller=True)
    change = {"leader": leader} if role == "leader" else {"leader": other, "isr": (other, leader)}
    back = with_partition(left, leader_epoch=epoch + 2, **change)
    strikes(FENCED_LEADER, lambda: rules.came(node, left, back, controller=True))


def test_a_fenced_broker_that_leads_nothing_is_no_matter(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    image, leader = node.image, node.node_id
    assert image is not None
    others = tuple(each for each in NODES if each != leader)
    rules = RegistrationRules(traffic.watch.cluster)
    moved = with_partition(image, leader=others[0], isr=others, leader_epoch=hosted.leader_epoch + 1)
    rules.came(node, image, fenced(moved, leader), controller=True)
    assert traffic.world.coverage.counts["looked at: partitions of a fenced broker"] > 0


def test_the_rules_make_no_index_for_a_broker(traffic: Traffic) -> None:
    """Brokers need none. With one that a rule has made, nobody would see how a controller makes its own at
    the first look after it was elected."""
    for node in traffic.world.nodes.values():
        assert node.image is not None
        assert TOPIC in node.image.topics.by_name
        assert node.image.topics.known_index is None


def test_an_index_that_lacks_a_partition_when_the_trouble_is_over(traffic: Traffic) -> None:
    """It may be one that nobody needs until a broker fails."""
    assert becomes(traffic, None)
    controller = traffic.world.nodes[1].controller
    assert controller is not None
    topics = controller.controller.image.topics
    assert list(topics.index.partitions(Group.LED_BY, topics.by_name[TOPIC].partitions[0].leader))
    assert reason_not_well(traffic.world) is None
    msgspec.structs.force_setattr(topics, "known_index", PartitionIndex())
    assert "has other lists of the brokers' partitions" in (reason_not_well(traffic.world) or "")
