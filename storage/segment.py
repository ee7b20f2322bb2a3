"""One segment: a `.log` of record batches in a row, with an index by offset and one by time.

    <base offset>.log          batch │ batch │ batch │ …              at most segment.bytes
    <base offset>.index        every 4 KiB or so: last offset of a batch → its position
    <base offset>.timeindex    the largest timestamp so far → last offset of its batch
    <base offset>.txnindex     aborted transactions; only if there are any

Only the last segment of a log is written to (the active one). When it is full in any of several ways a new
one is begun and this one sealed: index entries that waited are written, and the largest timestamp gets its
entry.

Batches are found by reading headers from an index entry on, 4 KiB of the file at a time. Whoever reads
here may meet a file that the disk has damaged: `CorruptSegment` says where, the caller decides what it
means. An index that somebody has removed or cut under a running broker is made again from the headers when
it is missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias, TypeVar

from config.ports import Files
from protocol.records.errors import CorruptRecord
from protocol.records.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, BatchHeader, read_header
from storage.errors import CorruptSegment
from storage.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file,
)
from storage.index_file import FileTail, IndexLost
from storage.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from storage.offset_index import OffsetIndex
from storage.slices import SharedFile
from storage.stored_batches import refuse_legacy_format
from storage.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from storage.time_index import NO_TIMESTAMP, TimeIndex
from storage.transaction_index import TransactionIndex

T = TypeVar("T")

DEFAULT_INTERVAL_BYTES: Final = 4096
"""Kafka's default of `index.interval.bytes`, with which indexes are made again."""

MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF
"""The largest relative offset: index entries hold offsets less the base offset in 31 bits."""

_logger: Final = logging.getLogger("barnabas.storage")

_PLACE: Final = Struct(">qi4xb6xi")
"""Base offset, batch length, magic and last offset delta, which are all that a look-up needs of a header."""
_READ_BYTES: Final = 4096
_SMALLEST_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES


IndexedBatch: TypeAlias = tuple[int, int, int, int, int]
"""A batch that gets an index entry: its position, end and last offset, the largest timestamp so far and the
last offset of the batch that has it. A plain tuple, since one is made for each large batch that producers
send."""


