"""The fetchers of a broker: one for each leader and number below `num.replica.fetchers`, made when needed.

A partition with a leader elsewhere is given to a fetcher of that leader, which its topic and index choose. A
partition that is led here, has no leader, has failed or is deleted is removed from its fetcher at once. A
fetcher without partitions is closed. In Kafka this is `ReplicaFetcherManager`.

A leader is reached at the address that it has registered for the inter-broker listener. When the metadata log
brings an address that was unknown, or another one, the partitions are given to a new fetcher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from broker.quotas.replication_quota import ReplicationQuota
from broker.replication.fetcher.fetch_transitions import FetchState
from broker.replication.fetcher.fetcher_surroundings import FetcherChannel, FetcherSurroundings
from broker.replication.fetcher.replica_fetcher import ReplicaFetcher
from broker.replication.partition import Partition
from broker.replication.partition_state import TopicIdPartition
from broker.replication.roles import NO_LEADER

__all__ = ["ReplicaFetcherManager", "fetcher_id_of"]

_log = logging.getLogger("barnabas.replicas.fetcher")


class LeaderAddress(Protocol):
    """The address at which a broker listens for the other brokers."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class _Placed:
    """A fetcher, the broker from which it fetches, and the address of that broker when the fetcher was
    made."""

    __slots__ = ("address", "fetcher", "fetcher_id", "leader_id")

    def __init__(
        self, leader_id: int, fetcher_id: int, address: tuple[str, int], fetcher: ReplicaFetcher
    ) -> None:
        self.leader_id = leader_id
        self.fetcher_id = fetcher_id
        self.address = address
        self.fetcher = fetcher


