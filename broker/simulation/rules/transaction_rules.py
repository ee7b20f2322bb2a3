"""What must hold of producers and transactions in each log, by a dumb model that reads batch after batch.

    sequences of a producer follow each other   within an epoch, none is there twice and none is left out
    a fenced producer writes no more            no batch or marker of an older epoch behind one of a newer
    coordinators of a producer do not go back   no marker of an older coordinator epoch behind one of a newer
    the last stable offset is where the first undecided transaction begins      or the high watermark
    the last stable offset never falls          as long as one node leads in one epoch
    aborted transactions are those with an abort marker     what the transaction indexes say, entry for entry

A transaction is undecided until its marker is below the high watermark. A log that is opened, or cut, takes
its producers from a snapshot, which does not say so: markers that it holds already count as replicated then,
in Apache Kafka too. Where the beginning of a log has been deleted, or the cleaner has been, the model does
not know what was there, and says nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.simulation.rules.seen_logs import SeenBatch, SeenLog
from broker.simulation.rules.seen_partitions import SeenCluster, SeenReplica
from broker.simulation.verdict import Violation
from storage.memory_files import MemoryFiles
from storage.transaction_index import AbortedTransaction, decode_entries

__all__ = [
    "ABORTED_DIFFER",
    "COORDINATOR_BACK",
    "LAST_STABLE_FALLS",
    "NOT_FENCED",
    "SEQUENCES",
    "WRONG_LAST_STABLE",
    "TransactionRules",
]

SEQUENCES: Final = "sequences of a producer follow each other"
NOT_FENCED: Final = "a fenced producer writes no more"
COORDINATOR_BACK: Final = "coordinators of a producer do not go back"
WRONG_LAST_STABLE: Final = "the last stable offset is where the first undecided transaction begins"
LAST_STABLE_FALLS: Final = "the last stable offset never falls"
ABORTED_DIFFER: Final = "aborted transactions are those with an abort marker"

_LAST_SEQUENCE: Final = 0x7FFFFFFF
_NOTHING: Final = -1


class _Producer(NamedTuple):
    """What a log says last of a producer. sequence: its last one, -1 if the epoch has none yet, and
    data_offset: where the batch with it ends."""

    epoch: int
    sequence: int
    data_offset: int
    coordinator_epoch: int
    last_offset: int


class _Ended(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    is_committed: bool
    was_there: bool
    """The marker was in the log when it was opened or cut."""


class _Model:
    """All that a log says of producers and transactions, up to the batches that were read."""

    def __init__(self, readings: int) -> None:
        self.readings = readings
        self.count = 0
        """Of batches that are in it."""
        self.producers: dict[int, _Producer] = {}
        self.open: dict[int, int] = {}
        """First offset of the transaction that is open, by producer."""
        self.undecided: list[_Ended] = []
        """Those whose marker was not below the high watermark."""
        self.aborted: list[_Ended] = []

    def first_undecided(self, high_watermark: int) -> tuple[int, int]:
        """Where the first undecided transaction begins, or the high watermark if that comes first: with the
        markers that were there when the log was opened or cut, and without them."""
        self.undecided = [each for each in self.undecided if each.marker_offset >= high_watermark]
        least = min((high_watermark, *self.open.values()))
        surely = min((least, *(each.first_offset for each in self.undecided if not each.was_there)))
        return min((surely, *(each.first_offset for each in self.undecided))), surely


class TransactionRules:
    """`partition_watch.PartitionRule`."""

    def __init__(self, cluster: SeenCluster) -> None:
        self._count = cluster.coverage.count
        self._models: dict[SeenLog, _Model] = {}
        self._stable: dict[SeenReplica, tuple[int, int]] = {}
        """Leader epoch and last stable offset of each replica that leads, when it was looked at last."""

    def changed(self, replica: SeenReplica) -> None:
        """See `partition_watch.PartitionRule`."""
        model = self._read(replica)
        high_watermark = replica.now.high_watermark
        stable = replica.hosted.log.last_stable_offset
        if replica.log.is_from_the_beginning:
            least, most = model.first_undecided(high_watermark)
            start = replica.now.log_start_offset
            if not max(least, start) <= stable <= max(most, start):
                raise Violation(
                    WRONG_LAST_STABLE,
                    f"{replica} says {stable} with the high watermark {high_watermark}, by its batches it is "
                    f"{most}; open {model.open}, not yet replicated {model.undecided}",
                )
            self._count("looked at: last stable offset")
        if replica.leader is None:
            self._stable.pop(replica, None)
            return
        epoch = replica.now.leader_epoch
        known = self._stable.get(replica)
        self._stable[replica] = (epoch, stable)
        if known is not None and known[0] == epoch and stable < known[1]:
            raise Violation(
                LAST_STABLE_FALLS, f"{replica}, leader in epoch {epoch}: {known[1]} became {stable}"
            )

    def _read(self, replica: SeenReplica) -> _Model:
        log = replica.log
        model = self._models.get(log)
        is_new = model is None or model.readings != log.readings
        if model is None or is_new:
            model = self._models[log] = _Model(log.readings)
        aborted = len(model.aborted)
        whole_from = max(replica.partition.committed.merged_end, replica.now.log_start_offset)
        if whole_from == 0 and log.is_from_the_beginning:
            whole_from = _NOTHING
        for batch in log.batches[model.count :]:
            if batch.producer_id >= 0:
                known = model.producers.get(batch.producer_id)
                if known is not None and known.last_offset >= whole_from:
                    self._judge(replica, known, batch, whole_from)
                _take(model, known, batch, was_there=is_new)
        model.count = len(log.batches)
        if (is_new or len(model.aborted) > aborted) and log.is_from_the_beginning:
            self._compare_indexes(replica, model)
        return model

    def _judge(self, replica: SeenReplica, known: _Producer, batch: SeenBatch, whole_from: int) -> None:
        who = f"producer {batch.producer_id}"
        if batch.producer_epoch < known.epoch:
            raise Violation(
                NOT_FENCED,
                f"{replica} has {batch} of {who} in epoch {batch.producer_epoch} after epoch {known.epoch}",
            )
        if batch.marker is not None:
            self._count("looked at: transaction marker")
            if batch.marker.coordinator_epoch < known.coordinator_epoch:
                raise Violation(
                    COORDINATOR_BACK,
                    f"{replica} has {batch}, a marker for {who} of coordinator epoch "
                    f"{batch.marker.coordinator_epoch}, after one of {known.coordinator_epoch}",
                )
            return
        if batch.is_control or batch.base_sequence < 0 or known.epoch < 0:
            return
        self._count("looked at: sequence of a producer")
        is_new = batch.producer_epoch > known.epoch
        if not is_new and known.data_offset < whole_from:
            return  # behind its last batch there may have been others, which were deleted or compacted
        expected = 0 if is_new else _after(known.sequence)
        if batch.base_sequence != expected:
            raise Violation(
                SEQUENCES,
                f"{replica} has {batch} of {who} in epoch {batch.producer_epoch} with sequence "
                f"{batch.base_sequence}, and {expected} is next",
            )

    def _compare_indexes(self, replica: SeenReplica, model: _Model) -> None:
        """Also where all was read again: what was cut off with its marker must be gone from the indexes, too,
        unless the disk has not let that through yet."""
        files, segments = replica.node.machine.files, replica.hosted.log.segments
        if segments.unfinished_cut is not None:
            return
        start_offset = segments[0].base_offset  # an entry goes with the segment that has its marker
        found = [
            (each.producer_id, each.first_offset, each.last_offset)
            for segment in segments
            for each in _entries(segment.transaction_index.known, files, segment.transaction_index.path)
        ]
        expected = [
            (each.producer_id, each.first_offset, each.marker_offset)
            for each in model.aborted
            if each.marker_offset >= start_offset
        ]
        if found or expected:
            self._count("looked at: aborted transactions")
        if found != expected:
            raise Violation(
                ABORTED_DIFFER,
                f"{replica} has in its indexes {found} (producer, first offset, marker), by its batches it "
                f"is {expected}",
            )


def _entries(
    known: list[AbortedTransaction] | None, files: MemoryFiles, path: str
) -> list[AbortedTransaction]:
    return decode_entries(bytes(files.content(path) or b"")) if known is None else known


def _take(model: _Model, known: _Producer | None, batch: SeenBatch, *, was_there: bool) -> None:
    """The model after a batch of a producer."""
    producer_id, epoch = batch.producer_id, batch.producer_epoch
    coordinator_epoch = -1 if known is None else known.coordinator_epoch
    sequence = data_offset = _NOTHING
    if known is not None and known.epoch == epoch:
        sequence, data_offset = known.sequence, known.data_offset
    if batch.marker is not None:
        coordinator_epoch = batch.marker.coordinator_epoch
        first_offset = model.open.pop(producer_id, None)
        if first_offset is not None:
            ended = _Ended(producer_id, first_offset, batch.base_offset, batch.marker.committed, was_there)
            model.undecided.append(ended)
            if not ended.is_committed:
                model.aborted.append(ended)
    elif not batch.is_control:
        if batch.base_sequence >= 0:
            sequence = (batch.base_sequence + batch.last_offset - batch.base_offset) & _LAST_SEQUENCE
            data_offset = batch.last_offset
        if batch.is_transactional:
            model.open.setdefault(producer_id, batch.base_offset)
    model.producers[producer_id] = _Producer(
        epoch, sequence, data_offset, coordinator_epoch, batch.last_offset
    )


def _after(sequence: int) -> int:
    return 0 if sequence == _LAST_SEQUENCE else sequence + 1
