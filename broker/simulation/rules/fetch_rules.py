"""What must hold of each answer that a reader is given, beside what is committed.

    readers are given what is committed          batch for batch, and nothing that is undecided to those who
                                                 read what is committed; whoever answers, leader or follower
    a fetch names the aborted transactions in what it gives
                                                 each with its first offset, none twice, and none that was
                                                 over before the fetch offset or was committed

Aborted transactions are learnt from the committed batches and their markers alone. A broker may name more
than the answer reaches, since Kafka looks no closer than an entry of the offset index; what is not decided
by its own last stable offset is not judged. A broker that has come back takes a transaction for decided as
soon as the marker is in its log, committed or not: snapshots of producers keep nothing of transactions that
are over, in Kafka as here. Where records were compacted, or committed ones were lost, the rules say nothing;
where some were deleted, nothing of aborted transactions, of which a recovery may find the rest alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.simulation.cluster.cluster_world import ClusterWorld, FetchedPart
from broker.simulation.rules.committed_logs import CommittedLog
from broker.simulation.rules.seen_logs import first_above
from broker.simulation.rules.seen_partitions import SeenCluster, SeenPartition
from broker.simulation.verdict import Violation
from protocol.records.header import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES

__all__ = ["GIVEN", "NAMED", "FetchRules"]

GIVEN: Final = "readers are given what is committed"
NAMED: Final = "a fetch names the aborted transactions in what it gives"


class _Aborted(NamedTuple):
    """A transaction with an abort marker."""

    producer_id: int
    first_offset: int
    marker_offset: int


class _Transactions:
    """What the committed batches of a partition say of transactions, as far as they were read."""

    def __init__(self) -> None:
        self.aborted: list[_Aborted] = []
        self.undecided: dict[int, int] = {}
        """The first offset of each, by producer id."""
        self._count = 0

    def read_on(self, committed: CommittedLog) -> None:
        for batch in committed.batches[self._count :]:
            if batch.marker is not None:
                first_offset = self.undecided.pop(batch.producer_id, None)
                if first_offset is not None and not batch.marker.committed:
                    self.aborted.append(_Aborted(batch.producer_id, first_offset, batch.base_offset))
            elif batch.is_transactional:
                self.undecided.setdefault(batch.producer_id, batch.base_offset)
        self._count = len(committed.batches)


class FetchRules:
    """Looks at what clients are given, and at no node."""

    def __init__(self, cluster: SeenCluster, world: ClusterWorld) -> None:
        self._cluster = cluster
        self._count = cluster.coverage.count
        self._transactions: dict[SeenPartition, _Transactions] = {}
        world.fetch_listeners.append(self.has_fetched)

    def has_fetched(self, part: FetchedPart) -> None:
        """A client has an answer without an error. Raises Violation."""
        partition = self._cluster.partitions.get((part.topic_id, part.partition))
        if partition is None or partition.unclean_epoch >= 0:
            return
        committed = partition.committed
        if committed.merged_end > 0:
            return
        if committed.batches and committed.batches[0].base_offset > 0:
            return
        end_offset = self._judge_batches(part, partition)
        if part.is_committed and part.data.log_start_offset <= 0:
            self._judge_aborted(part, partition, end_offset)

    def _judge_batches(self, part: FetchedPart, partition: SeenPartition) -> int:
        """The offset behind the last of them."""
        committed, end_offset = partition.committed, part.offset
        data = part.data
        limit = data.last_stable_offset if part.is_committed else data.high_watermark
        number = first_above(committed.lasts, part.offset)
        who = f"{part.reader} reads {partition} from {part.offset}"
        for found in _batches(data.records):
            base, last, epoch, crc = found
            known = committed.batches[number] if number < len(committed.batches) else None
            if known is None or found != (known.base_offset, known.last_offset, known.epoch, known.crc):
                raise Violation(
                    GIVEN,
                    f"{who} and is given {base}..{last} of epoch {epoch} (crc {crc:08x}), where "
                    f"{known or 'nothing'} is committed",
                )
            if last >= limit:
                raise Violation(
                    GIVEN,
                    f"{who} and is given {base}..{last}, told that it may read up to {limit}",
                )
            number, end_offset = number + 1, last + 1
        if end_offset > part.offset:
            self._count("looked at: batches that a reader is given")
        return end_offset

    def _judge_aborted(self, part: FetchedPart, partition: SeenPartition, end_offset: int) -> None:
        model = self._transactions.get(partition)
        if model is None:
            model = self._transactions[partition] = _Transactions()
        model.read_on(partition.committed)
        stable = part.data.last_stable_offset
        named = [(each.producer_id, each.first_offset) for each in part.data.aborted_transactions or ()]
        there = {
            (each.producer_id, each.first_offset): each
            for each in model.aborted
            if each.marker_offset >= part.offset
        }
        is_given = end_offset > part.offset
        missing = [each for each in there if is_given and each[1] < end_offset and each not in named]
        wrong = [
            (producer_id, first_offset)
            for producer_id, first_offset in named
            if first_offset < stable
            and (producer_id, first_offset) not in there
            and model.undecided.get(producer_id) != first_offset
        ]
        if missing or wrong or len(set(named)) < len(named):
            raise Violation(
                NAMED,
                f"{part.reader} reads {partition} from {part.offset}, is given all before {end_offset}, with "
                f"the last stable offset {stable} and these aborted transactions (producer, first offset): "
                f"{named}; by what is committed they are {list(there.values())}",
            )
        if named:
            self._count("looked at: aborted transactions that a fetch names")


def _batches(records: object) -> Iterator[tuple[int, int, int, int]]:
    """Base offset, last offset, leader epoch and checksum of each whole batch."""
    buffer = records if isinstance(records, bytes | memoryview) else b""
    position = 0
    while len(buffer) - position >= HEADER_BYTES:
        base, length, epoch, _, crc, _, delta, *_ = HEADER.unpack_from(buffer, position)
        position += length + LOG_OVERHEAD_BYTES
        if position > len(buffer):
            return
        yield base, base + delta, epoch, crc
