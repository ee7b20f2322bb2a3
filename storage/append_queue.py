"""The batches of one partition that are prepared and not yet committed.

Most wake-ups bring one batch, and `PartitionLog.append_as_leader` takes it without coming here. What comes
here: several batches that share a write, batches that are stored in another form than they came in, the
broker's own, and what a follower copies from its leader.

The write is one system call of the loop, or a helper thread's (`write_in_thread`), which gets plain values
and files and no object of the log.

A write on the loop that needs more than one segment begins the next ones as files only; they join the log
when their first batch is committed, and a rollback removes them again. Helper threads go step by step: what
fits into the active segment is written and committed, then a new one is begun (`roll_in_thread`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, invariant
from protocol.records.control import TransactionMarker
from protocol.records.errors import RecordsError
from protocol.records.header import BatchHeader, ReadBuffer, headers, is_intact
from protocol.records.validation import place
from protocol.records.verdict import ValidatedBatch, ValidationRules
from storage.append import (
    NO_LOG_APPEND_TIME,
    AppendResult,
    PreparedAppend,
    placed_header,
    rebuilt_batch,
    refusal,
    stored_marker_of,
)
from storage.append_checks import check_producer, marker_in, too_large_for_segment
from storage.errors import AppendRefused, CommitStopped
from storage.group_write import GroupWrite, Roll
from storage.index_file import FileTail
from storage.producer_state import ProducerBatch, ProducerEntry, successor
from storage.segment import MAX_RELATIVE_OFFSET, Segment
from storage.slices import SharedFile
from storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog


def _base_for(first: PreparedAppend, end_offset: int) -> int:
    """The base offset of a segment that begins with this batch, at the end of a log.

    Where a follower gets batches between which its leader has compacted others away, the segment begins at
    the end of the log all the same; Apache Kafka begins it with the batch. So no offsets are missing between
    two segments, and recovery can tell a hole (`compaction_marker`). Only a batch that is too far away begins
    its segment itself.
    """
    is_near = first.last_offset - end_offset <= MAX_RELATIVE_OFFSET
    return end_offset if is_near else first.base_offset


class AppendQueue:
    """Invariant: the offsets in the queue follow each other, and the first one is the log's end."""

    __slots__ = ("_begun", "_held", "_log", "_producers", "_segments", "_tails", "_was_in_thread", "prepared")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._segments = log.segments
        self.prepared: list[PreparedAppend] = []
        self._producers: dict[int, ProducerEntry] = {}
        """The entries that producers with a batch in the queue will have after it."""
        self._begun: list[Segment] = []
        """The segments that `write` has made, and that no commit has added to the log yet."""
        self._held: SharedFile | None = None
        """The active file while a helper thread writes to it. It must not be closed meanwhile."""
        self._was_in_thread = False
        """Whether the last write was done by a helper thread."""
        self._tails: Sequence[FileTail] = ()
        """What a helper thread adds to the index files of the active segment before a new segment begins."""

    @property
    def end_offset(self) -> int:
        """The log end offset as it will be when the whole queue has been committed."""
        for each in reversed(self.prepared):
            if not each.is_duplicate:
                return each.last_offset + 1
        return self._segments.log_end_offset

    def prepare(
        self,
        records: ReadBuffer,
        batch: ValidatedBatch,
        rules: ValidationRules,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> PreparedAppend:
        """Gives a validated batch its offsets and puts it at the end of the queue. Raises AppendRefused."""
        header = batch.header
        log = self._log
        base_offset = self.end_offset
        producer = marker = None
        if header.producer_id >= 0:
            known = self._known_producer(header.producer_id)
            if header.is_control:
                marker = marker_in(log, known, records, header, transaction_version)
            else:
                duplicate = check_producer(log, known, header)
                if duplicate is not None:
                    return self._add_duplicate(duplicate, leader_epoch)
            producer = successor(known, placed_header(batch, base_offset), marker)
        stored: memoryview | bytearray
        if batch.must_rebuild:
            stored = rebuilt_batch(batch, rules, base_offset, leader_epoch, log.log_start_offset)
        else:
            stored = _writable(records, header.size_bytes)
            place(stored, 0, batch, base_offset, leader_epoch)
        if len(stored) > log.config.segment_bytes:
            raise too_large_for_segment(log, len(stored))
        append_time_ms = now_ms if batch.log_append_time else NO_LOG_APPEND_TIME
        last_offset = base_offset + header.last_offset_delta
        return self._add(
            PreparedAppend(
                stored,
                len(stored),
                base_offset,
                last_offset,
                batch.max_timestamp,
                leader_epoch,
                append_time_ms,
                producer,
                marker,
            )
        )

    def prepare_copies(
        self, batches: ReadBuffer, leader_epoch: int
    ) -> tuple[list[PreparedAppend], AppendRefused | None]:
        """Puts the leader's batches at the end as they are, up to the first that is incomplete, not valid, or
        of a later epoch than `leader_epoch`.

        Returns them, and the error for the batch that is not valid, if there is one.
        """
        copies: list[PreparedAppend] = []
        view = memoryview(batches)
        log = self._log
        try:
            for position, header in headers(view):
                if header.partition_leader_epoch > leader_epoch:
                    break
                expected = self.end_offset
                if header.base_offset < expected or not is_intact(view, position, header):
                    return copies, AppendRefused(
                        ErrorCode.CORRUPT_MESSAGE,
                        f"The leader's batch with offset {header.base_offset} is damaged or out of order in "
                        f"{log.name}: offset {expected} or above was expected",
                        (),
                        log.log_start_offset,
                    )
                copies.append(self._add(self._copy_of(view[position : position + header.size_bytes], header)))
        except RecordsError as error:
            return copies, refusal(error, log.log_start_offset)
        return copies, None

    def write(self, prepared: Sequence[PreparedAppend], now_ms: int) -> None:
        """Writes the first batches of the queue into the file, with one system call per segment.

        Raises LogStorageError. The file is then as it was before, and `rollback` must follow.
        """
        log = self._log
        self._was_in_thread = False
        self._segments.note_time(now_ms)
        now_ns = log.appends.disk.now_ns
        began_ns = now_ns()
        try:
            if self._segments.has_failed_write:
                self._segments.undo_failed_write()
            before = self._segments.active
            for segment, group in self._by_segment(prepared, now_ms):
                if segment is not before:
                    if log.config.sync_full_segments:
                        before.log.file().fdatasync()
                    segment.create()
                self._segments.write(segment, group)
                before = segment
        except OSError as error:
            self._remove_begun()
            raise self._segments.write_failed(error, whole=len(prepared) > 1) from error
        log.appends.disk.took(now_ns() - began_ns)

    def fitting(self, prepared: Sequence[PreparedAppend], now_ms: int) -> int:
        """The number of the first batches of the queue that fit into the active segment. With the next one a
        new segment begins."""
        self._segments.note_time(now_ms)
        segment, roll_timestamp = self._segments.active, self._segments.roll_timestamp
        position = segment.size_bytes
        for number, each in enumerate(prepared):
            if each.is_duplicate:
                continue
            if self._is_beyond(segment, position, roll_timestamp, each):
                return number
            if not position:
                roll_timestamp = self._segments.roll_timestamp_after(each.max_timestamp)
            position += each.size_bytes
        return len(prepared)

    def write_in_thread(
        self, prepared: Sequence[PreparedAppend], sync: Callable[[], object] | None
    ) -> GroupWrite:
        """Makes a call for a helper thread that does what `write` does, for batches that fit into the active
        segment. `written_in_thread` follows.

        Meanwhile nobody else may write to the log, truncate it, or begin a new segment. sync: called by the
        thread at the end. Raises LogStorageError if the active file cannot be opened.
        """
        log = self._log
        self._was_in_thread = True
        segment = self._segments.active
        start = position = segment.size_bytes
        group = [each for each in prepared if not each.is_duplicate]
        for each in group:
            each.segment, each.position = segment, position
            position += each.size_bytes
        try:
            file = segment.log.file()
            cut_first = self._segments.undo_of_failed_write() if self._segments.has_failed_write else None
        except OSError as error:
            raise self._segments.write_failed(error) from error
        self._hold(segment.log)
        buffers = [each.records for each in group]
        path, size_bytes = segment.log.path, position - start
        return GroupWrite(
            file, path, buffers, start, size_bytes, log.appends.disk.stalled_ns, cut_first, sync
        )

    def written_in_thread(self, error: OSError | None) -> None:
        """Called when the helper thread has ended. Raises LogStorageError if it failed, see `write`."""
        self._release()
        self._require_done_in_thread(error)

    def roll_in_thread(self, first: PreparedAppend, now_ms: int) -> Roll:
        """Makes a call for a helper thread that begins a new segment at the log's end, for this batch.
        `rolled_in_thread` follows. Raises LogStorageError if nothing can be done."""
        log = self._log
        self._was_in_thread = True
        try:
            cut_first = self._segments.undo_of_failed_write() if self._segments.has_failed_write else None
            self._tails = self._segments.active.unsealed()
            self._hold(self._segments.active.log)
        except OSError as error:
            raise self._segments.write_failed(error) from error
        segment = self._segments.new_segment(_base_for(first, self._segments.log_end_offset), now_ms)
        self._begun.append(segment)
        return Roll(log.files, segment.log.path, self._tails, log.appends.disk.stalled_ns, cut_first)

    def rolled_in_thread(self, error: OSError | None) -> None:
        """Called when the helper thread has ended. Raises LogStorageError if the log goes on in its old
        segment."""
        log = self._log
        tails = self._tails
        self._release()
        self._require_done_in_thread(error)
        self._segments.note_name_change()  # a sync that began before the file was there does not speak of it
        self._segments.active.note_sealed(tails)
        try:
            log.join_segment(self._begun[0])
        except OSError as problem:
            self._segments.note_failed_roll()
            raise self._segments.why_not_written(problem) from problem
        self._begun.clear()

    def _hold(self, file: SharedFile) -> None:
        file.retain()
        self._held = file

    def _release(self) -> None:
        """Lets go of what a helper thread was given, which has ended or does not begin."""
        self._tails = ()
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _require_done_in_thread(self, error: OSError | None) -> None:
        if error is None:
            self._segments.note_write_undone()
            return
        self._segments.note_failed_write()
        raise self._segments.why_not_written(error) from error

    def _by_segment(
        self, prepared: Sequence[PreparedAppend], now_ms: int
    ) -> list[tuple[Segment, list[PreparedAppend]]]:
        """The batches by the segment into which they are written. Segments that are not in the log yet have
        no file either."""
        segment = self._segments.active
        position, roll_timestamp = segment.size_bytes, self._segments.roll_timestamp
        end_offset = self._segments.log_end_offset
        group: list[PreparedAppend] = []
        groups = [(segment, group)]
        for each in prepared:
            if each.is_duplicate:
                continue
            if self._is_beyond(segment, position, roll_timestamp, each):
                segment = self._segments.new_segment(_base_for(each, end_offset), now_ms)
                self._begun.append(segment)
                group, position = [], 0
                groups.append((segment, group))
                roll_timestamp = self._segments.roll_timestamp_after(each.max_timestamp)
            each.segment, each.position = segment, position
            position += each.size_bytes
            end_offset = each.last_offset + 1
            group.append(each)
        return [each for each in groups if each[1]]

    def _is_beyond(self, segment: Segment, position: int, roll_timestamp: int, each: PreparedAppend) -> bool:
        """Whether a batch that would begin at `position` belongs to the next segment. A batch of any size and
        age may be the first of a segment, but not one whose offset its indexes cannot hold."""
        return each.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET or (
            position > 0
            and (
                position + each.size_bytes > self._log.config.segment_bytes
                or each.max_timestamp > roll_timestamp
                or segment.is_full
            )
        )

    def commit(self, prepared: Sequence[PreparedAppend]) -> list[AppendResult]:
        """Adds what was written to the log. Returns one result for each batch, in order.

        Raises CommitStopped if a segment's indexes cannot be written. The rest must then be rolled back.
        """
        log, queue = self._log, self.prepared
        in_order = len(prepared) <= len(queue) and all(a is b for a, b in zip(prepared, queue, strict=False))
        if not in_order:
            invariant(False, "Batches are committed in the order of their queue", log=log.name)
        start = log.log_start_offset
        results: list[AppendResult] = []
        problem: OSError | None = None
        for each in prepared:
            if not each.is_duplicate:
                try:
                    self._commit_one(each)
                except OSError as error:
                    problem = error
                    break
            results.append(
                AppendResult(
                    each.base_offset, each.last_offset, each.log_append_time_ms, start, each.is_duplicate
                )
            )
        del queue[: len(results)]
        if not queue:
            self._producers.clear()
        if problem is not None:
            raise CommitStopped(str(self._segments.write_failed(problem)), results) from problem
        return results

    def rollback(self) -> int:
        """Forgets the whole queue, and cuts off the part of it that was written. Returns the number of
        batches."""
        self._release()
        count = len(self.prepared)
        written = any(each.segment is not None for each in self.prepared)
        self.prepared.clear()
        self._producers.clear()
        self._remove_begun()
        if written:
            self._segments.cut_off_failed_write(whole=True, was_long=self._was_in_thread)
        return count

    def forget(self) -> None:
        """Forgets the queue because the log is given up with its files. Nothing is cut off."""
        self._release()
        self.prepared.clear()
        self._producers.clear()
        begun, self._begun = self._begun, []
        for segment in begun:
            segment.close()

    def _commit_one(self, each: PreparedAppend) -> None:
        log, segment = self._log, each.segment
        if segment is None or each.base_offset < self._segments.log_end_offset:
            invariant(
                False,
                "A batch is committed after its write, at the log's end",
                log=log.name,
                base_offset=each.base_offset,
                log_end_offset=self._segments.log_end_offset,
            )
            return
        if segment is not self._segments.active:
            now_ns = log.appends.disk.now_ns
            began_ns = now_ns()
            log.join_segment(segment)
            self._begun.remove(segment)
            log.appends.disk.took(now_ns() - began_ns)
        if each.marker is not None and not each.marker.committed:
            segment.transaction_index.entries()  # may have to be read, which fails before anything is changed
        if each.leader_epoch != log.leader_epochs.latest_epoch:
            log.leader_epochs.assign(each.leader_epoch, each.base_offset)
        if each.producer is not None:
            log.producer_state.put(each.producer)
            if each.marker is not None:
                self._end_transaction(segment, each.producer.producer_id, each.base_offset, each.marker)
        self._segments.note_append(
            segment, each.position, each.size_bytes, each.base_offset, each.last_offset, each.max_timestamp
        )

    def _end_transaction(
        self, segment: Segment, producer_id: int, marker_offset: int, marker: TransactionMarker
    ) -> None:
        """Ends a transaction whose marker is in the log. If it was aborted, it gets an entry in the
        transaction index."""
        transactions = self._log.producer_state.transactions
        completed = transactions.ended(producer_id, marker_offset)
        if completed is not None and not marker.committed:
            segment.transaction_index.append(
                AbortedTransaction(*completed, transactions.stable_offset_after(completed))
            )

    def _add(self, prepared: PreparedAppend) -> PreparedAppend:
        self.prepared.append(prepared)
        if prepared.producer is not None:
            self._producers[prepared.producer.producer_id] = prepared.producer
        return prepared

    def _add_duplicate(self, first: ProducerBatch, leader_epoch: int) -> PreparedAppend:
        return self._add(
            PreparedAppend(
                bytearray(),
                0,
                first.first_offset,
                first.last_offset,
                first.timestamp,
                leader_epoch,
                first.timestamp,
                is_duplicate=True,
            )
        )

    def _copy_of(self, batch: memoryview, header: BatchHeader) -> PreparedAppend:
        producer = None
        marker = stored_marker_of(batch, header)
        if header.producer_id >= 0:
            producer = successor(self._known_producer(header.producer_id), header, marker)
            if header.is_transactional:
                self._log.producer_state.verifications.forget(header.producer_id)
        return PreparedAppend(
            batch, header.size_bytes, header.base_offset, header.last_offset,
            header.max_timestamp, header.partition_leader_epoch, producer=producer, marker=marker,
        )  # fmt: skip

    def _known_producer(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id) or self._log.producer_state.get(producer_id)

    def _remove_begun(self) -> None:
        begun, self._begun = self._begun, []
        for segment in reversed(begun):
            self._segments.discard(segment)


def _writable(records: ReadBuffer, size_bytes: int) -> memoryview | bytearray:
    """The bytes of a batch for patching: in place if the buffer allows that, else a copy."""
    view = memoryview(records)[:size_bytes]
    return bytearray(view) if view.readonly else view
