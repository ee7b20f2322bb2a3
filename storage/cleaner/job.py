"""One pass over one partition, as a worker process does it.

The broker names the sealed segments and tells what only it knows: aborted transactions, producers and limits.
The pass reads the segments twice: first the dirty ones, to note the last offset of each key, then all of
them, to write what is kept into `.cleaned` files, which it syncs. Beside that it notes how far it has come
(`compaction_marker`). It changes nothing else. Whether the new
segments take the place of the old ones is decided by the broker, which may have deleted or truncated the log
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from config.limits import DECOMPRESSED_BATCH_BYTES
from config.ports import Files
from protocol.records.errors import RecordsError
from protocol.records.header import BatchHeader, is_intact, read_header
from protocol.records.reader import plain_records
from storage.append import stored_marker_of
from storage.cleaner.aborted import CleanedTransactions
from storage.cleaner.filtering import BatchFilter, FilterCounts, LastBatch
from storage.cleaner.keyed import keyed_records
from storage.cleaner.offset_map import OffsetMap
from storage.compaction_marker import write_compaction_marker
from storage.errors import CorruptSegment, LogStorageError
from storage.file_io import write_fully
from storage.file_names import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, segment_file
from storage.jobs import Job, Pace
from storage.segment import MAX_RELATIVE_OFFSET, Segment
from storage.stored_batches import refuse_legacy_format, stored_batches
from storage.transaction_index import AbortedTransaction

_IO_BYTES: Final = 1 << 20


class SourceSegment(msgspec.Struct, frozen=True):
    """A sealed segment. end_offset: the base offset of the next one."""

    base_offset: int
    size_bytes: int
    end_offset: int


class CleanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """segments: consecutive segments, from the first one that may be cleaned to the one before the first that
    may not."""

    directory: str
    name: str
    segments: list[SourceSegment]
    first_dirty_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    map_bytes: int
    load_factor: float
    aborted: list[AbortedTransaction]
    last_batches: dict[int, LastBatch]


class CleanedGroup(msgspec.Struct, frozen=True):
    """One new segment. sources: the base offsets of the segments that it replaces. It has the first one's
    base offset."""

    sources: list[int]
    size_bytes: int
    max_timestamp: int
    max_timestamp_offset: int


class CleanResult(msgspec.Struct, frozen=True):
    """end_offset: the log is clean below it."""

    groups: list[CleanedGroup]
    end_offset: int
    counts: FilterCounts
    map_entries: int
    """The number of different keys in the dirty part of the log."""
    is_map_full: bool


def clean(files: Files, pace: Pace, plan: CleanPlan) -> CleanResult:
    """Does one pass. Raises OSError and LogStorageError; its files are then removed, so that a full disk gets
    the space back."""
    run = _CleaningPass(files, pace, plan)
    last_offsets = run.read_keys()
    end_offset = max(last_offsets.latest_offset + 1, plan.first_dirty_offset)
    run.filter.end_offset = end_offset
    all_sources = group_by_size(plan, end_offset)
    try:
        groups = [run.write_group(sources) for sources in all_sources]
        if all_sources:
            write_compaction_marker(files, plan.directory, all_sources[-1][-1].end_offset)
    except (OSError, LogStorageError):
        for sources in all_sources:
            run.remove_cleaned(sources[0].base_offset)
        raise
    return CleanResult(groups, end_offset, run.filter.counts, len(last_offsets), run.is_map_full)


CLEAN = Job("clean", clean, plan=CleanPlan, result=CleanResult)


def group_by_size(plan: CleanPlan, end_offset: int) -> list[list[SourceSegment]]:
    """Groups of consecutive segments that together fit into one segment. Only segments that begin below
    `end_offset` are grouped."""
    groups: list[list[SourceSegment]] = []
    size_bytes = 0
    for segment in plan.segments:
        if segment.base_offset >= end_offset:
            break
        group = groups[-1] if groups else None
        if (
            group is not None
            and size_bytes + segment.size_bytes <= plan.segment_bytes
            and segment.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            group.append(segment)
            size_bytes += segment.size_bytes
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups


class _CleaningPass:
    """Reads one partition twice, and writes the new segments."""

    def __init__(self, files: Files, pace: Pace, plan: CleanPlan) -> None:
        self._files = files
        self._pace = pace
        self._plan = plan
        self._last_offsets = OffsetMap(plan.map_bytes, plan.load_factor)
        # The first reading begins at the dirty part, so it needs no transactions that ended before that.
        self._read_transactions = CleanedTransactions(
            each for each in plan.aborted if each.last_offset >= plan.first_dirty_offset
        )
        self._transactions = CleanedTransactions(plan.aborted)
        self.filter = BatchFilter(
            self._last_offsets,
            self._transactions,
            plan.last_batches,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
        )
        self.is_map_full = False

    # The first reading

    def read_keys(self) -> OffsetMap:
        """Notes the last offset of each key in the dirty part, or in as much of it as fits into the map."""
        for source in self._plan.segments:
            if source.end_offset > self._plan.first_dirty_offset and not self.is_map_full:
                self._read(source, self._note_batch)
        return self._last_offsets

    def _note_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        transactions = self._read_transactions
        if header.is_control:
            transactions.marker(header, stored_marker_of(batch, header))
        elif not transactions.data(header) and not self._note_keys(header, batch):
            self.is_map_full = True
            return False
        if header.last_offset > self._last_offsets.latest_offset:
            self._last_offsets.latest_offset = header.last_offset
        return True

    def _note_keys(self, header: BatchHeader, batch: memoryview) -> bool:
        """Notes the keys of a batch. False if the map cannot take all of them."""
        data = bytes(plain_records(batch, 0, header, DECOMPRESSED_BATCH_BYTES))
        base_offset, first_dirty = header.base_offset, self._plan.first_dirty_offset
        return self._last_offsets.put_all(
            [
                (key, base_offset + offset_delta)
                for _, _, _, _, offset_delta, key, _ in keyed_records(data, header.record_count)
                if key is not None and base_offset + offset_delta >= first_dirty
            ]
        )

    # The second reading

    def write_group(self, sources: list[SourceSegment]) -> CleanedGroup:
        """Writes one new segment with what is kept of the sources."""
        plan = self._plan
        base_offset = sources[0].base_offset
        self.remove_cleaned(base_offset)
        segment = Segment(
            self._files, plan.directory, base_offset,
            fresh=True, created_ms=plan.now_ms, ending=CLEANED_SUFFIX,
        )  # fmt: skip
        segment.create()
        writer = _Writer(segment, plan.index_interval_bytes)

        def filter_batch(header: BatchHeader, batch: memoryview) -> bool:
            remains = self.filter.remains(header, batch)
            if remains is not None:
                writer.add(remains)
            return True

        try:
            for source in sources:
                self._read(source, filter_batch)
            writer.flush()
            for aborted in self._transactions.kept:
                segment.transaction_index.append(aborted)
            self._transactions.kept.clear()
            segment.seal()
            segment.sync()
        finally:
            segment.close()
        # Without timestamps retention goes by this time, and must not begin anew with each pass.
        modified_ms = self._files.status(self._path_of(sources[-1])).modified_ms
        self._files.set_modified(segment.log.path, modified_ms)
        bases = [source.base_offset for source in sources]
        return CleanedGroup(bases, segment.size_bytes, segment.max_timestamp, segment.max_timestamp_offset)

    # Reading

    def _read(self, source: SourceSegment, handle: Callable[[BatchHeader, memoryview], bool]) -> None:
        """Shows the batches of a segment to `handle` until it returns False. Raises CorruptSegment if the
        segment is damaged."""
        path = self._path_of(source)
        file = self._files.open(path)
        try:
            end = 0
            for position, header, batch in stored_batches(file, source.size_bytes):
                if not is_intact(batch, 0, header):
                    raise CorruptSegment(path, position, "the checksum is wrong")
                self._pace.worked(len(batch))
                try:
                    if not handle(header, batch):
                        return
                except RecordsError as error:
                    raise CorruptSegment(path, position, error.message) from error
                end = position + len(batch)
            if end != source.size_bytes:
                refuse_legacy_format(file, end, source.size_bytes)
                raise CorruptSegment(path, end, "no batch begins here")
        finally:
            file.close()

    def _path_of(self, source: SourceSegment) -> str:
        return f"{self._plan.directory}/{segment_file(source.base_offset, LOG_SUFFIX)}"

    def remove_cleaned(self, base_offset: int) -> None:
        for suffix in SEGMENT_SUFFIXES:
            path = f"{self._plan.directory}/{segment_file(base_offset, suffix)}{CLEANED_SUFFIX}"
            if self._files.exists(path):
                self._files.unlink(path)


class _Writer:
    """Writes batches one behind the other into a segment, a mebibyte at a time."""

    def __init__(self, segment: Segment, interval_bytes: int) -> None:
        self._segment = segment
        self._interval_bytes = interval_bytes
        self._waiting: list[memoryview | bytearray] = []
        self._waiting_bytes = 0
        self._position = 0

    def add(self, batch: memoryview | bytearray) -> None:
        header = read_header(batch)
        self._segment.appended(
            self._position + self._waiting_bytes, header.last_offset, header.max_timestamp, len(batch),
            self._interval_bytes,
        )  # fmt: skip
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= _IO_BYTES:
            self.flush()

    def flush(self) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        log = self._segment.log
        write_fully(log.file(), (data,), len(data), self._position, log.path)
        self._position += len(data)
