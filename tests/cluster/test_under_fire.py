"""Nodes die, are cut off, lose disks, … while clients write: see `tests.support.brokers.under_fire`.

That module as a command does the same for as long as one likes, with `--kind kafka` to a cluster of Apache
Kafka's, where its three JVMs take most of a small machine."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import OURS
from tests.support.brokers.cut_network import CutNetwork
from tests.support.brokers.failing_disks import FailingDisks
from tests.support.brokers.faults import FIRE
from tests.support.brokers.under_fire import Fire

SECONDS = 180


def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, start=False, network=CutNetwork(), **FIRE)
    with FailingDisks(tmp_path) as disks:
        disks.attach(cluster)
        cluster.start().await_brokers()
        fire = Fire(cluster, seed=1, disks=disks)
        outcome = fire.burn(SECONDS, len(fire.faults))
        cluster.close()
    print(outcome.line)
    assert set(outcome.faults) == set(fire.faults), "each of them has happened"
    assert outcome.given_up == 0, "a node with a full disk goes on when there is room"
    assert cluster.network is not None
    assert not cluster.network.strangers, "each connection between nodes can be cut"
    assert outcome.in_flight_at_faults > 0
    assert outcome.fewest_acknowledged > 1_000, "each producer has written all the time"
    assert min(outcome.watermarks.values()) > 100
    assert min(outcome.watermarks_by_node.values()) > 100, "each node was watched"
