"""Holes that Kafka's replication and transactions had for years, each shown by what closed it.

The same cluster meets the same fate twice: without the rule that closed the hole, where a rule of the
simulator sees what is lost, and with it, where all is well.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.replication.partition import Partition
from broker.simulation.verdict import Violation
from tests.simulation.cluster_fates import (
    last_in_sync_fails,
    leader_fails,
    old_fetch_arrives,
    old_request_arrives,
)
from tests.simulation.cluster_mutant import Patch, wrapped
from tests.simulation.controller_mutants import takes_any_broker_epoch
from tests.simulation.replication_mutants import truncates_to_its_high_watermark
from tests.simulation.transaction_fates import write_arrives_late


def test_truncation_by_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before KIP-101 a follower with a new leader truncated its log to its own high watermark, which it hears
    of one fetch late. So it cut off what was committed, and if the new leader failed before it had copied
    that back, it was lost. Since then the leader's epochs tell where two logs part."""
    leader_fails()
    truncates_to_its_high_watermark(monkeypatch)
    with pytest.raises(Violation, match="only what is not committed is cut off"):
        leader_fails()


def test_a_fetch_that_outlives_a_restart_of_its_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch of a follower's former life, in its former session, arrives late: the follower has restarted
    with an empty disk meanwhile, and the leader takes it for caught up. Since KIP-903 a fetch says the epoch
    in which its broker is registered, and one of a former registration is refused."""
    old_fetch_arrives()
    _believes_old_fetches(monkeypatch)
    with pytest.raises(Violation, match="who joins an ISR has what is committed"):
        old_fetch_arrives()


def _believes_old_fetches(patch: Patch) -> None:
    def fetched(genuine: Any, self: Partition, *arguments: Any, **named: Any) -> int:
        named["broker_epoch"] = named["registered_epoch"]
        return int(genuine(self, *arguments, **named))

    wrapped(patch, Partition, "follower_fetched", fetched)


def test_an_old_broker_epoch_in_an_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader asks for an ISR with a follower that has caught up, and the request is late: the follower has
    restarted meanwhile, and has lost its log. Since KIP-903 the request says in which epoch the follower's
    broker was registered when it had caught up, and the controller takes no other."""
    old_request_arrives()
    takes_any_broker_epoch(monkeypatch)
    with pytest.raises(Violation, match="who joins an ISR has what is committed"):
        old_request_arrives()


def test_the_last_replica_standing() -> None:
    """The last one in sync loses its power, and with it what it had not synced, though the others have it:
    they have left the ISR, and so it leads again. Since KIP-966 who leaves an ISR that is too small for
    acks=all stays eligible, and who has died is not."""
    last_in_sync_fails(eligible_leader_replicas=1)
    with pytest.raises(Violation, match="committed records are never lost"):
        last_in_sync_fails(eligible_leader_replicas=0)


def test_a_write_that_comes_after_the_end_of_its_transaction() -> None:
    """A batch of a transaction that is aborted meanwhile arrives late, in the same epoch: it began another
    transaction, which nobody knew of and nobody ended, and the last stable offset stood still for ever. Since
    KIP-890 each transaction has an epoch of its own; before, a leader could not tell it from the first batch
    of the next one, unless it asked the coordinator, which is switched off here."""
    write_arrives_late(version=2, protocol=2, verification=False)
    with pytest.raises(Violation, match="has an open transaction"):
        write_arrives_late(version=1, protocol=1, verification=False)
