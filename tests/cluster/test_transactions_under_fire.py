"""Nodes die and are cut off while transactions are under way: see
`tests.support.brokers.transactions_under_fire`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import KAFKAS, OURS
from tests.support.brokers.faults import ON_NODES
from tests.support.brokers.transactions_under_fire import TRANSACTIONS_FIRE, TransactionsFire

SECONDS = 15


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [OURS, KAFKAS])
def test_transactions_are_whole_and_seen_once(tmp_path: Path, new_cluster: NewCluster, kind: str) -> None:
    cluster = new_cluster(kind, kind, kind, **TRANSACTIONS_FIRE)
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