class ReplicaFetcherManager:
    """connect: makes a connection to an address, given a client id. endpoint: the address of a broker."""

    def __init__(
        self,
        surroundings: FetcherSurroundings,
        *,
        fetchers_per_leader: int,
        connect: Callable[[str, int, str], FetcherChannel],
        endpoint: Callable[[int], LeaderAddress | None],
    ) -> None:
        self._surroundings = surroundings
        self._per_leader = fetchers_per_leader
        self._connect = connect
        self._endpoint = endpoint
        self._placed: dict[tuple[int, int], _Placed] = {}
        """The fetchers by leader and fetcher id."""
        self._fetcher_of: dict[TopicIdPartition, _Placed] = {}
        self._unplaced: dict[TopicIdPartition, Partition] = {}
        """The partitions that follow a broker whose address is not known."""
        self._is_looking = False
        self._is_closed = False

    # Called by the replica manager.

    def partition_moved(self, partition: Partition) -> None:
        """Takes in that another leader or leader epoch is in force for the partition."""
        if self._is_closed:
            return
        key = (partition.topic_id, partition.index)
        leader_id = partition.leader_id
        if partition.is_leader or partition.is_offline or leader_id in (NO_LEADER, partition.node_id):
            self.partition_gone(partition)
            return
        placed = self._place(leader_id, fetcher_id_of(partition.topic, partition.index, self._per_leader))
        before = self._fetcher_of.get(key)
        if before is not None and before is not placed:
            self._take_away(key, before)
        if placed is None:
            self._unplaced[key] = partition
            _log.warning("%r is not fetched: no address of its leader %d is known", partition, leader_id)
            return
        self._unplaced.pop(key, None)
        self._fetcher_of[key] = placed
        placed.fetcher.follow(partition)

    def partition_gone(self, partition: Partition) -> None:
        """Stops fetching the partition: it is led here, has no leader, has failed, or is not hosted here any
        more."""
        key = (partition.topic_id, partition.index)
        self._unplaced.pop(key, None)
        placed = self._fetcher_of.get(key)
        if placed is not None:
            self._take_away(key, placed)

    # Changes that concern all partitions.

    def brokers_changed(self) -> None:
        """Looks at the leaders' addresses again, because brokers have registered: some may be known now, or
        have another address."""
        moved = list(self._unplaced.values())
        for place, placed in list(self._placed.items()):
            endpoint = self._endpoint(placed.leader_id)
            if endpoint is not None and (endpoint.host, endpoint.port) != placed.address:
                moved += self._dissolve(place)
        for partition in moved:
            self.partition_moved(partition)

    def resize(self, fetchers_per_leader: int) -> None:
        """Takes over a change of `num.replica.fetchers`."""
        if fetchers_per_leader == self._per_leader:
            return
        _log.info("Resizing fetcher threads from %d to %d per leader", self._per_leader, fetchers_per_leader)
        self._per_leader = fetchers_per_leader
        moved = [partition for place in list(self._placed) for partition in self._dissolve(place)]
        for partition in moved:
            self.partition_moved(partition)

    @property
    def quota(self) -> ReplicationQuota:
        """The quota for throttled replicas of this broker."""
        return self._surroundings.quota

    def close(self) -> None:
        self._is_closed = True
        for place in list(self._placed):
            self._dissolve(place)
        self._unplaced.clear()

    # Fetchers.

    def _place(self, leader_id: int, fetcher_id: int) -> _Placed | None:
        """The fetcher for a partition, which is made if there is none. None if the leader's address is not
        known."""
        placed = self._placed.get((leader_id, fetcher_id))
        if placed is not None:
            return placed
        endpoint = self._endpoint(leader_id)
        if endpoint is None:
            return None
        address = (endpoint.host, endpoint.port)
        client_id = f"broker-{self._surroundings.node_id}-fetcher-{fetcher_id}"
        fetcher = ReplicaFetcher(
            f"ReplicaFetcherThread-{fetcher_id}-{leader_id}",
            self._connect(*address, client_id),
            self._surroundings,
        )
        placed = self._placed[leader_id, fetcher_id] = _Placed(leader_id, fetcher_id, address, fetcher)
        return placed

    def _take_away(self, key: TopicIdPartition, placed: _Placed) -> None:
        self._fetcher_of.pop(key, None)
        placed.fetcher.leave(key)
        if not placed.fetcher and not self._is_looking:
            # Later, because the next partition of the same change may need the fetcher.
            self._is_looking = True
            self._surroundings.timers.call_soon(self._close_idle)

    def _close_idle(self) -> None:
        self._is_looking = False
        for place, placed in list(self._placed.items()):
            if not placed.fetcher:
                self._dissolve(place)

    def _dissolve(self, place: tuple[int, int]) -> list[Partition]:
        """Closes a fetcher, and returns the partitions that it had."""
        placed = self._placed.pop(place)
        partitions = placed.fetcher.followed()
        for partition in partitions:
            self._fetcher_of.pop((partition.topic_id, partition.index), None)
        placed.fetcher.close()
        return partitions

    # For metrics.

    @property
    def replication_bytes_in(self) -> int:
        """The number of record bytes that were copied since the start."""
        return self._surroundings.replication_bytes_in

    @property
    def reassignment_bytes_in(self) -> int:
        """The part of them that was copied to replicas which reassignments add."""
        return self._surroundings.reassignment_bytes_in

    @property
    def max_lag(self) -> int:
        return max((placed.fetcher.plan.max_lag() for placed in self._placed.values()), default=0)

    @property
    def failed_partitions(self) -> int:
        return sum(placed.fetcher.plan.count(FetchState.FAILED) for placed in self._placed.values())

    def min_fetch_rate(self, now_ms: int) -> float:
        """The fetches a second of the slowest fetcher, see `ReplicaFetcher.fetch_rate`; 0 if there is no
        fetcher."""
        return min((placed.fetcher.fetch_rate(now_ms) for placed in self._placed.values()), default=0.0)

    def fetchers(self) -> Iterator[tuple[ReplicaFetcher, tuple[str, int]]]:
        """Each fetcher with the address of its leader."""
        for placed in self._placed.values():
            yield placed.fetcher, placed.address


def fetcher_id_of(topic: str, partition: int, fetchers_per_leader: int) -> int:
    """The number of the fetcher that copies a partition; it is the one that Apache Kafka gives it."""
    hashed = 0
    units = topic.encode("utf-16-be")
    for position in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[position : position + 2])) & 0xFFFFFFFF
    signed = (31 * hashed + partition) & 0xFFFFFFFF
    if signed & 0x80000000:
        signed = 0x100000000 - signed
    return (signed & 0x7FFFFFFF) % fetchers_per_leader
