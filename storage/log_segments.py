"""The segments of one log in a row, and how bytes get into the last one.

Only the last segment, the active one, is written to. Bytes are placed by position, so the end of the log
is what `size_bytes` of the active segment says, not the end of its file: bytes that a failed write left
behind are cut off before the next write, and until that succeeds they are nobody's.

The same holds for files of segments that were begun for a write that failed. One that stayed would hide
after a restart whatever came into its range meanwhile; as long as it cannot be removed nothing is appended.

The base offsets and positions of the last batches of the active segment are kept in two small arrays: who
reads near the end of the log needs no index. Where a follower gets batches between which its leader has
compacted others away, the arrays begin anew behind each gap.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, overload

from config.ports import Buffer, Files
from protocol.records.verdict import NO_BOUND_MS
from storage.append import PreparedAppend
from storage.background_tasks import BackgroundTasks
from storage.errors import LogStorageError
from storage.file_io import write_fully
from storage.file_names import LOG_SUFFIX
from storage.group_write import Cut
from storage.log_config import LogConfig
from storage.retention import remove_files
from storage.segment import Segment

_REMEMBERED_BATCHES: Final = 128
"""The number of the last batches whose places are known, at least, without a look at the file."""

_BASE_OFFSET: Final = attrgetter("base_offset")


class LogSegments(Sequence[Segment]):
    """The segments by base offset; there is at least one. They are changed by the log to which they belong,
    and by the parts of it that append."""

    __slots__ = (
        "_files_to_remove",
        "_must_sync_undo",
        "_partition",
        "_row",
        "active",
        "active_write",
        "background_tasks",
        "config",
        "directory",
        "files",
        "has_failed_write",
        "log_end_offset",
        "name_changes",
        "recent_offsets",
        "recent_positions",
        "roll_time_ms",
        "roll_timestamp",
        "syncs_under_way",
        "truncations",
        "unfinished_cut",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        partition: int,
        config: LogConfig,
        background_tasks: BackgroundTasks,
        segments: list[Segment],
        log_end_offset: int,
    ) -> None:
        self.files = files
        self.directory = directory
        """The directory of the partition, in which the segments lie."""
        self.background_tasks = background_tasks
        self.config = config
        self.log_end_offset = log_end_offset
        """The offset that the next record gets."""
        self.truncations = 0
        """How often the log was truncated. A sync that began before a truncation says nothing about what was
        appended after it."""
        self.unfinished_cut: Callable[[], None] | None = None
        """Does in the files what a truncation has done in memory, if the disk has refused it, see
        `truncation`."""
        self.name_changes = 0
        """How often names in the directory have changed."""
        self.syncs_under_way = 0
        """The number of syncs that were planned and have not ended. What is written now may reach the disk
        with them."""
        self.roll_timestamp = NO_BOUND_MS
        """A batch with a later timestamp belongs to the next segment."""
        self.roll_time_ms = NO_BOUND_MS
        """A batch that comes later by the wall clock belongs to the next segment. It is the bound of a
        segment whose first batch has no timestamp, see `note_time`."""
        self.has_failed_write = False
        """Whether bytes of a failed write may lie behind the log's end, or in a file that was created for
        it."""
        self.recent_offsets = array("q")
        """The base offsets of the last batches of the active segment, as far as this process has appended
        them. No offset is missing between them, so each ends where the next one begins."""
        self.recent_positions = array("q")
        """The positions of those batches in the active segment."""
        self.active_write: Callable[[Sequence[Buffer], int], int] = self._open_and_write
        """Writes buffers at a position of the active segment's file, and returns how many bytes it wrote."""
        self._partition = partition
        self._row = segments
        self._files_to_remove: list[str] = []
        """Files of segments that were begun and not added, and that could not be removed yet."""
        self._must_sync_undo = False
        """Whether whole batches that were refused may be on the disk already."""
        self.active = segments[-1]
        self._begin_to_append()

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        self.active.index_room = 0
        self._set_age_bounds()

    # The row

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._row)

    @overload
    def __getitem__(self, number: int) -> Segment: ...

    @overload
    def __getitem__(self, number: slice) -> list[Segment]: ...

    def __getitem__(self, number: int | slice) -> Segment | list[Segment]:
        return self._row[number]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._row)

    def number_of(self, offset: int) -> int:
        """The number of the segment in whose range `offset` lies."""
        return max(bisect_right(self._row, offset, key=_BASE_OFFSET) - 1, 0)

    def roll_timestamp_after(self, first_timestamp: int) -> int:
        """The largest timestamp that a batch may have in the same segment behind one with
        `first_timestamp`."""
        return NO_BOUND_MS if first_timestamp < 0 else first_timestamp + self._longest_ms()

    def _longest_ms(self) -> int:
        """How old the active segment may become: `segment.ms`, less a jitter that is its own."""
        config = self.config
        longest_ms = config.segment_ms
        if config.compact:
            longest_ms = min(longest_ms, config.max_compaction_lag_ms)
        jitter_ms = config.segment_jitter_ms
        if jitter_ms:
            jitter_ms = (self.active.base_offset * 2654435761 + self._partition * 40503) % jitter_ms
        return longest_ms - min(jitter_ms, longest_ms)

    def _set_age_bounds(self) -> None:
        """Sets the bounds of the active segment's age, which counts from the timestamp of its first batch, or
        from its creation if that batch has none."""
        segment = self.active
        self.roll_timestamp = self.roll_time_ms = NO_BOUND_MS
        if not segment.size_bytes:
            return
        first_timestamp = segment.first_batch_timestamp()
        if first_timestamp >= 0:
            self.roll_timestamp = self.roll_timestamp_after(first_timestamp)
        else:
            self.roll_time_ms = segment.created_ms + self._longest_ms()

    def note_time(self, now_ms: int) -> None:
        """Takes in the wall clock's time before an append: the active segment may have become too old by
        it."""
        if now_ms > self.roll_time_ms:
            self.active.is_full = True

    # Writing

    def note_append(
        self,
        segment: Segment,
        position: int,
        size_bytes: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
    ) -> None:
        """Adds a batch to the log that was written to the active segment."""
        config = self.config
        if segment.appended(position, last_offset, max_timestamp, size_bytes, config.index_interval_bytes):
            segment.is_full = segment.has_full_index(config.segment_index_bytes)
        if position == 0:
            self._set_age_bounds()
        if base_offset != self.log_end_offset:
            self._forget_recent()
        recent = self.recent_offsets
        recent.append(base_offset)
        self.recent_positions.append(position)
        if len(recent) >= 2 * _REMEMBERED_BATCHES:
            del recent[:_REMEMBERED_BATCHES]
            del self.recent_positions[:_REMEMBERED_BATCHES]
        self.log_end_offset = last_offset + 1

    def note_appends(
        self, base_offsets: Sequence[int], positions: Sequence[int], log_end_offset: int, is_indexed: bool
    ) -> None:
        """Does as `note_append` for consecutive batches in the active segment, which was not empty before and
        has taken them in. is_indexed: it has got an index entry."""
        if is_indexed:
            self.active.is_full = self.active.has_full_index(self.config.segment_index_bytes)
        recent = self.recent_offsets
        recent.extend(base_offsets)
        self.recent_positions.extend(positions)
        if len(recent) >= 2 * _REMEMBERED_BATCHES:
            del recent[:_REMEMBERED_BATCHES]
            del self.recent_positions[:_REMEMBERED_BATCHES]
        self.log_end_offset = log_end_offset

    def write(self, segment: Segment, group: Sequence[PreparedAppend]) -> None:
        """Writes batches one after the other to the place of the first one. Raises OSError."""
        if not group:
            return
        if self.has_failed_write:
            self.undo_failed_write()
        buffers = [each.records for each in group]
        size_bytes = sum(each.size_bytes for each in group)
        write_fully(segment.log.file(), buffers, size_bytes, group[0].position, segment.log.path)

    def write_failed(self, error: OSError, *, whole: bool = False) -> LogStorageError:
        """Cuts off what a failed write has left, see `cut_off_failed_write`. Returns the error to raise."""
        self.cut_off_failed_write(whole=whole)
        return self.why_not_written(error)

    def why_not_written(self, error: OSError) -> LogStorageError:
        """The error for an append when the disk has refused a write."""
        return LogStorageError(
            f"{self.active.log.path} cannot be written: {error}. Nothing of it was kept; free space or "
            "replace the disk, then clients go on by themselves"
        )

    def cut_off_failed_write(self, *, whole: bool = False, was_long: bool = False) -> None:
        """Truncates the active file to the log's end, now or before the next write.

        whole: there may be whole batches behind the end, not only a torn one that no start would take for a
        batch. was_long: they may have been in the file for some time.
        """
        self._must_sync_undo |= whole and (was_long or self.syncs_under_way > 0)
        try:
            self._undo(synced=False).run()
        except OSError:
            self.has_failed_write = True  # tried again before the next write, which fails if this does
            self._must_sync_undo |= whole
        else:
            self._files_to_remove.clear()
            self.has_failed_write = self._must_sync_undo

    def note_failed_write(self) -> None:
        """Notes that a helper thread's write has failed, whose bytes are to be cut off before the next
        write."""
        self.has_failed_write = self._must_sync_undo = True

    def note_failed_roll(self) -> None:
        """Notes that a new segment could not be added. The previous one takes appends again, and the new file
        is removed."""
        self.active.is_sealed = False
        self.note_failed_write()

    def undo_failed_write(self) -> None:
        """Removes what a failed write has left. Raises OSError; nothing may be written to the log before this
        has succeeded."""
        self.undo_of_failed_write().run()
        self.note_write_undone()

    def undo_of_failed_write(self) -> Cut:
        """Makes a call for a helper thread that does what `undo_failed_write` does. `note_write_undone`
        follows. Raises OSError."""
        return self._undo(synced=self._must_sync_undo)

    def _undo(self, *, synced: bool) -> Cut:
        active, directory = self.active, self.directory if synced else None
        return Cut(self.files, active.log.file(), active.size_bytes, tuple(self._files_to_remove), directory)

    def note_write_undone(self) -> None:
        """Notes that nothing of a failed write is on the disk any more."""
        self._files_to_remove.clear()
        self.has_failed_write = self._must_sync_undo = False

    # The active segment

    def _activate(self, segment: Segment) -> None:
        """Makes this segment, which is the last one, the active one. Raises OSError."""
        self.active.log.owner = None
        self.active = segment
        self._begin_to_append()

    def _begin_to_append(self) -> None:
        segment = self.active
        segment.is_sealed = False
        if segment.log.path in self._files_to_remove:
            self._files_to_remove.remove(segment.log.path)  # its place has been taken
        segment.log.owner = self
        self.active_write = self._open_and_write
        self._forget_recent()
        self._set_age_bounds()

    def _forget_recent(self) -> None:
        """Forgets the places of the last batches. They are found by the index then."""
        del self.recent_offsets[:]
        del self.recent_positions[:]

    def _open_and_write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Does the first write after the file was opened, or was closed because too many files were open."""
        self.active_write = self.active.log.file().write
        return self.active_write(buffers, position)

    def file_closed(self) -> None:
        """Implements `storage.slices.FileOwner`."""
        self.active_write = self._open_and_write

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """A segment that is not in the log yet, and has no file."""
        self.name_changes += 1
        return Segment(self.files, self.directory, base_offset, fresh=True, created_ms=now_ms)

    def seal_active(self) -> None:
        """Writes all entries of the active segment's indexes. Raises OSError."""
        if not self.active.is_sealed:
            self.active.seal()

    def add(self, segment: Segment) -> None:
        """Adds a begun segment behind the active one, which is sealed. Raises OSError."""
        self._row.append(segment)
        self._activate(segment)

    def discard(self, segment: Segment) -> None:
        """Removes the file of a begun segment that is not in the log, now or before the next write."""
        segment.close()
        path = segment.path(LOG_SUFFIX)
        self.name_changes += 1  # one that has gone is to be gone after a power cut too
        try:
            self.files.unlink(path)
        except FileNotFoundError:
            return
        except OSError:
            self._files_to_remove.append(path)
            self._must_sync_undo = True
        self._must_sync_undo |= self.syncs_under_way > 0
        self.has_failed_write |= self._must_sync_undo

    def sync_began(self) -> None:
        """Notes that a sync was planned. `sync_ended` follows."""
        self.syncs_under_way += 1

    def sync_ended(self) -> None:
        """Notes that a sync has ended, with success or without."""
        self.syncs_under_way -= 1

    def note_name_change(self) -> None:
        """Notes that files were created or renamed, so that the next sync includes the directory."""
        self.name_changes += 1

    # Removing and replacing

    def remove_first(self, count: int) -> list[Segment]:
        """Removes the first segments from the log. The caller removes their files."""
        gone = self._row[:count]
        del self._row[:count]
        return gone

    def replace(self, first: int, count: int, segment: Segment) -> None:
        """Puts a compacted segment, whose files have their names already, in the place of `count` sealed
        ones."""
        self._row[first : first + count] = [segment]
        self.name_changes += 1

    def replace_all(self, directory: str, segments: list[Segment]) -> None:
        """Goes on with copies of all segments in another directory. Raises OSError."""
        self.directory = directory
        self._row[:] = segments
        self._note_truncation()  # syncs under way are of the old files: they prove nothing about these
        self._activate(segments[-1])

    # Truncating: first in memory, where nothing can fail, then in the files

    def find_end(self, offset: int) -> tuple[int, int, int]:
        """Where the log ends if everything from `offset` on is removed, beginning with the batch that
        contains it: the number of the last segment, its size, and the end offset. `offset` lies in the log.

        Raises OSError.
        """
        number = self.number_of(offset)
        segment = self._row[number]
        found = segment.locate(offset)
        segment.first_batch_timestamp()  # is known then, and need not be read when the log is cut already
        if found is None:
            return number, segment.size_bytes, offset
        return number, found.position, min(offset, found.base_offset)

    def end_at(self, number: int, size_bytes: int, end_offset: int) -> list[Segment]:
        """Ends the log at a place that `find_end` has returned, in memory only. Returns the segments that are
        not in it any more, with which `cut_files` follows."""
        leaving = self._row[number + 1 :]
        del self._row[number + 1 :]
        self._row[-1].size_bytes = size_bytes
        self._activate(self._row[-1])
        self.log_end_offset = end_offset
        return leaving

    def cut_files(self, leaving: Sequence[Segment]) -> None:
        """Removes what lies behind the log's end from the files. Raises OSError; then it is to be done
        again."""
        self._note_truncation()
        self.remove_files(leaving[::-1], 0)  # from the end: a crash in between leaves no gap
        self.active.cut(self.log_end_offset)

    def begin_anew(self, offset: int, now_ms: int) -> list[Segment]:
        """Goes on with one empty segment at `offset`, in memory only. Returns the segments until now, with
        which `replace_files` follows."""
        gone = self._row[:]
        segment = Segment(self.files, self.directory, offset, fresh=True, created_ms=now_ms)
        self._row[:] = [segment]
        self._activate(segment)
        self.log_end_offset = offset
        return gone

    def replace_files(self, gone: Sequence[Segment]) -> None:
        """Removes the files of all segments that were there, then creates that of the only one. Raises
        OSError; then, and only then, it is to be done again."""
        self._note_truncation()
        self.remove_files(gone[::-1], 0)
        self.active.create()

    def _note_truncation(self) -> None:
        self.truncations += 1
        self.name_changes += 1

    def remove_files(self, segments: Sequence[Segment], due_ms: int) -> None:
        """Renames the files of removed segments, and notes their removal at `due_ms`. Raises OSError, see
        `retention.remove_files`."""
        remove_files(self.files, self.directory, self.background_tasks, segments, due_ms)