class Located(NamedTuple):
    """The place of a batch in a segment, and its offsets."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


class Segment:
    """`size_bytes` counts what belongs to the log. Bytes behind it are left from an append or a truncation
    that has failed."""

    __slots__ = (
        "_directory",
        "_ending",
        "_files",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "first_timestamp",
        "index_room",
        "is_full",
        "is_sealed",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "size_bytes",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        fresh: bool,
        created_ms: int,
        ending: str = "",
    ) -> None:
        """`ending` is appended to the names of all its files, as long as the segment is not in its log."""
        self._files = files
        self._ending = ending
        self._directory = directory
        self.base_offset = base_offset
        stem = f"{directory}/{segment_file(base_offset, '')}"
        self.log = SharedFile(files, f"{stem}{LOG_SUFFIX}{ending}", write=True)
        self.offset_index = OffsetIndex(
            files, f"{stem}{OFFSET_INDEX_SUFFIX}{ending}", base_offset, fresh=fresh
        )
        self.time_index = TimeIndex(files, f"{stem}{TIME_INDEX_SUFFIX}{ending}", base_offset, fresh=fresh)
        self.transaction_index = TransactionIndex(files, f"{stem}{TRANSACTION_INDEX_SUFFIX}{ending}")
        self.size_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        """The last offset of the batch with the largest timestamp."""
        self.bytes_since_index_entry = 0
        self.first_timestamp: int | None = None
        """The largest timestamp of the first batch, from which the segment's age counts. None if it was not
        looked up."""
        self.created_ms = created_ms
        """The time at which this process has created or opened the segment."""
        self.index_room = 0
        """The number of index entries that can certainly be added, see `index_entries_left`."""
        self.is_full = False
        """Whether the next batch begins a new segment: an index file has no space for another entry, or the
        segment is too old by the wall clock."""
        self.is_sealed = False
        """Its index files are complete, and change only if the segment is truncated."""

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{segment_file(self.base_offset, suffix)}{self._ending}"

    # Writing

    def create(self) -> None:
        """Creates the `.log` file. It is empty, whatever was there. Raises OSError."""
        file = self.log.create()
        if file.size():
            file.truncate(0)

    def appended(
        self, position: int, last_offset: int, max_timestamp: int, size_bytes: int, interval: int
    ) -> bool:
        """Takes in a batch that lies at `position` now. Every `interval` bytes it gets an index entry.

        Returns whether it got one.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self.size_bytes = position + size_bytes
        if self.bytes_since_index_entry > interval:
            self._index(last_offset, position)
            self.bytes_since_index_entry = size_bytes
            return True
        self.bytes_since_index_entry += size_bytes
        if position == 0:
            self.first_timestamp = max_timestamp
        return False

    def appended_in_row(
        self,
        end: int,
        bytes_since_index_entry: int,
        newest: tuple[int, int],
        indexed: Sequence[IndexedBatch],
    ) -> None:
        """Does as `appended` for consecutive batches, of which none is the segment's first.

        newest: the largest timestamp and its offset. indexed: the batches that get an index entry.
        """
        for position, self.size_bytes, last_offset, self.max_timestamp, self.max_timestamp_offset in indexed:
            self._index(last_offset, position)
        self.max_timestamp, self.max_timestamp_offset = newest
        self.size_bytes = end
        self.bytes_since_index_entry = bytes_since_index_entry

    def _index(self, last_offset: int, position: int) -> None:
        """Adds an entry for a batch to both indexes."""
        self.index_room -= 1
        try:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        except IndexLost:
            self.remake_indexes()

    def has_full_index(self, segment_index_bytes: int) -> bool:
        """Whether an index has no space for another entry, and for that of the last timestamp when the
        segment is sealed."""
        return self.index_room <= 0 and (
            self.offset_index.count >= segment_index_bytes // OFFSET_ENTRY_BYTES
            or self.time_index.count >= segment_index_bytes // TIME_ENTRY_BYTES - 1
        )

    def index_entries_left(self, segment_index_bytes: int) -> int:
        """The number of entries that can be added before `has_full_index` is true."""
        self.index_room = room = min(
            segment_index_bytes // OFFSET_ENTRY_BYTES - self.offset_index.count,
            segment_index_bytes // TIME_ENTRY_BYTES - 1 - self.time_index.count,
        )
        return max(room, 0)

    def seal(self) -> None:
        """Writes all entries of the indexes. After this the segment only changes if it is truncated."""
        tails = self.unsealed()
        for tail in tails:
            tail.write(self._files)
        self.note_sealed(tails)

    def unsealed(self) -> list[FileTail]:
        """What is missing in the index files, for the caller to write. `note_sealed` follows."""
        self.require_indexes()
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        tails = [self.offset_index.file.unwritten(), self.time_index.file.unwritten()]
        transactions = self.transaction_index.unwritten()
        return tails if transactions is None else [*tails, transactions]

    def note_sealed(self, tails: Sequence[FileTail]) -> None:
        """Notes that these tails are in the index files, so that the segment is sealed."""
        self.offset_index.file.note_written(tails[0])
        self.time_index.file.note_written(tails[1])
        for tail in tails[2:]:
            self.transaction_index.note_written(tail)
        self.is_sealed = True

    @property
    def has_changed_indexes(self) -> bool:
        """Whether this process has changed an index file."""
        indexes = (self.offset_index.file, self.time_index.file, self.transaction_index)
        return any(index.has_changed for index in indexes)

    def sync(self) -> None:
        """Syncs the log file and its sealed indexes, and waits for it. It is not called on the loop."""
        self.log.file().fdatasync()
        for suffix in SEGMENT_SUFFIXES[1:]:
            if self._files.exists(self.path(suffix)):
                index = self._files.open(self.path(suffix), write=True)
                try:
                    index.fdatasync()
                finally:
                    index.close()

    def cut(self, end_offset: int) -> None:
        """Truncates the file to the size that belongs to the log, and the indexes to `end_offset`. Raises
        OSError; then it is to be done again."""
        self.log.file().truncate(self.size_bytes)
        try:
            self.offset_index.truncate_to(end_offset)
            self.time_index.truncate_to(end_offset)
        except IndexLost:
            self.remake_indexes()
        self.transaction_index.truncate_to(end_offset)
        self.is_full = self.is_sealed = False
        self.load_tail()

    # Reading

    def locate(self, offset: int) -> Located | None:
        """The first batch whose last offset is `offset` or above; None if all lie below.

        Raises OSError, CorruptSegment and LegacyFormat.
        """
        try:
            position, following = self.offset_index.lookup_with_next(offset)
        except IndexLost:
            self.remake_indexes()
            position, following = self.offset_index.lookup_with_next(offset)
        start = position
        end = self.size_bytes
        file = self.log.file()
        data = b""
        if following - position > _READ_BYTES:
            # A large batch has an entry, so this one mostly begins where the next entry points to.
            data = file.pread(_PLACE.size, following)
            if len(data) == _PLACE.size and _PLACE.unpack(data)[0] == offset:
                position = start = following
            else:
                data = b""
        while position < end:
            relative = position - start
            if relative + _PLACE.size > len(data):
                data = file.pread(_READ_BYTES, position)
                start, relative = position, 0
            if len(data) < relative + _PLACE.size:
                raise CorruptSegment(self.log.path, position, "the file ends within its header")
            base_offset, length, magic, delta = _PLACE.unpack_from(data, relative)
            size = length + LOG_OVERHEAD_BYTES
            if magic != MAGIC:
                refuse_legacy_format(file, position, end)
            if length < _SMALLEST_LENGTH or position + size > end or base_offset < self.base_offset:
                raise CorruptSegment(self.log.path, position, f"length {length}, base offset {base_offset}")
            if base_offset + delta >= offset:
                return Located(position, size, base_offset, base_offset + delta)
            position += size
        return None

    def locate_position(self, position: int) -> int | None:
        """The offset of an index entry at or behind a position in the file; None if there is none."""
        return self._with_indexes(lambda: self.offset_index.offset_behind(position))

    def position_before(self, timestamp: int, least_offset: int) -> int:
        """The position from which on a record of that time or a later one is to be searched, not below an
        offset."""

        def look_up() -> int:
            _, offset = self.time_index.lookup(timestamp)
            return self.offset_index.lookup(max(offset, least_offset))

        return self._with_indexes(look_up)

    def last_time_entry(self) -> tuple[int, int]:
        """Timestamp and offset of the last entry of the time index, or -1 and the base offset."""
        return self._with_indexes(self.time_index.last)

    def headers(self, position: int = 0, read_bytes: int = _READ_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on, up to the segment's end.

        Raises OSError, CorruptSegment and LegacyFormat; checksums of batches are not looked at.
        """
        end = self.size_bytes
        if position >= end:
            return  # an empty segment's file need not be opened
        file = self.log.file()
        data, start = b"", position
        while position < end:
            relative = position - start
            if relative + HEADER_BYTES > len(data):
                data = file.pread(read_bytes, position)
                start, relative = position, 0
            try:
                header = read_header(data, relative)
            except CorruptRecord as error:
                refuse_legacy_format(file, position, end)
                raise CorruptSegment(self.log.path, position, error.message) from error
            if position + header.size_bytes > end or header.base_offset < self.base_offset:
                raise CorruptSegment(
                    self.log.path, position, f"size {header.size_bytes}, base offset {header.base_offset}"
                )
            yield position, header
            position += header.size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        return self.log.file().pread(size_bytes, position)

    def largest_timestamp(self) -> int:
        """The largest timestamp of all records, or -1 if no batch has one."""
        return max(self.max_timestamp, self.last_time_entry()[0])

    def youngest_ms(self) -> int:
        """The time of the youngest record, by which retention and compaction go: the largest timestamp, or
        without any the time of the file's last change. Raises OSError."""
        timestamp = self.largest_timestamp()
        if timestamp == NO_TIMESTAMP:
            return self._files.status(self.path(LOG_SUFFIX)).modified_ms
        return timestamp

    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 if there is none."""
        if self.first_timestamp is None:
            first = next(self.headers(), None)
            if first is None:
                return NO_TIMESTAMP
            self.first_timestamp = first[1].max_timestamp
        return self.first_timestamp

    # Indexes that are gone

    def _with_indexes(self, call: Callable[[], T]) -> T:
        """Returns what the call returns. If the call has not found entries of an index, the indexes are made
        again and it is called once more."""
        try:
            return call()
        except IndexLost:
            self.remake_indexes()
            return call()

    def require_indexes(self) -> None:
        """Makes those indexes again whose files were removed or truncated. Raises OSError."""
        if self.offset_index.file.is_lost or self.time_index.file.is_lost:
            self.remake_indexes()

    def remake_indexes(self) -> None:
        """Makes the indexes from the headers of all batches, up to the first place without a batch. Raises
        OSError."""
        _logger.warning("An index of %s is gone or was cut; it is made again", self.log.path)
        self.index_room = 0
        offsets: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        newest, since_entry = (NO_TIMESTAMP, self.base_offset), 0
        try:
            for position, header in self.headers():
                if header.max_timestamp > newest[0]:
                    newest = (header.max_timestamp, header.last_offset)
                if since_entry > DEFAULT_INTERVAL_BYTES:
                    offsets.append((header.last_offset, position))
                    if not times or newest[0] > times[-1][0]:
                        times.append(newest)
                    since_entry = 0
                since_entry += header.size_bytes
        except CorruptSegment as error:
            _logger.error("%s; the index ends there", error)
        if self.is_sealed and newest[0] > (times[-1][0] if times else NO_TIMESTAMP):
            times.append(newest)
        self.bytes_since_index_entry = since_entry
        self.offset_index.remake(offsets)
        self.time_index.remake(times)

    # Starting

    def load_tail(self) -> int:
        """Reads the headers behind the last index entry. Returns the end offset.

        `size_bytes` must be set, and the indexes must be right. Raises OSError and CorruptSegment.
        """
        indexed_offset, position = self.offset_index.last()
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        self.bytes_since_index_entry = 0
        if position == 0:
            self.first_timestamp = None
        end_offset = self.base_offset
        for place, header in self.headers(position):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            if place == 0:
                self.first_timestamp = header.max_timestamp
            self.bytes_since_index_entry += header.size_bytes
            end_offset = header.next_offset
        if end_offset <= indexed_offset and self.offset_index.count:
            raise CorruptSegment(self.log.path, position, f"the index says offset {indexed_offset} is there")
        return end_offset

    def has_sane_indexes(self) -> bool:
        return self.offset_index.is_sane(self.size_bytes) and self.time_index.is_sane()

    def has_complete_indexes(self, interval: int) -> bool:
        """Whether the indexes reach to the end of the segment, as far as the last batches tell.

        The log file may be on the disk while its indexes, which are written when it is sealed, are not.
        Raises OSError and CorruptSegment.
        """
        _, position = self.offset_index.last()
        newest = NO_TIMESTAMP
        since_entry = 0
        for _, header in self.headers(position):
            if since_entry > interval:
                return False
            since_entry += header.size_bytes
            newest = max(newest, header.max_timestamp)
        return newest <= self.time_index.last()[0]

    def adopt(self, size_bytes: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Takes over the numbers of a segment whose files another process has written and sealed."""
        self.size_bytes = size_bytes
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, max_timestamp_offset
        self.is_sealed = True

    def begin_rebuild(self) -> None:
        """Forgets indexes and sizes. `appended` is then called for each valid batch."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self.size_bytes = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.bytes_since_index_entry = 0
        self.first_timestamp = None
        self.is_full = self.is_sealed = False

    # Leaving

    def close(self) -> None:
        """Closes all files, the log file when its last slice is released."""
        self.offset_index.file.close()
        self.time_index.file.close()
        self.log.close_when_unused()

    def mark_deleted(self) -> list[str]:
        """Renames the files to `.deleted` and closes them. Returns the files that are to be removed later.

        Slices that are held can still be read. Raises OSError.
        """
        self.close()
        leaving: list[str] = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._files.exists(path):
                self._files.rename(path, path + DELETED_SUFFIX)
                leaving.append(path + DELETED_SUFFIX)
        return leaving
