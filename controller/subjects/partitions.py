"""Which partitions change when brokers come and go. `leadership` makes the changes.

The rules are Kafka's:

* A departing broker leaves the ISR. Without eligible leader replicas the last one stays in it: the ISR then
  names the replicas that have all acknowledged data, and the partition waits for them without a leader. With
  eligible leader replicas the ISR gets empty, and those name them.
* A broker that died is not even eligible, because what it had not flushed is lost (KIP-966). It is known to
  have died when it registers again and does not know the epoch of its former registration.
* `unclean.leader.election.enable` lets any active replica lead then.

The index of the image names the partitions of a broker, so a broker that goes costs no more than the
partitions that it leaves. A large decision is made in parts, one in a turn of the loop: `limit` is the number
of records of a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.partition_index import Group, PartitionKey
from controller.metadata.image.topics import NO_LEADER, PartitionRegistration, TopicImage
from controller.subjects.leadership import Leadership, LeadershipRules
from controller.subjects.partition_change import Election
from protocol.codec.message import Message

__all__ = [
    "MOVES_PER_TURN",
    "broker_departs",
    "broker_died",
    "elect",
    "leads_anything",
    "leaves_directories",
    "partitions_at",
    "waiting_for",
]

MOVES_PER_TURN: Final = 1_000
"""The partitions that change in one turn of the loop: some milliseconds for making, writing and replaying
their records."""


def broker_departs(
    image: ClusterImage, broker_id: int, rules: LeadershipRules, limit: int = MOVES_PER_TURN
) -> list[Message]:
    """Changes for a broker that is fenced or shuts down: it leaves the ISRs and leads nothing. If there are
    as many as the limit, there may be more when these are replayed."""
    leadership = Leadership(image, rules, leaving=broker_id)
    return _out_of_isr(image, image.topics.index.partitions(Group.IN_ISR, broker_id), leadership, limit)


def broker_died(
    image: ClusterImage, broker_id: int, rules: LeadershipRules, limit: int = MOVES_PER_TURN
) -> list[Message]:
    """Does as `broker_departs`, for a broker that is known to have died: it is not eligible any more
    either."""
    leadership = Leadership(image, rules, died=broker_id)
    index = image.topics.index
    records = _out_of_isr(image, index.partitions(Group.IN_ISR, broker_id), leadership, limit)
    eligible = index.partitions(Group.IN_ELR, broker_id)
    return [*records, *_out_of_isr(image, eligible, leadership, limit - len(records))]


def leaves_directories(
    image: ClusterImage,
    broker_id: int,
    lost: tuple[bytes, ...],
    rules: LeadershipRules,
    limit: int = MOVES_PER_TURN,
) -> list[Message]:
    """Changes for those replicas of one broker that lay in directories which have gone offline (KIP-858)."""

    def lay_there() -> Iterator[PartitionKey]:
        for key in image.topics.index.partitions(Group.IN_ISR, broker_id):
            partition = image.topics.by_id[key.topic_id].partitions[key.number]
            if partition.directory_of(broker_id) in lost:
                yield key

    return _out_of_isr(image, lay_there(), Leadership(image, rules, leaving=broker_id), limit)


def _out_of_isr(
    image: ClusterImage, keys: Iterable[PartitionKey], leadership: Leadership, limit: int
) -> list[Message]:
    records: list[Message] = []
    for topic, index, partition in partitions_at(image, keys):
        if len(records) >= limit:
            break
        isr = leadership.without_gone(partition.isr)
        if not isr and partition.leader == NO_LEADER and leadership.waits_for_isr(topic):
            continue  # It waits for this broker already; of such there may be many, at each look.
        change = leadership.change(topic, index, isr=isr)
        if change is not None:
            records.append(change)
    return records


def elect(
    image: ClusterImage,
    keys: Iterable[PartitionKey],
    rules: LeadershipRules,
    *,
    arriving: int = NO_LEADER,
    election: Election | None = None,
) -> list[Message]:
    """Changes of those of the partitions that get another leader by an election, by the kind that their topic
    allows unless one is named. arriving: a broker that is being unfenced."""
    leadership = Leadership(image, rules, arriving=arriving)
    changes = (
        leadership.change(topic, index, election=election) for topic, index, _ in partitions_at(image, keys)
    )
    return [change for change in changes if change is not None]


def waiting_for(image: ClusterImage, broker_id: int) -> Iterator[PartitionKey]:
    """The partitions without a leader of which a broker has a replica."""
    by_id = image.topics.by_id
    for key in image.topics.index.partitions(Group.LED_BY):
        if broker_id in by_id[key.topic_id].partitions[key.number].replicas:
            yield key


def leads_anything(image: ClusterImage, broker_id: int) -> bool:
    """Whether a broker still leads any partition."""
    return (Group.LED_BY, broker_id) in image.topics.index


def partitions_at(
    image: ClusterImage, keys: Iterable[PartitionKey]
) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    """The partitions with these keys, as far as they exist."""
    by_id = image.topics.by_id
    for topic_id, index in keys:
        topic = by_id.get(topic_id)
        if topic is not None and index in topic.partitions:
            yield topic, index, topic.partitions[index]
