"""Nodes die while transactions are under way: see `tests.support.brokers.transactions_under_fire`.

That module as a command does the same for as long as one likes, with cuts of the network too, and with
`--against kafka` to a cluster of Apache Kafka's: its three JVMs alone take a minute here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import OURS
from tests.support.brokers.faults import ON_NODES
from tests.support.brokers.transactions_under_fire import TRANSACTIONS_FIRE, TransactionsFire

SECONDS = 15


@pytest.mark.timeout(600)
def test_transactions_are_whole_and_seen_once(tmp_path: Path, new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, **TRANSACTIONS_FIRE)
    fire = TransactionsFire(cluster, seed=1, path=tmp_path / "history.jsonl", faults=ON_NODES)
    verdict = fire.burn(SECONDS, len(ON_NODES))
    cluster.close()
    print(verdict.line)
    print(fire.troubles)
    assert verdict.is_clean, verdict.stories
    assert set(verdict.faults) == set(ON_NODES), "each of them has happened"
    assert verdict.counts["transactions ok"] > 50
    assert verdict.counts["transactions fail"] > 5
    assert verdict.counts["transactions info"] > 0
    assert verdict.counts["writes ok"] > 20
    assert {"aborted on purpose", "left open", "overdue", "not known: _FENCED"} <= set(fire.troubles)
