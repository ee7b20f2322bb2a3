"""Reading a partition of a coordinator's topic back into its shard, a slice at a time.

Each record is replayed in log order, by the same methods as a live one. What is needed of the newest records
alone (objects with timers, say) the shard may put off and build after the end of the log.

A record that the shard cannot read is reported and left out. A batch whose content cannot be read (checksum,
compression, records) is reported and passed over: one bad batch must not take all groups of a partition away.
That takes a header that can be believed: where a checksum
is wrong, the next batch in the file must begin just where the header says. Where a header makes no sense, or
offsets do not grow from batch to batch, nobody knows what would be passed over, and the partition is given up
(CorruptRecord).

The log ends where a read returns nothing. Each batch advances the offset, so every load ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Final

from broker.coordinator.ports import PartitionReader
from broker.coordinator.runtime.batches import LoadedBatch, loaded_batches
from broker.coordinator.runtime.coordinator_shard import CoordinatorPlayback
from protocol.errors import ProtocolError
from protocol.records.errors import CorruptRecord

LOG: Final = logging.getLogger("barnabas.coordinator")


class LogOutOfReach(Exception):
    """The log cannot be read now, but perhaps later."""


class PartitionLoad:
    """Loads one partition."""

    def __init__(
        self,
        topic: str,
        partition: int,
        reader: PartitionReader,
        target: CoordinatorPlayback,
        buffer_bytes: int,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._reader = reader
        self._target = target
        self._buffer_bytes = buffer_bytes
        self._next_offset = 0
        self._batches: Iterator[LoadedBatch] = iter(())
        self._at_end = False
        self.records = 0
        self.bad_batches = 0

    def step(self, max_records: int) -> bool:
        """Loads until `max_records` are replayed, or as many bytes as the buffer has, at least one batch, or
        builds as many records. A batch without records, such as a marker, counts as one record. Returns True
        when everything is built.

        Raises LogOutOfReach if the disk fails, and RecordsError if the bytes are no log.
        """
        if not self._at_end:
            self._at_end = self._read(max_records)
            return False
        return self._target.build(max_records)

    def _read(self, max_records: int) -> bool:
        """Reads and replays the next batches. Returns whether the log has ended."""
        replayed, size_bytes = 0, 0
        while replayed < max_records and size_bytes < self._buffer_bytes:
            batch = next(self._batches, None)
            if batch is None:
                data = self._read_from(self._next_offset, self._buffer_bytes)
                if not data:
                    return True
                self._batches = loaded_batches(data, self._next_offset)
                batch = next(self._batches, None)
                if batch is None:
                    raise CorruptRecord(
                        f"{len(data)} bytes at offset {self._next_offset} hold no whole batch"
                    )
            self._take(batch)
            replayed += max(1, len(batch.records))
            size_bytes += batch.size_bytes
        return False

    def _read_from(self, offset: int, max_bytes: int) -> bytes:
        try:
            return self._reader.read_batches(self._topic, self._partition, offset, max_bytes)
        except (OSError, LookupError) as problem:
            raise LogOutOfReach(str(problem)) from problem

    def _clear_up(self, batch: LoadedBatch) -> None:
        """Checks the header of a batch whose checksum is wrong, by the next batch in the file or the log's
        end. Raises CorruptRecord if the header is wrong too."""
        following = next(self._batches, None)
        if following is None:
            data = self._read_from(self._next_offset, batch.size_bytes + self._buffer_bytes)
            self._batches = loaded_batches(data, self._next_offset)
            next(self._batches, None)  # itself
            following = next(self._batches, None)
        if following is not None:
            self._batches = chain((following,), self._batches)
        elif not self._read_from(batch.next_offset, self._buffer_bytes):
            return
        if following is None or following.base_offset != batch.next_offset:
            raise CorruptRecord(f"{batch.problem}, and nothing shows where the next one begins")

    def _take(self, batch: LoadedBatch) -> None:
        if batch.is_in_doubt:
            self._clear_up(batch)
        self._next_offset = batch.next_offset
        if batch.problem:
            self._report(batch.problem)
            return
        if batch.marker is not None:
            self._target.replay_end_transaction_marker(batch.producer_id, batch.marker, None)
        elif batch.is_transactional:
            for key, value in batch.records:
                self._target.replay_transactional(batch.producer_id, key, value, None)
        else:
            replay = self._target.replay
            for key, value in batch.records:
                try:
                    replay(key, value, None)
                except ProtocolError as problem:
                    LOG.error("%s-%d: a record is left out: %s", self._topic, self._partition, problem)
        self.records += len(batch.records)

    def _report(self, problem: str) -> None:
        self.bad_batches += 1
        LOG.error("%s-%d: passed over a batch: %s", self._topic, self._partition, problem)
