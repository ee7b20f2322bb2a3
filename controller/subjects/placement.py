"""Which brokers hold a new topic's partitions, the preferred leader first.

Rules, in order of weight: a broker holds a partition once; replicas lie in as many racks as there are; the
first replica is an unfenced broker; leaders and replicas are spread evenly. Fenced brokers take replicas only
when there are not enough unfenced ones (they may come back), never the first place.

The racks are taken in turn, and within a rack its brokers are, with one turn for leaders and one for
followers: partition p begins at the next rack with the next leader, and the other racks give their next
followers. Start and order are drawn by chance, so that many topics with one partition do not all meet on
the first broker. When a rack's brokers have all been used in a partition, its turn is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from config.ports import RandomSource
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode

__all__ = ["UsableBroker", "place_replicas"]


class UsableBroker(NamedTuple):
    """A broker that may hold replicas: it is not shutting down and has a directory that is not cordoned."""

    id: int
    rack: str | None
    fenced: bool


class _Rack:
    """The brokers of one rack in their drawn order, and whose turn is next, to lead and to follow."""

    def __init__(self, brokers: list[int], fenced: list[int], start: int) -> None:
        self.brokers = brokers
        self.fenced = fenced
        self.next_leader = start
        self.next_follower = start + 1

    def take_leader(self, used: list[int]) -> int | None:
        return self._take("next_leader", used)

    def take_follower(self, used: list[int]) -> int | None:
        return self._take("next_follower", used)

    def _take(self, turn: str, used: list[int]) -> int | None:
        first: int = getattr(self, turn)
        for step in range(len(self.brokers)):
            broker = self.brokers[(first + step) % len(self.brokers)]
            if broker not in used:
                setattr(self, turn, first + step + 1)
                return broker
        return None

    def take_fenced(self, used: list[int]) -> int | None:
        return next((broker for broker in self.fenced if broker not in used), None)


def place_replicas(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, random_source: RandomSource
) -> list[list[int]]:
    """Replica lists for `partitions` partitions.

    Raises INVALID_REPLICATION_FACTOR where Kafka does, with its sentences.
    """
    unable = f"Unable to replicate the partition {replication_factor} time(s): "
    if replication_factor > len(brokers):
        raise ControllerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{unable}The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories "
            "cordoned.",
        )
    if all(broker.fenced for broker in brokers):
        raise ControllerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{unable}All brokers are currently fenced or have all their log directories cordoned.",
        )
    racks = _racks(brokers, random_source)
    first = random_source.below(len(racks))
    return [
        _place_one(racks, (first + partition) % len(racks), replication_factor)
        for partition in range(partitions)
    ]


def _racks(brokers: Sequence[UsableBroker], random_source: RandomSource) -> list[_Rack]:
    by_rack: dict[str, list[UsableBroker]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(broker.rack or "", []).append(broker)
    racks = []
    for members in by_rack.values():
        unfenced = _shuffled([broker.id for broker in members if not broker.fenced], random_source)
        fenced = _shuffled([broker.id for broker in members if broker.fenced], random_source)
        racks.append(_Rack(unfenced, fenced, random_source.below(len(unfenced)) if unfenced else 0))
    return racks


def _place_one(racks: list[_Rack], first: int, replication_factor: int) -> list[int]:
    turns = racks[first:] + racks[:first]
    replicas: list[int] = []
    for rack in turns:
        leader = rack.take_leader(replicas)
        if leader is not None:
            replicas.append(leader)
            turns.remove(rack)
            turns.append(rack)
            break
    # The first round goes on through the other racks, later rounds fill up; fenced brokers come last of all.
    for take in (_Rack.take_follower, _Rack.take_fenced):
        while len(replicas) < replication_factor:
            before = len(replicas)
            for rack in turns:
                broker = take(rack, replicas)
                if broker is not None:
                    replicas.append(broker)
                if len(replicas) == replication_factor:
                    return replicas
            if len(replicas) == before:
                break
    return replicas


def _shuffled(ids: list[int], random_source: RandomSource) -> list[int]:
    for last in range(len(ids) - 1, 0, -1):
        other = random_source.below(last + 1)
        ids[last], ids[other] = ids[other], ids[last]
    return ids
