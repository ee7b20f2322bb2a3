"""Who leads a partition when brokers come and go: which changes that asks for. `partition_change` makes them.

The rules are Kafka's:

* A departing broker leaves the ISR, except when it is the last in it: then the ISR stays as it is, because
  its members are those that have all acknowledged data, and the partition waits for them without a leader.
* `unclean.leader.election.enable` lets any active replica lead then.

Fencing scans all partitions; that happens once per broker that goes, not per heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from controller.metadata.image.topics import NO_LEADER, PartitionRegistration, TopicsImage
from controller.subjects.partition_change import Election, IsActive, change_partition
from protocol.codec.message import Message

__all__ = ["AllowsUnclean", "broker_departs", "broker_returns", "leads_anything", "leaves_directories"]

AllowsUnclean = Callable[[str], bool]


Concerns = Callable[[PartitionRegistration], bool]


def broker_departs(
    topics: TopicsImage, broker_id: int, is_active: IsActive, allows_unclean: AllowsUnclean
) -> list[Message]:
    """Changes for a broker that is fenced or shuts down: out of the ISRs, and nobody's leader."""
    return _departs(topics, broker_id, is_active, allows_unclean, lambda partition: True)


def leaves_directories(
    topics: TopicsImage,
    broker_id: int,
    lost: tuple[bytes, ...],
    is_active: IsActive,
    allows_unclean: AllowsUnclean,
) -> list[Message]:
    """Changes for the replicas of one broker that lay in directories which went offline (KIP-858)."""

    def lay_there(partition: PartitionRegistration) -> bool:
        return partition.directories[partition.replicas.index(broker_id)] in lost

    return _departs(topics, broker_id, is_active, allows_unclean, lay_there)


def _departs(
    topics: TopicsImage,
    broker_id: int,
    is_active: IsActive,
    allows_unclean: AllowsUnclean,
    concerns: Concerns,
) -> list[Message]:
    def acceptable(replica: int) -> bool:
        return replica != broker_id and is_active(replica)

    records: list[Message] = []
    for name, topic_id, index, partition in _partitions(topics):
        if broker_id in partition.isr and concerns(partition):
            isr = tuple(replica for replica in partition.isr if replica != broker_id)
            election = _election(allows_unclean(name))
            records += _changed(topic_id, index, partition, isr, acceptable, election)
    return records


def broker_returns(
    topics: TopicsImage, broker_id: int, is_active: IsActive, allows_unclean: AllowsUnclean
) -> list[Message]:
    """Changes for a broker that is unfenced: partitions that waited for a leader may have one now."""

    def acceptable(replica: int) -> bool:
        return replica == broker_id or is_active(replica)

    records: list[Message] = []
    for name, topic_id, index, partition in _partitions(topics):
        if partition.leader == NO_LEADER and broker_id in partition.replicas:
            election = _election(allows_unclean(name))
            records += _changed(topic_id, index, partition, partition.isr, acceptable, election)
    return records


def _changed(
    topic_id: bytes,
    index: int,
    partition: PartitionRegistration,
    isr: tuple[int, ...],
    is_active: IsActive,
    election: Election,
) -> list[Message]:
    change = change_partition(topic_id, index, partition, isr=isr, is_active=is_active, election=election)
    return [] if change is None else [change]


def leads_anything(topics: TopicsImage, broker_id: int) -> bool:
    """Whether a broker still leads any partition."""
    return any(partition.leader == broker_id for _, _, _, partition in _partitions(topics))


def _election(allows_unclean: bool) -> Election:
    return Election.UNCLEAN if allows_unclean else Election.ONLINE


def _partitions(topics: TopicsImage) -> Iterator[tuple[str, bytes, int, PartitionRegistration]]:
    for name, topic in topics.by_name.items():
        for index, partition in topic.partitions.items():
            yield name, topic.id, index, partition
