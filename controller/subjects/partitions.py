"""Who leads a partition when brokers come and go, without eligible leader replicas (KIP-966 is not on).

The rules are Kafka's:

* A leader stays while it is in the ISR and active; else the first active replica of the ISR leads, in the
  order of the replica list.
* A departing broker leaves the ISR, except when it is the last in it: then the ISR stays as it is, because
  its members are those that have all acknowledged data, and the partition waits for them without a leader.
* `unclean.leader.election.enable` lets any active replica lead then; it becomes the whole ISR, and the
  partition is marked as recovering.
* Each change of the leader, to nobody too, raises the leader epoch (in replay).

Fencing scans all partitions; that happens once per broker that goes, not per heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from controller.image.topics import NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration, TopicsImage
from protocol.codec.message import Message
from protocol.metadata_log.topics import PartitionChangeRecord

__all__ = ["broker_departs", "broker_returns", "change_partition", "leads_anything", "leaves_directories"]

RECOVERING = 1

IsActive = Callable[[int], bool]
AllowsUnclean = Callable[[str], bool]


def change_partition(
    topic_id: bytes,
    index: int,
    partition: PartitionRegistration,
    *,
    isr: tuple[int, ...],
    is_active: IsActive,
    unclean: bool = False,
) -> PartitionChangeRecord | None:
    """The record that gives a partition this ISR and the leader that follows from it; None if nothing
    changes."""
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    leader = _elect(partition, isr, is_active)
    if leader == NO_LEADER and unclean:
        leader = next((replica for replica in partition.replicas if is_active(replica)), NO_LEADER)
        if leader != NO_LEADER:
            record.isr = [leader]
            if partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
    if leader != partition.leader:
        record.leader = leader
    if record.isr is None and isr and isr != partition.isr:
        record.isr = list(isr)
    unchanged = record.leader == NO_LEADER_CHANGE and record.isr is None
    return None if unchanged else record


def _elect(partition: PartitionRegistration, isr: tuple[int, ...], is_active: IsActive) -> int:
    if partition.leader in isr and is_active(partition.leader):
        return partition.leader
    for replica in partition.replicas:
        if replica in isr and is_active(replica):
            return replica
    return NO_LEADER


def broker_departs(
    topics: TopicsImage, broker_id: int, is_active: IsActive, allows_unclean: AllowsUnclean
) -> list[Message]:
    """Changes for a broker that is fenced or shuts down: out of the ISRs, and nobody's leader."""

    def acceptable(replica: int) -> bool:
        return replica != broker_id and is_active(replica)

    records: list[Message] = []
    for name, topic_id, index, partition in _partitions(topics):
        if broker_id not in partition.isr:
            continue
        remaining = tuple(replica for replica in partition.isr if replica != broker_id)
        change = change_partition(
            topic_id, index, partition, isr=remaining, is_active=acceptable, unclean=allows_unclean(name)
        )
        if change is not None:
            records.append(change)
    return records


def broker_returns(
    topics: TopicsImage, broker_id: int, is_active: IsActive, allows_unclean: AllowsUnclean
) -> list[Message]:
    """Changes for a broker that is unfenced: partitions that waited for a leader may have one now."""

    def acceptable(replica: int) -> bool:
        return replica == broker_id or is_active(replica)

    records: list[Message] = []
    for name, topic_id, index, partition in _partitions(topics):
        if partition.leader != NO_LEADER or broker_id not in partition.replicas:
            continue
        change = change_partition(
            topic_id, index, partition, isr=partition.isr, is_active=acceptable, unclean=allows_unclean(name)
        )
        if change is not None:
            records.append(change)
    return records


def leaves_directories(
    topics: TopicsImage,
    broker_id: int,
    lost: tuple[bytes, ...],
    is_active: IsActive,
    allows_unclean: AllowsUnclean,
) -> list[Message]:
    """Changes for the replicas of one broker that lay in directories which went offline (KIP-858)."""

    def acceptable(replica: int) -> bool:
        return replica != broker_id and is_active(replica)

    records: list[Message] = []
    for name, topic_id, index, partition in _partitions(topics):
        if broker_id not in partition.isr:
            continue
        if partition.directories[partition.replicas.index(broker_id)] not in lost:
            continue
        remaining = tuple(replica for replica in partition.isr if replica != broker_id)
        change = change_partition(
            topic_id, index, partition, isr=remaining, is_active=acceptable, unclean=allows_unclean(name)
        )
        if change is not None:
            records.append(change)
    return records


def leads_anything(topics: TopicsImage, broker_id: int) -> bool:
    """Whether a broker that shuts down still has leaderships to hand over."""
    return any(partition.leader == broker_id for _, _, _, partition in _partitions(topics))


def _partitions(topics: TopicsImage) -> Iterator[tuple[str, bytes, int, PartitionRegistration]]:
    for name, topic in topics.by_name.items():
        for index, partition in topic.partitions.items():
            yield name, topic.id, index, partition
