"""Which fetcher copies which partition, as leaders, addresses and settings change."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from broker.replication.fetcher.fetcher_manager import ReplicaFetcherManager, fetcher_id_of
from broker.replication.partition import Partition
from tests.support.rigs.fetcher_rig import NODE, FetcherRig, ScriptedLeader


class Address(NamedTuple):
    host: str
    port: int


class ManagerRig:
    """Partitions 0 to 3 of one topic; the leaders' addresses are `addresses`."""

    def __init__(self, fetchers_per_leader: int = 1) -> None:
        self.rig = FetcherRig()
        self.addresses: dict[int, Address] = {1: Address("one", 9), 3: Address("three", 9)}
        self.made: list[tuple[str, int, str]] = []
        self.channels: list[ScriptedLeader] = []
        self.manager = ReplicaFetcherManager(
            self.rig.surroundings,
            fetchers_per_leader=fetchers_per_leader,
            connect=self._connect,
            endpoint=self.addresses.get,
        )
        for index in range(4):
            self.rig.host(index)

    def _connect(self, host: str, port: int, client_id: str) -> ScriptedLeader:
        self.made.append((host, port, client_id))
        self.channels.append(ScriptedLeader())
        return self.channels[-1]

    def lead(self, index: int, leader: int, epoch: int = 1) -> Partition:
        partition = self.rig.partitions[index]
        partition.follow_image(
            leader_id=leader,
            leader_epoch=epoch,
            partition_epoch=epoch,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            min_insync_replicas=1,
            now_ms=0,
        )
        self.manager.partition_moved(partition)
        self.rig.timers.run_soon()
        return partition

    def copied(self) -> dict[str, list[int]]:
        return {
            fetcher.name: [partition.index for partition in fetcher.followed()]
            for fetcher, _ in self.manager.fetchers()
        }


def test_one_fetcher_for_each_leader() -> None:
    rig = ManagerRig()
    for index, leader in enumerate((1, 1, 3, NODE)):
        rig.lead(index, leader)
    assert rig.copied() == {"ReplicaFetcherThread-0-1": [0, 1], "ReplicaFetcherThread-0-3": [2]}
    assert rig.made == [("one", 9, "broker-2-fetcher-0"), ("three", 9, "broker-2-fetcher-0")]


def test_a_partition_goes_where_its_leader_goes_and_an_idle_fetcher_is_closed() -> None:
    rig = ManagerRig()
    rig.lead(0, 1)
    rig.lead(0, 3, epoch=2)
    assert rig.copied() == {"ReplicaFetcherThread-0-3": [0]}
    assert rig.channels[0].is_closed
    rig.lead(0, NODE, epoch=3)
    assert rig.copied() == {}
    rig.lead(0, -1, epoch=4)
    assert rig.copied() == {}


def test_a_partition_that_is_gone_is_copied_no_more() -> None:
    rig = ManagerRig()
    partition = rig.lead(0, 1)
    rig.manager.partition_gone(partition)
    rig.rig.timers.run_soon()
    assert rig.copied() == {}


def test_a_leader_without_an_address_is_asked_when_it_has_one() -> None:
    rig = ManagerRig()
    address = rig.addresses.pop(1)
    rig.lead(0, 1)
    assert rig.copied() == {}
    rig.addresses[1] = address
    rig.manager.brokers_changed()
    assert rig.copied() == {"ReplicaFetcherThread-0-1": [0]}


def test_a_leader_at_another_address_is_asked_there() -> None:
    rig = ManagerRig()
    rig.lead(0, 1)
    rig.addresses[1] = Address("elsewhere", 9)
    rig.manager.brokers_changed()
    rig.rig.timers.run_soon()
    assert [each[0] for each in rig.made] == ["one", "elsewhere"]
    assert (rig.channels[0].is_closed, rig.copied()) == (True, {"ReplicaFetcherThread-0-1": [0]})
    assert len(rig.channels[1].sent) == 1


def test_more_fetchers_for_each_leader_share_its_partitions() -> None:
    rig = ManagerRig()
    for index in range(4):
        rig.lead(index, 1)
    rig.manager.resize(2)
    rig.rig.timers.run_soon()
    shared = rig.copied()
    assert sorted(index for indexes in shared.values() for index in indexes) == [0, 1, 2, 3]
    assert len(shared) == 2


def test_a_closed_manager_copies_nothing() -> None:
    rig = ManagerRig()
    rig.lead(0, 1)
    rig.manager.close()
    rig.lead(1, 1)
    assert rig.copied() == {}
    assert rig.channels[0].is_closed


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [("orders", 0, 4), ("orders", 7, 2), ("__consumer_offsets", 49, 3), ("π", 3, 3)],
)
def test_the_number_of_a_fetcher_is_the_one_that_kafka_takes(
    topic: str, partition: int, expected: int
) -> None:
    """Utils.abs(31 * topic.hashCode() + partition) % 5, computed by a JVM."""
    assert fetcher_id_of(topic, partition, 5) == expected
