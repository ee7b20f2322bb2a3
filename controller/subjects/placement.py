"""Which brokers hold a new partition, the preferred leader first: checked if a client assigns the replicas
itself, chosen here if it does not; and the record of the partition.

They are chosen as Kafka's StripedReplicaPlacer chooses them. A broker holds a partition once, and the first
replica is an unfenced broker. The racks are taken in turn, and within a rack its brokers are, the unfenced
ones before the fenced ones: partition p begins one rack and, in each rack, one broker further than partition
p - 1, which makes stripes::

    racks A (brokers 1, 2), B (3, 4), C (5, 6), three replicas
    partition 0:  1 3 5      partition 1:  4 6 2      partition 2:  5 1 3 …

Leaders and replicas are spread evenly by that. Where the stripes begin is drawn by chance, so that many
topics with one partition do not all meet on the first broker; and when each unfenced broker has had its turn
to lead, racks and brokers are shuffled, so that the same brokers do not follow the same leader for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from config.ports import RandomSource
from controller.metadata.image.brokers import UNASSIGNED_DIRECTORY
from controller.metadata.image.cluster_image import ClusterImage
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode
from protocol.metadata_log.topics import PartitionRecord

__all__ = [
    "UsableBroker",
    "bad_assignment",
    "check_led",
    "check_replicas",
    "default_directory",
    "new_partition",
    "place",
    "place_replicas",
]

T = TypeVar("T")


def bad_assignment(sentence: str) -> ControllerError:
    return ControllerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)


def check_replicas(image: ClusterImage, brokers: Sequence[int], factor: int | None) -> None:
    """Raises what is wrong with the replicas of one partition. factor: how many there must be, if that is
    known."""
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


def default_directory(image: ClusterImage, broker_id: int) -> bytes:
    """The log directory in which a broker creates a replica: known before if the broker has only one."""
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


class UsableBroker(NamedTuple):
    """A broker that may hold replicas: it is not shutting down and has a directory that is not cordoned."""

    id: int
    rack: str | None
    fenced: bool


class _Ring:
    """Brokers in their order. Each is taken once in a round, and every round begins one broker further on."""

    def __init__(self, brokers: list[int], random_source: RandomSource) -> None:
        self._brokers = sorted(brokers)
        self._start = random_source.below(len(brokers)) if brokers else 0
        self._taken = 0
        self._round = 0

    def take(self, round_: int) -> int | None:
        """The next broker of the round, None if all have been taken."""
        if not self._brokers:
            return None
        if round_ != self._round:
            self._round, self._taken = round_, 0
            self._start = (self._start + 1) % len(self._brokers)
        if self._taken >= len(self._brokers):
            return None
        broker = self._brokers[(self._taken + self._start) % len(self._brokers)]
        self._taken += 1
        return broker

    def shuffle(self, random_source: RandomSource) -> None:
        _shuffle(self._brokers, random_source)


class _Rack:
    """The brokers of one rack."""

    def __init__(self, brokers: Sequence[UsableBroker], random_source: RandomSource) -> None:
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], random_source)
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], random_source)

    def take(self, round_: int) -> int | None:
        broker = self.unfenced.take(round_)
        return self.fenced.take(round_) if broker is None else broker


class _Placer:
    """All racks, and the rack and round with which the next partition begins."""

    def __init__(self, brokers: Sequence[UsableBroker], random_source: RandomSource) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], random_source) for name in names]
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._random_source = random_source
        self._first = random_source.below(len(names))
        self._round = 0

    def place(self, replication_factor: int) -> list[int]:
        """The replicas of the next partition. At least one broker is unfenced, and there are enough."""
        if self._round == self._unfenced > 1:
            self._shuffle()
            self._round = 0
        racks, first = self._racks, self._first % len(self._racks)
        replicas: list[int] = []
        leading = first
        while not replicas:
            leader = racks[leading].unfenced.take(self._round)
            if leader is None:
                leading = (leading + 1) % len(racks)
            else:
                replicas.append(leader)
        rack = first
        skipped: int | None = leading
        while len(replicas) < replication_factor:
            if rack == skipped:  # It has given the leader in this turn of the racks.
                skipped = None
            else:
                broker = racks[rack].take(self._round)
                if broker is not None:
                    replicas.append(broker)
            rack = (rack + 1) % len(racks)
        self._round += 1
        self._first = first + 1
        return replicas

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random_source)
        for rack in self._racks:
            rack.unfenced.shuffle(self._random_source)
            rack.fenced.shuffle(self._random_source)


def place_replicas(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, random_source: RandomSource
) -> list[list[int]]:
    """Replica lists for `partitions` partitions.

    Raises INVALID_REPLICATION_FACTOR where Kafka does, with its sentences.
    """
    if all(broker.fenced for broker in brokers):
        raise ControllerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise ControllerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories "
            "cordoned.",
        )
    placer = _Placer(brokers, random_source)
    return [placer.place(replication_factor) for _ in range(partitions)]


def _shuffle(items: list[T], random_source: RandomSource) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random_source.below(last + 1)
        items[last], items[other] = items[other], items[last]
