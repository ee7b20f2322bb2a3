"""The rules of producers and transactions strike when they are broken: batches are written into the log of a
leader by hand, past all checks of the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.simulation.rules import transaction_rules
from broker.simulation.verdict import without_logs
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.control import TransactionMarker, build_marker_batch
from storage.transaction_index import AbortedTransaction
from tests.simulation.traffic import Traffic, on_leader, strikes

PRODUCER = 7


class Written:
    """The leader's log, and a way into it. Every batch has one record."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.node, self.hosted = on_leader(traffic)
        self.log = self.hosted.log
        self.log.producer_state.verifications.is_required = False

    def batch(self, sequence: int, *, epoch: int = 0, transactional: bool = False) -> None:
        batch = build_batch(
            [SimpleRecord(timestamp=1, value=b"v")],
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        self._append(batch)

    def marker(self, *, epoch: int = 0, coordinator_epoch: int = 0, committed: bool = True) -> None:
        self._append(
            build_marker_batch(
                TransactionMarker(committed, coordinator_epoch),
                timestamp_ms=1,
                producer_id=PRODUCER,
                producer_epoch=epoch,
            )
        )

    def _append(self, batch: bytearray) -> None:
        producers = self.log.producer_state
        kept = producers._entries.pop(PRODUCER, None)
        self.log.append_internal(batch, leader_epoch=self.hosted.leader_epoch, now_ms=1)
        if kept is not None and kept.transaction_first_offset >= 0:
            producers.transactions.began(PRODUCER, kept.transaction_first_offset)

    def turn(self) -> None:
        self.traffic.turn(self.node)


@pytest.fixture
def written() -> Iterator[Written]:
    with without_logs():
        traffic = Traffic(1)
        traffic.write(1)
        yield Written(traffic)


def test_what_producers_may_do(written: Written) -> None:
    written.batch(0)
    written.batch(1)
    written.batch(2, transactional=True)
    written.marker(committed=False)
    written.batch(0, epoch=1, transactional=True)
    written.marker(epoch=1, coordinator_epoch=1)
    written.turn()
    counts = written.traffic.world.coverage.counts
    assert counts["looked at: sequence of a producer"] == 3
    assert counts["looked at: transaction marker"] == 2
    assert counts["looked at: aborted transactions"] == 1
    assert counts["looked at: last stable offset"] > 0


@pytest.mark.parametrize("sequence", [0, 1, 3])
def test_a_sequence_that_does_not_follow(written: Written, sequence: int) -> None:
    written.batch(0)
    written.batch(1)
    written.batch(sequence)
    strikes(transaction_rules.SEQUENCES, written.turn)


def test_a_batch_of_a_fenced_producer(written: Written) -> None:
    written.batch(0, epoch=1)
    written.batch(0, epoch=0)
    strikes(transaction_rules.NOT_FENCED, written.turn)


def test_a_batch_after_the_marker_that_fences_it(written: Written) -> None:
    written.batch(0, transactional=True)
    written.marker(epoch=1)
    written.batch(1, transactional=True)
    strikes(transaction_rules.NOT_FENCED, written.turn)


def test_a_marker_of_an_older_coordinator(written: Written) -> None:
    written.batch(0, transactional=True)
    written.marker(coordinator_epoch=2)
    written.batch(1, transactional=True)
    written.marker(coordinator_epoch=1)
    strikes(transaction_rules.COORDINATOR_BACK, written.turn)


def test_a_last_stable_offset_beyond_an_open_transaction(written: Written) -> None:
    written.batch(0, transactional=True)
    written.log.producer_state.transactions.ended(PRODUCER, 0)
    end_offset = written.log.log_end_offset
    for replica in written.traffic.seen.replicas.values():
        replica.held_end = end_offset
    written.log.update_high_watermark(end_offset)
    strikes(transaction_rules.WRONG_LAST_STABLE, written.turn)


def test_a_last_stable_offset_that_falls(written: Written) -> None:
    written.turn()
    rules = next(
        rule for rule in written.traffic.watch.rules if isinstance(rule, transaction_rules.TransactionRules)
    )
    replica = written.traffic.seen.replicas[written.node.node_id]
    rules._stable[replica] = (written.hosted.leader_epoch, written.log.last_stable_offset + 1)
    written.batch(0)
    strikes(transaction_rules.LAST_STABLE_FALLS, written.turn)


def test_an_index_that_names_another_transaction(written: Written) -> None:
    written.batch(0, transactional=True)
    written.marker(committed=False)
    written.log.active.transaction_index.append(AbortedTransaction(9, 0, 1, 0))
    strikes(transaction_rules.ABORTED_DIFFER, written.turn)


def test_an_index_that_keeps_what_was_cut_off_with_its_marker(written: Written) -> None:
    """No other marker comes behind it, so nothing new is read."""
    written.batch(0, transactional=True)
    written.marker(committed=False)
    written.turn()
    index = written.log.active.transaction_index
    (entry,) = index.entries()
    written.log.truncate_to(entry.last_offset, now_ms=1)
    written.turn()
    assert index.entries() == []
    written.log.segments.truncations += 1
    index.append(entry)
    strikes(transaction_rules.ABORTED_DIFFER, written.turn)
