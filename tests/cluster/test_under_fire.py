"""Nodes die, are cut off, lose disks, … while clients write: see `tests.support.brokers.under_fire`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import KAFKAS, OURS
from tests.support.brokers.cut_network import CutNetwork
from tests.support.brokers.failing_disks import FailingDisks
from tests.support.brokers.faults import CUTS, FIRE, ON_NODES
from tests.support.brokers.under_fire import Fire

SECONDS = {OURS: 180, KAFKAS: 20}
FAULTS_OF_KAFKA = 4


@pytest.mark.parametrize("kind", [OURS, KAFKAS])
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, new_cluster: NewCluster, kind: str) -> None:
    cluster = new_cluster(kind, kind, kind, start=False, network=CutNetwork(), **FIRE)
    with FailingDisks(tmp_path) as disks:
        disks.attach(cluster)
        cluster.start().await_brokers()
        fire = Fire(cluster, seed=1, faults=() if kind == OURS else ON_NODES + CUTS, disks=disks)
        outcome = fire.burn(SECONDS[kind], len(fire.faults) if kind == OURS else FAULTS_OF_KAFKA)
        cluster.close()
    print(outcome.line)
    if kind == OURS:
        assert set(outcome.faults) == set(fire.faults), "each of them has happened"
        assert outcome.given_up == 0, "a node with a full disk goes on when there is room"
    assert outcome.faults.total() >= FAULTS_OF_KAFKA
    assert cluster.network is not None
    assert not cluster.network.strangers, "each connection between nodes can be cut"
    assert outcome.in_flight_at_faults > 0
    assert outcome.acknowledged > 1_000
    assert min(outcome.watermarks.values()) > 100
