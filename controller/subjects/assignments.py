"""Manual replica assignments, and the records of new partitions."""

from __future__ import annotations

from collections.abc import Sequence

from config.ports import RandomSource
from controller.metadata.image.brokers import UNASSIGNED_DIRECTORY
from controller.metadata.image.cluster_image import ClusterImage
from controller.subjects.placement import UsableBroker, place_replicas
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode
from protocol.metadata_log.topics import PartitionRecord

__all__ = ["bad_assignment", "check_led", "check_replicas", "default_directory", "new_partition", "place"]


def bad_assignment(sentence: str) -> ControllerError:
    return ControllerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)


def check_replicas(image: ClusterImage, brokers: Sequence[int], factor: int | None) -> None:
    """Raises what is wrong with one partition's replicas. factor: what they must number, if that is known."""
    manual = "The manual partition assignment includes"
    if not brokers:
        raise bad_assignment(f"{manual} an empty replica list.")
    previous: int | None = None
    for broker in sorted(brokers):
        if broker not in image.brokers.by_id:
            raise bad_assignment(f"{manual} broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise bad_assignment(f"{manual} the broker {broker} more than once.")
        previous = broker
    if factor is not None and len(brokers) != factor:
        raise bad_assignment(
            f"{manual} a partition with {len(brokers)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s)."
        )


def check_led(image: ClusterImage, index: int, brokers: Sequence[int]) -> None:
    """Raises if none of the replicas of a new partition could lead it."""
    if not any(image.brokers.is_active(broker) for broker in brokers):
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or "
            "in controlled shutdown."
        )


def place(
    image: ClusterImage, partitions: int, replication_factor: int, random_source: RandomSource
) -> list[list[int]]:
    """Replicas for new partitions on the brokers that can take some; raises INVALID_REPLICATION_FACTOR."""
    brokers = [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in image.brokers.by_id.values()
        if not broker.in_controlled_shutdown and (broker.usable_log_dirs or not broker.log_dirs)
    ]
    return place_replicas(brokers, partitions, replication_factor, random_source)


def default_directory(image: ClusterImage, broker_id: int) -> bytes:
    broker = image.brokers.get(broker_id)
    return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory


def new_partition(
    image: ClusterImage, topic_id: bytes, index: int, brokers: Sequence[int]
) -> PartitionRecord:
    """The record of a new partition. At least one of the brokers must be active; the first active one
    leads."""
    isr = [broker for broker in brokers if image.brokers.is_active(broker)]
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(brokers),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(image, broker) for broker in brokers],
    )
