"""One partition's log: its segments in a row, the way in, and the way out.

                    log start          high watermark      log end
                        ▼                     ▼               ▼
    offsets   ──────────┼─────────────────────┼───────────────┤
    segments  │ sealed  │ sealed         │ active             │ … the next append goes here

Consumers read from the log start up to the high watermark, followers up to the log end. The append has
stages (see `append`); `append` itself is the three stages in one for a single batch, written out in a row
because each produced batch passes it: 5 µs beside the checksum and the system call. After an error nothing
has changed.

Nothing here waits for the disk: syncs and small files are chores for the helper threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial

from config.ports import Files
from protocol.errors import ErrorCode, invariant
from protocol.records.control import TransactionMarker
from protocol.records.errors import RecordsError
from protocol.records.header import TRANSACTIONAL_BIT, BatchHeader, ReadBuffer
from protocol.records.validation import place, validate_client_batch
from protocol.records.verdict import ValidatedBatch
from storage import lookup, retention, truncation
from storage.append import (
    LATEST_PRODUCE_VERSION,
    NO_LOG_APPEND_TIME,
    AppendResult,
    PreparedAppend,
    judge_client_batch,
    marker_of,
    placed_header,
    refusal,
    result_of_duplicate,
    trusted_batch,
)
from storage.append_queue import AppendQueue
from storage.checkpoints import encode_leader_epochs
from storage.chores import Chores
from storage.errors import AppendRefused, LogStorageError, OffsetOutOfRange
from storage.file_names import LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, segment_file
from storage.found_log import FoundLog
from storage.log_config import LogConfig
from storage.producer_snapshot import encode_snapshot
from storage.producer_state import (
    ProducerBatch,
    ProducerEntry,
    check_marker,
    check_sequence,
    check_transaction,
    successor,
)
from storage.segment import MAX_RELATIVE_OFFSET, Segment
from storage.segment_row import SegmentRow
from storage.slices import LogSlice
from storage.transaction_index import AbortedTransaction


class PartitionLog(SegmentRow):
    """All numbers are plain attributes: read them freely, change them through the methods."""

    __slots__ = (
        "_flushed_ms",
        "_rules",
        "high_watermark",
        "leader_epochs",
        "log_start_offset",
        "producer_state",
        "queue",
        "snapshot_offsets",
        "topic_id",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        chores: Chores,
        found: FoundLog,
    ) -> None:
        """For `recovery.open_log`, which finds out what is there. Raises OSError."""
        super().__init__(
            files, directory, topic, partition, config, chores,
            found.segments, found.log_end_offset, found.recovery_point,
        )  # fmt: skip
        self.topic_id = topic_id
        self.log_start_offset = found.log_start_offset
        """The first offset that may be read; never falls."""
        self.high_watermark = found.log_start_offset
        """Below it everything is committed; log start <= high watermark <= log end."""
        self.producer_state = found.producer_state
        self.leader_epochs = found.leader_epochs
        self.snapshot_offsets = found.snapshot_offsets
        """The producer snapshots in the directory, ascending."""
        self.queue = AppendQueue(self)
        self._flushed_ms = 0
        self._rules = config.validation_rules(self.name)

    def update_config(self, config: LogConfig) -> None:
        """The topic was altered; holds from the next append on."""
        self.set_config(config)
        self._rules = config.validation_rules(self.name)
        if self.active.size_bytes:
            self.roll_timestamp = self.roll_timestamp_after(self.active.first_batch_timestamp())

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, and the decision replicated."""
        first = self.producer_state.transactions.first_unstable_offset(self.high_watermark)
        if first is None or first > self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def update_high_watermark(self, offset: int) -> bool:
        """Raises the high watermark, at most to the log end; says whether it moved."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    # The way in

    def append(
        self,
        records: ReadBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        walk: bool = False,
        request_version: int = LATEST_PRODUCE_VERSION,
    ) -> AppendResult:
        """Takes one client's batch as the leader. Base offset and epoch are patched into `records` itself.

        Raises AppendRefused (nothing changed) and LogStorageError (nothing of it is in the log).
        """
        if self.queue.prepared:
            invariant(False, "Nothing overtakes a prepared batch", log=self.name)
        try:
            batch = validate_client_batch(
                records, 0, len(records), self._rules,
                now_ms=now_ms, walk=walk, request_version=request_version,
            )  # fmt: skip
        except RecordsError as error:
            raise refusal(error, self.log_start_offset) from error
        header = batch.header
        size_bytes = header.batch_length + 12
        in_place = len(records) == size_bytes and not batch.must_rebuild
        if not in_place or isinstance(records, bytes) or _is_read_only(records):
            return self._append_staged(records, batch, leader_epoch, now_ms)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        producer = None
        if header.producer_id >= 0:
            known = self.producer_state.get(header.producer_id)
            if (
                known is not None
                and known.epoch == header.producer_epoch
                and known.batches
                and header.base_sequence == known.batches[-1].last_sequence + 1
                and not header.attributes & TRANSACTIONAL_BIT
                and known.transaction_first_offset < 0
            ):
                producer = known.followed_by(header, base_offset, last_offset, batch.max_timestamp)
            else:
                first = self.check_producer(known, header)
                if first is not None:
                    return result_of_duplicate(first, batch.log_append_time, self.log_start_offset)
                producer = successor(known, placed_header(batch, base_offset))
        active = self.active
        position = active.size_bytes
        if (
            position + size_bytes > self._segment_bytes
            or batch.max_timestamp > self.roll_timestamp
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or active.is_full
        ):
            active = self._make_room(size_bytes, now_ms)
            position = active.size_bytes
        place(records, 0, batch, base_offset, leader_epoch)
        try:
            if self._stale_bytes:
                self.cut_stale_bytes()
            if (written := self._active_write((records,), position)) != size_bytes:
                self.write_rest(active, (records,), written, position)
        except OSError as error:
            raise self.write_failed(error) from error
        if leader_epoch != self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if producer is not None:
            self.producer_state.put(producer)
        self.settle(active, position, size_bytes, base_offset, last_offset, batch.max_timestamp)
        append_time_ms = now_ms if batch.log_append_time else NO_LOG_APPEND_TIME
        return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def append_internal(self, records: ReadBuffer, *, leader_epoch: int, now_ms: int) -> AppendResult:
        """Takes one batch that this broker built itself (a coordinator's or the quorum's) as it is.

        Raises LogStorageError.
        """
        return self._append_staged(records, trusted_batch(records), leader_epoch, now_ms)

    def append_control(
        self, records: ReadBuffer, *, leader_epoch: int, now_ms: int, transaction_version: int = 0
    ) -> AppendResult:
        """Takes one control batch (`protocol.records.control`): a transaction's marker, or the quorum's.

        Raises AppendRefused for a marker of an older epoch (INVALID_PRODUCER_EPOCH) or of an older
        coordinator (TRANSACTION_COORDINATOR_FENCED), LogStorageError.
        """
        return self._append_staged(records, trusted_batch(records), leader_epoch, now_ms, transaction_version)

    def append_as_follower(self, batches: ReadBuffer, now_ms: int) -> int:
        """Takes the leader's batches byte for byte; says how many.

        A batch that is cut off at the end is left out. Raises AppendRefused for a damaged or misplaced one
        (those before it are in the log), LogStorageError (none of them is).
        """
        problem = self.queue.prepare_copies(batches)
        copies = list(self.queue.prepared)
        try:
            self.write(copies, now_ms)
        except LogStorageError:
            self.rollback()
            raise
        self.commit(copies)
        if problem is not None:
            raise problem
        return len(copies)

    def prepare(
        self,
        records: ReadBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        walk: bool = False,
        request_version: int = LATEST_PRODUCE_VERSION,
        internal: bool = False,
    ) -> PreparedAppend:
        """Judges and numbers a batch and puts it at the end of the queue. Raises AppendRefused.

        `internal` is a batch of the broker's own. A duplicate comes back with `is_duplicate`; it passes the
        other stages like the rest, so that it is answered no sooner than the batch that it repeats.
        """
        if internal:
            batch = trusted_batch(records)
        else:
            batch = judge_client_batch(
                records, self._rules, self.log_start_offset,
                now_ms=now_ms, walk=walk, request_version=request_version,
            )  # fmt: skip
        return self.queue.prepare(records, batch, self._rules, leader_epoch, now_ms)

    def write(self, prepared: Sequence[PreparedAppend], now_ms: int) -> None:
        """Brings the first batches of the queue into the file, in one system call per segment.

        Raises LogStorageError; the file is then as it was, and what remains to be done is `rollback`.
        """
        self.queue.write(prepared, now_ms)

    def commit(self, prepared: Sequence[PreparedAppend]) -> list[AppendResult]:
        """What was written is in the log now; one result for each, in order."""
        return self.queue.commit(prepared)

    def rollback(self) -> int:
        """Forgets all that is prepared and cuts off what of it was written; says how many batches."""
        return self.queue.rollback()

    def _append_staged(
        self,
        records: ReadBuffer,
        batch: ValidatedBatch,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        prepared = self.queue.prepare(records, batch, self._rules, leader_epoch, now_ms, transaction_version)
        try:
            self.write([prepared], now_ms)
        except LogStorageError:
            self.rollback()
            raise
        return self.commit([prepared])[0]

    # The way out

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        up_to_offset: int | None = None,
        at_least_one_batch: bool = True,
    ) -> LogSlice | None:
        """Batches from the one that contains `offset` on, all below `up_to_offset` (or the log end).

        At most `max_bytes`, and then perhaps cut within the last batch; the first is always whole: with
        `at_least_one_batch` also if it is larger. None if there is nothing to give. One slice is of one
        segment. Raises OffsetOutOfRange and LogStorageError.
        """
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, end_offset)
        limit = end_offset if up_to_offset is None or up_to_offset > end_offset else up_to_offset
        if offset >= limit:
            return None
        active = self.active
        recent = self._recent_offsets
        if not recent or offset < recent[0]:
            return lookup.read(self, offset, limit, max_bytes, at_least_one_batch)
        number = bisect_right(recent, offset)
        positions = self._recent_positions
        position = positions[number - 1]
        if limit == end_offset:
            available = active.size_bytes - position
        else:
            upper = bisect_left(recent, limit)
            if upper == len(recent) or recent[upper] != limit:
                return lookup.read(self, offset, limit, max_bytes, at_least_one_batch)
            available = positions[upper] - position
        if available > max_bytes:
            first = (positions[number] if number < len(positions) else active.size_bytes) - position
            if first <= max_bytes:
                available = max_bytes
            elif at_least_one_batch:
                available = first
            else:
                return None
        return LogSlice(active.log, position, available, recent[number - 1], active.base_offset, True)

    def aborted_transactions(self, from_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that a reader of `found` has to leave out,
        by first offset. Raises LogStorageError."""
        return lookup.aborted_transactions(self, from_offset, found)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or after `timestamp`; None if none is.

        Raises LogStorageError.
        """
        return lookup.offset_for_timestamp(self, timestamp)

    def max_timestamp_offset(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp of all.

        Raises LogStorageError.
        """
        return lookup.max_timestamp_offset(self)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset), see `LeaderEpochs.end_offset_for`."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Segments

    def roll(self, now_ms: int) -> None:
        """Begins a new segment at the log end, unless the active one is empty. Raises LogStorageError."""
        if self.active.size_bytes == 0:
            return
        try:
            segment = self.begin_segment(self.log_end_offset, now_ms)
            try:
                self.join_segment(segment)
            except OSError:
                self.discard_segment(segment)
                raise
        except OSError as error:
            raise self.write_failed(error) from error

    def join_segment(self, segment: Segment) -> None:
        """Seals the active segment and goes on in a begun one, with a snapshot of the producers."""
        super().join_segment(segment)
        self.write_snapshot()

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Cuts off everything from `offset` on, at the batch that contains it. Raises LogStorageError."""
        truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drops everything; the next record gets `offset`. Raises LogStorageError."""
        truncation.truncate_fully_and_start_at(self, offset, now_ms)

    def increase_log_start(self, offset: int) -> bool:
        """Nothing below `offset` is read any more; whole segments below it go with the next retention."""
        return retention.increase_log_start(self, offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Applies time, size and log start retention; how many segments went. Raises LogStorageError."""
        return retention.delete_old_segments(self, now_ms)

    # Durability

    def note_sync(self, up_to_offset: int) -> None:
        """Leader epochs first: what lies below a recovery point is not read again to find them."""
        self.write_leader_epochs()
        super().note_sync(up_to_offset)

    def flush(self) -> None:
        """Notes chores after which everything up to the present log end is on the disk."""
        self.note_sync(self.log_end_offset)

    def flush_if_due(self, now_ms: int) -> None:
        """Applies `flush.messages` and `flush.ms`; by default the disk is left to the operating system."""
        unflushed = self.log_end_offset - self.recovery_point
        if not unflushed:
            self._flushed_ms = now_ms
        elif unflushed >= self.config.flush_messages or now_ms - self._flushed_ms >= self.config.flush_ms:
            self._flushed_ms = now_ms
            self.flush()

    def write_snapshot(self) -> None:
        """Notes the chore of writing the producers as they are now to `<log end>.snapshot`."""
        offset = self.log_end_offset
        path = f"{self.directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"
        data = encode_snapshot(self.producer_state.entries())
        call = partial(self.files.write_atomically, path, data)
        self.chores.add(f"write {path}", self.directory, call)
        if not self.snapshot_offsets or self.snapshot_offsets[-1] < offset:
            self.snapshot_offsets.append(offset)

    def write_leader_epochs(self) -> None:
        """Notes the chore of writing `leader-epoch-checkpoint`, if there is anything new to say."""
        if not self.leader_epochs.changed or self.leader_epochs.latest_start_offset >= self.log_end_offset:
            return  # an epoch without records is forgotten by a restart, which begins another
        self.leader_epochs.changed = False
        path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
        data = encode_leader_epochs(self.leader_epochs.entries())
        call = partial(self.files.write_atomically, path, data)
        failed = self.leader_epochs.note_change
        self.chores.add(f"write {path}", self.directory, call, failed=failed)

    def close(self) -> None:
        """Seals the indexes and gives the descriptors back, each when its last slice is gone.

        Raises LogStorageError if the indexes cannot be written.
        """
        try:
            self.active.seal()
        except OSError as error:
            raise LogStorageError(f"{self.active.log.path} cannot be closed in order: {error}") from error
        finally:
            for segment in self.segments:
                segment.close()

    def abandon(self) -> None:
        """Gives the descriptors back and writes nothing: the directory is about to go."""
        for segment in self.segments:
            segment.close()

    # For the append

    def check_producer(self, known: ProducerEntry | None, header: BatchHeader) -> ProducerBatch | None:
        """The batch that this one repeats, None if it is the next one. Raises AppendRefused."""
        try:
            duplicate = check_sequence(
                known, header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
            )
        except AppendRefused as refused:
            refused.message += f" in {self.name} at offset {self.log_end_offset}"
            refused.log_start_offset = self.log_start_offset
            raise
        if duplicate is None:
            check_transaction(known, header, self.name)
        return duplicate

    def check_marker(
        self,
        known: ProducerEntry | None,
        records: ReadBuffer,
        header: BatchHeader,
        transaction_version: int,
    ) -> TransactionMarker | None:
        """What a control batch of a producer says. Raises AppendRefused."""
        marker = marker_of(records, header)
        if marker is not None:
            check_marker(known, header, marker, self.name, transaction_version)
        return marker

    def end_transaction(
        self, segment: Segment, producer_id: int, marker_offset: int, marker: TransactionMarker
    ) -> None:
        """A marker is in the log: its transaction is decided, an aborted one goes into the index."""
        transactions = self.producer_state.transactions
        completed = transactions.ended(producer_id, marker_offset)
        if completed is not None and not marker.committed:
            segment.transaction_index.append(
                AbortedTransaction(*completed, transactions.stable_offset_after(completed))
            )

    def too_large_for_segment(self, size_bytes: int) -> AppendRefused:
        return AppendRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"A batch of {size_bytes} bytes does not fit into a segment of {self.name}: segment.bytes is "
            f"{self.config.segment_bytes}",
            (),
            self.log_start_offset,
        )

    def _make_room(self, size_bytes: int, now_ms: int) -> Segment:
        """A new active segment for a batch that does not fit into this one."""
        if size_bytes > self._segment_bytes:
            raise self.too_large_for_segment(size_bytes)
        self.roll(now_ms)
        return self.active


def _is_read_only(records: memoryview | bytearray) -> bool:
    return type(records) is memoryview and records.readonly
