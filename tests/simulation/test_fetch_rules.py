"""The rules of what readers are given strike when an answer says something else than the committed log."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack_into

import pytest

from broker.simulation.cluster.cluster_world import ClusterWorld, FetchedPart
from broker.simulation.coverage import Coverage
from broker.simulation.rules.fetch_rules import GIVEN, NAMED, FetchRules
from broker.simulation.rules.seen_logs import SeenBatch
from broker.simulation.rules.seen_partitions import SeenCluster
from broker.simulation.verdict import Violation
from protocol.messages.fetch import FetchResponse
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.control import TransactionMarker, build_marker_batch
from protocol.records.header import read_header

TOPIC_ID = b"t" * 16
ABORTED, COMMITTED = 7, 8
"""Producers."""


def data(value: str, producer_id: int = -1) -> bytearray:
    is_transactional = producer_id >= 0
    return bytearray(
        build_batch(
            [SimpleRecord(timestamp=1, value=value.encode())],
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            transactional=is_transactional,
        )
    )


def marker(producer_id: int, *, committed: bool) -> bytearray:
    told = TransactionMarker(committed, 0)
    return bytearray(build_marker_batch(told, timestamp_ms=1, producer_id=producer_id, producer_epoch=0))


LOG = (
    data("0", ABORTED),
    data("1", COMMITTED),
    data("2"),
    marker(COMMITTED, committed=True),
    marker(ABORTED, committed=False),
    data("5"),
)
"""By offset."""
for at, each in enumerate(LOG):
    pack_into(">q", each, 0, at)

IN_IT = [(ABORTED, 0)]


def seen(batch: bytearray) -> SeenBatch:
    header = read_header(batch, 0)
    told = None
    if header.is_control:
        told = TransactionMarker(header.producer_id == COMMITTED, 0)
    return SeenBatch(
        header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc,
        header.producer_id, header.producer_epoch, header.base_sequence, header.attributes, told,
    )  # fmt: skip


def fetched(
    batches: Sequence[bytearray],
    named: Sequence[tuple[int, int]] | None,
    *,
    offset: int = 0,
    is_committed: bool = True,
    stable: int = len(LOG),
    committed: int = len(LOG),
) -> None:
    """Has the rules judge an answer, where so many batches are committed."""
    cluster = SeenCluster(Coverage())
    partition = cluster.partition("topic", TOPIC_ID, 0)
    partition.committed.batches = [seen(batch) for batch in LOG[:committed]]
    partition.committed.lasts = list(range(committed))
    world = ClusterWorld(1, ())
    FetchRules(cluster, world)
    answer = FetchResponse.PartitionData(
        0,
        high_watermark=len(LOG),
        last_stable_offset=stable,
        log_start_offset=0,
        aborted_transactions=None
        if named is None
        else [FetchResponse.AbortedTransaction(*each) for each in named],
        records=b"".join(batches),
    )
    for judge in world.fetch_listeners:
        judge(FetchedPart("reader-1", TOPIC_ID, 0, offset, is_committed, answer))


def test_right_answers_are_right() -> None:
    fetched(LOG, IN_IT)
    fetched(LOG, None, is_committed=False)
    fetched(LOG[2:], IN_IT, offset=2)
    fetched(LOG[5:], [], offset=5)
    fetched([], [], offset=2)
    fetched([*LOG[:2], LOG[2][:40]], IN_IT)
    fetched(LOG[:2], [*IN_IT, (9, 4)], stable=4)


def test_what_is_not_committed_is_not_given() -> None:
    with pytest.raises(Violation, match=GIVEN):
        fetched(LOG, None, is_committed=False, committed=5)


def test_other_records_than_the_committed_ones_are_not_given() -> None:
    other = data("other")
    pack_into(">q", other, 0, 2)
    with pytest.raises(Violation, match=GIVEN):
        fetched([*LOG[:2], other], None, is_committed=False)


def test_batches_are_not_left_out() -> None:
    with pytest.raises(Violation, match=GIVEN):
        fetched([LOG[0], LOG[2]], None, is_committed=False)


def test_nothing_undecided_is_given_to_who_reads_what_is_committed() -> None:
    fetched(LOG[:2], None, is_committed=False, stable=1)
    with pytest.raises(Violation, match=GIVEN):
        fetched(LOG[:2], IN_IT, stable=1)


@pytest.mark.parametrize(
    ("named", "offset"),
    [
        pytest.param([], 0, id="missing"),
        pytest.param([], 2, id="missing, begun before the offset"),
        pytest.param([(ABORTED, 1)], 0, id="another first offset"),
        pytest.param([*IN_IT, (COMMITTED, 1)], 0, id="a committed one"),
        pytest.param(IN_IT * 2, 0, id="twice"),
        pytest.param(IN_IT, 5, id="over before the offset"),
    ],
)
def test_aborted_transactions_are_named(named: list[tuple[int, int]], offset: int) -> None:
    with pytest.raises(Violation, match=NAMED):
        fetched(LOG[offset:], named, offset=offset)
