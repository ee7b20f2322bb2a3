"""Transactional producers and the coordinator that ends their transactions, on one log."""

from __future__ import annotations

from protocol.records.builder import BatchBuilder
from protocol.records.control import TransactionMarker, build_marker_batch
from storage.partition_log import PartitionLog
from tests.support.rigs.log_rig import NOW_MS, done


def confirm(log: PartitionLog, producer_id: int, *, epoch: int = 0, sequence: int = 0) -> None:
    """The coordinator says that the producer's transaction may begin in the log, where a broker requires
    that."""
    verification = log.producer_state.verifications.begin(
        producer_id, epoch, sequence, raises_epoch=False, now_ms=NOW_MS
    )
    verification.is_confirmed = True


class TransactionWriter:
    """Transactional producers and their coordinator, on one log."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._sequences: dict[tuple[int, int], int] = {}

    def write(
        self,
        producer_id: int,
        *,
        epoch: int = 0,
        size_bytes: int = 10,
        is_open: bool = True,
        key: bytes | None = None,
    ) -> int:
        sequence = self._sequences.get((producer_id, epoch), 0)
        self._sequences[producer_id, epoch] = sequence + 1
        if is_open:
            confirm(self.log, producer_id, epoch=epoch, sequence=sequence)
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=is_open
        )
        builder.append(key, bytes(size_bytes), NOW_MS)
        result = self.log.append_as_leader(memoryview(builder.build()), leader_epoch=0, now_ms=NOW_MS)
        return done(result).base_offset

    def end(
        self,
        producer_id: int,
        *,
        commit: bool,
        epoch: int = 0,
        coordinator_epoch: int = 1,
        transaction_version: int = 0,
    ) -> int:
        marker = build_marker_batch(
            TransactionMarker(commit, coordinator_epoch),
            timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=epoch,
        )  # fmt: skip
        ended = self.log.append_internal(
            marker, leader_epoch=0, now_ms=NOW_MS, transaction_version=transaction_version
        )
        return done(ended).base_offset

    def aborted(self, from_offset: int = 0, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
        """As one fetch of read_committed is told."""
        log = self.log
        found = log.read(from_offset, max_bytes=max_bytes, up_to_offset=log.last_stable_offset)
        return [] if found is None else log.aborted_transactions(from_offset, found)
