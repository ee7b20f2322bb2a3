"""One partition's log: its parts, the way in, and the way out.

                    log start          high watermark      log end
                        ▼                     ▼               ▼
    offsets   ──────────┼─────────────────────┼───────────────┤
    segments  │ sealed  │ sealed         │ active             │ … the next append goes here

    segments         the files in a row; bytes get into the last one         `log_segments`
    durability       syncs, recovery point, snapshots and checkpoints        `log_durability`
    producer_state   who wrote last, and which transactions are open         `producer_state`
    leader_epochs    which leader wrote from which offset on                 `leader_epochs`
    appends          every append that is not done at once, in stages        `append_pipeline`

Consumers read from the log start up to the high watermark, followers up to the log end. There are three ways
in: a client's batch (`append_as_leader`), what a follower copies (`append_as_follower`), and the broker's own
records and transaction markers (`append_internal`). All go through the append pipeline, but for a single
batch of a client that can be stored as it came: `append_as_leader` has the stages written out in a row,
because nearly all produced batches pass there. It takes 5 µs beside the checksum and the system call. What
takes longer (large batches that are compressed anew, slow disks, appends that are synced) waits for helper
threads, if the log was given any. After an error nothing has changed.

Nothing here waits for the disk: syncs and small files are background tasks for the helper threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from config.ports import Files
from protocol.errors import ErrorCode
from protocol.records.errors import RecordsError
from protocol.records.header import ReadBuffer
from protocol.records.validation import place, validate_client_batch
from storage import lookup, retention, time_lookup, truncation
from storage.append import (
    LATEST_PRODUCE_VERSION,
    NO_LOG_APPEND_TIME,
    AppendResult,
    placed_header,
    refusal,
    result_of_duplicate,
)
from storage.append_checks import check_producer, too_large_for_segment
from storage.append_lane import LaneHelpers
from storage.append_pipeline import AppendPipeline
from storage.background_tasks import BackgroundTasks
from storage.errors import LogStorageError, OffsetOutOfRange
from storage.file_io import write_fully
from storage.leader_epochs import LAST_EPOCH
from storage.loaded_log import LoadedLog
from storage.log_config import LogConfig
from storage.log_disk import SLOW_NS, LogDisk
from storage.log_durability import LogDurability
from storage.log_segments import LogSegments
from storage.producer_state import successor
from storage.segment import MAX_RELATIVE_OFFSET, Segment
from storage.slices import LogSlice
from storage.time_lookup import FoundOffset, LookupSteps
from storage.waiting_append import WaitingAppend


class PartitionLog:
    """The attributes may be read by everybody. They are changed by the methods only."""

    __slots__ = (
        "appends",
        "background_tasks",
        "config",
        "durability",
        "files",
        "high_watermark",
        "is_abandoned",
        "leader_epochs",
        "log_start_offset",
        "partition",
        "producer_state",
        "rules",
        "segments",
        "topic",
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
        background_tasks: BackgroundTasks,
        found: LoadedLog,
    ) -> None:
        """Called by `opening.open_log`, which finds out what is in the directory. Raises OSError."""
        self.files = files
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.background_tasks = background_tasks
        self.segments = LogSegments(
            files, directory, partition, config, background_tasks, found.segments, found.log_end_offset
        )
        self.producer_state = found.producer_state
        self.leader_epochs = found.leader_epochs
        self.durability = LogDurability(
            self.segments, self.producer_state, self.leader_epochs, background_tasks,
            found.recovery_point, found.snapshot_offsets,
        )  # fmt: skip
        self.log_start_offset = found.log_start_offset
        """The first offset that may be read. It never falls, unless the log is truncated below it."""
        self.high_watermark = found.log_start_offset
        """Everything below it is committed. log start <= high watermark <= log end."""
        self.is_abandoned = False
        """Whether the log's directory is about to be deleted, or has failed. Nothing is appended any more."""
        self.rules = config.validation_rules(self.name)
        """A client's batch is validated by them now."""
        self.appends = AppendPipeline(self)

    # What it is

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def directory(self) -> str:
        """The directory of the log's files. A move to another log directory changes it."""
        return self.segments.directory

    @property
    def active(self) -> Segment:
        """The active segment: the last one, which takes the appends."""
        return self.segments.active

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.segments.log_end_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that is on this broker's own disk. It is the log start, because no part of a log
        lies in remote storage."""
        return self.log_start_offset

    @property
    def recovery_point(self) -> int:
        """Everything below it is on the disk."""
        return self.durability.recovery_point

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def truncations(self) -> int:
        """How often the log was truncated, or its files were replaced by copies elsewhere."""
        return self.segments.truncations

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, and the decision is replicated."""
        first = self.producer_state.transactions.first_unstable_offset(self.high_watermark)
        if first is None or first > self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def update_config(self, config: LogConfig) -> None:
        """Takes over the topic's new settings, from the next append on."""
        self.config = config
        self.segments.set_config(config)
        self.rules = config.validation_rules(self.name)
        self.appends.config_changed()

    def forget_expired_producers(self, now_ms: int) -> None:
        """Forgets the producers that have written nothing for `producer.id.expiration.ms`."""
        self.producer_state.remove_expired(now_ms, self.config.producer_id_expiration_ms)

    def set_topic_id(self, topic_id: bytes) -> None:
        """Sets the topic id of a log that had none: its `partition.metadata` is from before topic ids, or was
        lost."""
        self.topic_id = topic_id

    def use_disk(self, disk: LogDisk, helpers: LaneHelpers | None = None) -> None:
        """Has writes timed from now on. With helpers, appends that take long wait for helper threads; without
        them every append is done at once."""
        self.appends.use_disk(disk, helpers)

    def update_high_watermark(self, offset: int) -> bool:
        """Raises the high watermark, at most to the log end. Returns whether it has moved."""
        log_end_offset = self.segments.log_end_offset
        if offset > log_end_offset:
            offset = log_end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def increase_log_start(self, offset: int, reason: str = retention.CLIENT_DELETES) -> bool:
        """Raises the log start to `offset`, which is at most the high watermark. Whole segments below it are
        deleted by the next retention. Returns whether the log start has moved."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.leader_epochs.truncate_from_start(offset)
        retention.log_new_start(self, reason)
        return True

    @property
    def is_waited_for(self) -> bool:
        """Whether appends wait for helper threads. Then nobody else may append, truncate the log or begin a
        new segment."""
        return self.appends.is_busy

    def give_up_waiting_appends(self, error: ErrorCode) -> None:
        """Ends all waiting appends with this error. Those that are being written get it when the write has
        ended."""
        self.appends.give_up(error)

    # Appending

    def append_as_leader(
        self,
        records: ReadBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        walk: bool = False,
        request_version: int = LATEST_PRODUCE_VERSION,
    ) -> AppendResult | WaitingAppend:
        """Appends one client's batch; base offset and epoch are patched into `records` itself. If it takes
        long and there are helper threads, a copy waits for them, and its outcome follows. Raises
        AppendRefused (nothing has changed) and LogStorageError (nothing of it is in the log)."""
        now_ns = None
        appends = self.appends
        if now_ms != appends.inline_ms:
            if appends.must_detour(now_ms):
                return appends.append_by_detour(records, leader_epoch, now_ms, walk, request_version)
            now_ns = appends.disk.now_ns
        try:
            batch = validate_client_batch(
                records, 0, len(records), self.rules, now_ms=now_ms, walk=walk,
                request_version=request_version, inline_bytes=appends.inline_bytes,
            )  # fmt: skip
        except RecordsError as error:
            raise refusal(error, self.log_start_offset) from error
        header = batch.header
        size_bytes = header.batch_length + 12
        if batch.must_rebuild or len(records) != size_bytes or _is_read_only(records):
            if not batch.is_judged:
                return appends.append_by_detour(records, leader_epoch, now_ms, walk, request_version)
            return appends.append_judged(records, batch, leader_epoch, now_ms)
        segments = self.segments
        base_offset = segments.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        producer = None
        if header.producer_id >= 0:
            known = self.producer_state.get(header.producer_id)
            if known is not None:
                producer = known.followed_by(header, base_offset, last_offset, batch.max_timestamp)
            if producer is None:
                if (first := check_producer(self, known, header)) is not None:
                    return result_of_duplicate(first, self.log_start_offset)
                producer = successor(known, placed_header(batch, base_offset))
        active = segments.active
        if (
            active.size_bytes + size_bytes > segments.config.segment_bytes
            or batch.max_timestamp > segments.roll_timestamp
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or active.is_full
        ):
            active = self._make_room(size_bytes, now_ms)
        position = active.size_bytes
        place(records, 0, batch, base_offset, leader_epoch)  # type: ignore[arg-type]
        try:
            if segments.has_failed_write:
                segments.undo_failed_write()
            began_ns = 0 if now_ns is None else now_ns()
            if segments.active_write((records,), position) != size_bytes:
                write_fully(active.log.file(), (records,), size_bytes, position, active.log.path)
        except OSError as error:
            raise segments.write_failed(error) from error
        if now_ns is not None and (took_ns := now_ns() - began_ns) > SLOW_NS:
            appends.write_was_slow(took_ns)
        if leader_epoch != self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if producer is not None:
            self.producer_state.put(producer)
        segments.note_append(active, position, size_bytes, base_offset, last_offset, batch.max_timestamp)
        append_time_ms = now_ms if batch.log_append_time else NO_LOG_APPEND_TIME
        return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def append_internal(
        self, records: ReadBuffer, *, leader_epoch: int, now_ms: int, transaction_version: int = 0
    ) -> AppendResult | WaitingAppend:
        """Appends one batch that this broker has built itself, as it is: a coordinator's records, or a
        control batch (`protocol.records.control`) such as a transaction marker.

        Returns a WaitingAppend as `append_as_leader` does. Raises AppendRefused for a marker of an older
        epoch (INVALID_PRODUCER_EPOCH) or of an older coordinator (TRANSACTION_COORDINATOR_FENCED), and
        LogStorageError.
        """
        return self.appends.append_internal(records, leader_epoch, now_ms, transaction_version)

    def append_as_follower(
        self, batches: ReadBuffer, now_ms: int, leader_epoch: int = LAST_EPOCH
    ) -> AppendResult | WaitingAppend:
        """Appends the leader's batches byte for byte. Returns the first and the last offset.

        A batch that is incomplete at the end is left out, and so are all from the first one of an epoch after
        `leader_epoch` on. Returns a WaitingAppend as `append_as_leader` does. Raises AppendRefused for a
        damaged or misplaced batch (those before it are in the log), and LogStorageError (none of them is).
        """
        return self.appends.append_as_follower(batches, now_ms, leader_epoch)

    # Reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        up_to_offset: int | None = None,
        at_least_one_batch: bool = True,
    ) -> LogSlice | None:
        """Reads batches from the one that contains `offset` on, all below `up_to_offset` (or the log end).

        There are at most `max_bytes` of them, and the last batch may be incomplete. The first one is always
        complete: with `at_least_one_batch` also if it is larger than max_bytes. None if there is nothing to
        read. One slice is of one segment. Raises OffsetOutOfRange and LogStorageError.
        """
        segments = self.segments
        end_offset = segments.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, end_offset)
        limit = end_offset if up_to_offset is None or up_to_offset > end_offset else up_to_offset
        if offset >= limit:
            return None
        active = segments.active
        recent = segments.recent_offsets
        if not recent or offset < recent[0]:
            return lookup.read(self, offset, limit, max_bytes, at_least_one_batch)
        number = bisect_right(recent, offset)
        positions = segments.recent_positions
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

    def size_between(self, offset: int, end_offset: int) -> int:
        """The size of the batches from the one that contains `offset` on, all below `end_offset`, in whatever
        segments they lie. Both offsets are in the log. Raises LogStorageError."""
        segments = self.segments
        recent = segments.recent_offsets
        if not recent or offset < recent[0]:
            return lookup.size_between(self, offset, end_offset)
        found = self.read(offset, max_bytes=segments.active.size_bytes, up_to_offset=end_offset)
        return 0 if found is None else found.size_bytes

    def aborted_transactions(self, from_offset: int, found: LogSlice) -> list[tuple[int, int]]:
        """Pairs of producer id and first offset: the aborted transactions that a reader of `found` must leave
        out, by first offset. Raises LogStorageError."""
        return lookup.aborted_transactions(self, from_offset, found)

    def find_since(self, timestamp: int) -> LookupSteps[FoundOffset]:
        """Timestamp, offset and leader epoch of the first record at or after `timestamp`; None if there is
        none.

        It is found in steps, see `time_lookup`. Raises LogStorageError.
        """
        return time_lookup.first_since(self, timestamp)

    def find_largest_timestamp(self) -> LookupSteps[FoundOffset]:
        """Timestamp, offset and leader epoch of the first record with the largest timestamp of all."""
        return time_lookup.with_largest_timestamp(self)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """An epoch and its end offset, see `LeaderEpochs.end_offset_for`."""
        return self.leader_epochs.end_offset_for(epoch, self.segments.log_end_offset)

    # Segments

    def roll(self, now_ms: int) -> None:
        """Begins a new segment at the log end, unless the active one is empty. Raises LogStorageError."""
        truncation.finish(self)
        if self.segments.active.size_bytes:
            self._begin_segment(now_ms)

    def _begin_segment(self, now_ms: int) -> None:
        segments = self.segments
        disk = self.appends.disk
        now_ns = disk.now_ns
        began_ns = now_ns()
        try:
            if segments.has_failed_write:
                segments.undo_failed_write()  # nobody would come back to this file
            segment = segments.new_segment(segments.log_end_offset, now_ms)
            try:
                segment.create()
                self.join_segment(segment)
            except OSError:
                segments.discard(segment)
                raise
        except OSError as error:
            raise segments.write_failed(error) from error
        disk.took(now_ns() - began_ns)

    def join_segment(self, segment: Segment) -> None:
        """Seals the active segment and goes on in a new one, with a snapshot of the producers. Raises
        OSError; the log then goes on in its old segment."""
        segment.log.file()
        self.segments.seal_active()
        self.durability.flush()
        self.segments.add(segment)
        self.durability.write_snapshot()

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Removes everything from `offset` on, beginning with the batch that contains it.

        Raises LogStorageError. The log may end there all the same, and finish the truncation before it takes
        an append.
        """
        truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Removes everything; the next record gets `offset`. Raises LogStorageError as `truncate_to` does."""
        truncation.truncate_fully_and_start_at(self, offset, now_ms)

    def limit_offsets(self) -> None:
        """Lowers log start and high watermark to the log's end, because the log was truncated."""
        self.log_start_offset = min(self.log_start_offset, self.segments.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.segments.log_end_offset)

    def begin_at_log_end(self) -> None:
        """Sets the log start to the log's end, because the log is empty."""
        self.log_start_offset = self.high_watermark = self.segments.log_end_offset

    def use_copies(self, directory: str, copies: list[Segment], synced_offset: int) -> None:
        """Goes on with copies of all segments in another log directory. They are on the disk below
        `synced_offset`. Raises OSError."""
        old = list(self.segments)
        self.durability.limit_recovery_point(synced_offset)
        self.leader_epochs.note_change()
        self.segments.replace_all(directory, copies)
        for segment in old:
            segment.close()

    def delete_old_segments(
        self, now_ms: int, at_most: int | None = None, told: int = retention.LOGGED_SEGMENTS
    ) -> int:
        """Applies retention by time, size and log start. Returns the number of deleted segments. Raises
        LogStorageError.

        at_most: the largest number of segments to delete now. told: the number of them that are named in the
        log.
        """
        return retention.delete_old_segments(self, now_ms, at_most, told)

    def flush(self) -> None:
        """Notes background tasks after which everything up to the present log end is on the disk."""
        self.durability.flush()

    # The end

    def close(self) -> None:
        """Seals the indexes and closes the files, each when its last slice is released.

        Waiting appends are not in the log. Raises LogStorageError if the indexes cannot be written.
        """
        self.give_up_waiting_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.appends.queue.prepared:
            self.appends.queue.rollback()  # the thread that wrote them has ended, and nobody heard of it
        try:
            truncation.finish(self)
            if self.segments.has_failed_write:
                self.segments.undo_failed_write()
            self.active.seal()
        except OSError as error:
            raise LogStorageError(f"{self.active.log.path} cannot be closed in order: {error}") from error
        finally:
            for segment in self.segments:
                segment.close()

    def abandon(self) -> None:
        """Closes the files and writes nothing, because the directory is about to be deleted, or has failed.

        Waiting appends end with KAFKA_STORAGE_ERROR, unless they were ended with another error before.
        """
        self.is_abandoned = True
        self.give_up_waiting_appends(ErrorCode.KAFKA_STORAGE_ERROR)
        for segment in self.segments:
            segment.close()

    def _make_room(self, size_bytes: int, now_ms: int) -> Segment:
        """Begins a new active segment for a batch that does not fit into the present one."""
        if size_bytes > self.config.segment_bytes:
            raise too_large_for_segment(self, size_bytes)
        self._begin_segment(now_ms)  # the present one may be empty, and begin too far below the log's end
        return self.segments.active


def _is_read_only(records: ReadBuffer) -> bool:
    return records.readonly if records.__class__ is memoryview else records.__class__ is bytes
