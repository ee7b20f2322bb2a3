"""The segments of one log in a row, and how bytes get into the last one.

Only the last segment, the active one, is written to. Bytes are placed by position, so the end of the log
is what `size_bytes` of the active segment says, not the end of its file: bytes that a failed write left
behind are cut off before the next write, and until that succeeds they are nobody's.

The same holds for files of segments that were begun for a write that failed. One that stayed would hide
after a restart whatever came into its range meanwhile; as long as it cannot be removed nothing is appended.

The places of the last batches are kept in two small arrays (base offsets and positions in the active
segment): who reads near the end of the log needs no index.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from config.ports import Buffer, Files
from protocol.records.verdict import NO_BOUND_MS
from storage.append import PreparedAppend
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.errors import LogStorageError
from storage.file_names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.file_sync import sync_files
from storage.group_write import Cut
from storage.log_config import LogConfig
from storage.log_disk import LogDisk
from storage.segment import Segment
from storage.whole_write import write_whole

_REMEMBERED_BATCHES: Final = 128
"""At least so many of the last batches' places are known without a look at the file."""

_BASE_OFFSET: Final = attrgetter("base_offset")


class Sync(NamedTuple):
    """`call` is for a helper thread, one of the others follows on the loop."""

    call: Callable[[], None]
    done: Callable[[], None]
    failed: Callable[[], None]


class LogSegments:
    """What `PartitionLog` stands on; not used by itself."""

    __slots__ = (
        "_active_write",
        "_durable_names",
        "_has_new_directory",
        "_interval_bytes",
        "_left_files",
        "_must_sync_cut",
        "_names",
        "_recent_offsets",
        "_recent_positions",
        "_segment_bytes",
        "_syncs_on_their_way",
        "_truncations",
        "active",
        "background_tasks",
        "config",
        "directory",
        "disk",
        "files",
        "has_stale_bytes",
        "log_end_offset",
        "partition",
        "recovery_point",
        "roll_timestamp",
        "segments",
        "topic",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        background_tasks: BackgroundTasks,
        segments: list[Segment],
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.background_tasks = background_tasks
        self.segments = segments
        """By base offset, at least one; the last is `active`."""
        self.log_end_offset = log_end_offset
        """The offset that the next record gets."""
        self.recovery_point = recovery_point
        """Below it everything is on the disk."""
        self._truncations = 0
        """How often something was cut off: a sync that began before proves nothing about what came after."""
        self.roll_timestamp = NO_BOUND_MS
        """A batch with a later timestamp belongs to the next segment."""
        self.has_stale_bytes = False
        """Bytes of a failed write may lie behind the log's end, or in `_left_files`."""
        self._left_files: list[str] = []
        """Begun, not in the row, and not to be removed when that was tried."""
        self._must_sync_cut = False
        """Whole batches that were refused may be durable already."""
        self._syncs_on_their_way = 0
        self.disk = LogDisk(directory)
        """That of the log directory, if somebody has told (`watch_disk`)."""
        self._names = 1
        """How often names in the directory have changed."""
        self._durable_names = 0
        """So many of the changes are on the disk for certain."""
        self._has_new_directory = False
        self._recent_offsets = array("q")
        self._recent_positions = array("q")
        self._active_write: Callable[[Sequence[Buffer], int], int]
        self.active: Segment
        self.set_config(config)
        self.activate(segments[-1])

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._interval_bytes = config.index_interval_bytes

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def segment_index_of(self, offset: int) -> int:
        """The number of the segment in whose range `offset` lies."""
        return max(bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1, 0)

    def roll_timestamp_after(self, first_timestamp: int) -> int:
        """Up to which timestamp batches may follow one with `first_timestamp` in the same segment."""
        if first_timestamp < 0:
            return NO_BOUND_MS
        config = self.config
        longest_ms = config.segment_ms
        if config.compact:
            longest_ms = min(longest_ms, config.max_compaction_lag_ms)
        jitter_ms = config.segment_jitter_ms
        if jitter_ms:
            jitter_ms = (self.active.base_offset * 2654435761 + self.partition * 40503) % jitter_ms
        return first_timestamp + longest_ms - min(jitter_ms, longest_ms)

    # Writing

    def settle(
        self,
        segment: Segment,
        position: int,
        size_bytes: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
    ) -> None:
        """A batch that was written to the active segment belongs to the log from now on."""
        if position == 0:
            self.roll_timestamp = self.roll_timestamp_after(max_timestamp)
        if segment.appended(position, last_offset, max_timestamp, size_bytes, self._interval_bytes):
            segment.is_full = segment.has_full_index(self.config.segment_index_bytes)
        recent = self._recent_offsets
        recent.append(base_offset)
        self._recent_positions.append(position)
        if len(recent) >= 2 * _REMEMBERED_BATCHES:
            del recent[:_REMEMBERED_BATCHES]
            del self._recent_positions[:_REMEMBERED_BATCHES]
        self.log_end_offset = last_offset + 1

    def write_group(self, segment: Segment, group: Sequence[PreparedAppend]) -> None:
        """Writes batches one after the other to where the first one belongs. Raises OSError."""
        if not group:
            return
        if self.has_stale_bytes:
            self.cut_stale_bytes()
        buffers = [each.records for each in group]
        size_bytes = sum(each.size_bytes for each in group)
        write_whole(segment.log.file(), buffers, size_bytes, group[0].position, segment.log.path)

    def write_failed(self, error: OSError, *, whole: bool = False) -> LogStorageError:
        """Cuts off what a failed write left, see `cut_off_unfinished`; the error to raise."""
        self.cut_off_unfinished(whole=whole)
        return self.why_not_written(error)

    def why_not_written(self, error: OSError) -> LogStorageError:
        return LogStorageError(
            f"{self.active.log.path} cannot be written: {error}. Nothing of it was kept; free space or "
            "replace the disk, then clients go on by themselves"
        )

    def cut_off_unfinished(self, *, whole: bool = False, was_long: bool = False) -> None:
        """Makes the active file end where the log does, now or before the next write.

        whole: there may be whole batches among it, not only a torn one that no start would take for one.
        was_long: it may have been in the file for some time.
        """
        self._must_sync_cut |= whole and (was_long or self._syncs_on_their_way > 0)
        try:
            self._stale_bytes(synced=False).run()
        except OSError:
            self.has_stale_bytes = True  # tried again before the next write, which fails if this does
            self._must_sync_cut |= whole
        else:
            self._left_files.clear()
            self.has_stale_bytes = self._must_sync_cut

    def note_refused_elsewhere(self) -> None:
        """What a helper thread wrote was refused, and is to be cut off before the next write."""
        self.has_stale_bytes = self._must_sync_cut = True

    def cut_stale_bytes(self) -> None:
        """Raises OSError: nothing may be written to the log before this has succeeded."""
        self.stale_bytes().run()
        self.note_nothing_stale()

    def stale_bytes(self) -> Cut:
        """What is to be removed, for who does it; `note_nothing_stale` follows. Raises OSError."""
        return self._stale_bytes(synced=self._must_sync_cut)

    def _stale_bytes(self, *, synced: bool) -> Cut:
        active, directory = self.active, self.directory if synced else None
        return Cut(self.files, active.log.file(), active.size_bytes, tuple(self._left_files), directory)

    def note_nothing_stale(self) -> None:
        self._left_files.clear()
        self.has_stale_bytes = self._must_sync_cut = False

    # Segments

    def activate(self, segment: Segment) -> None:
        """The last segment, as it is now, takes the appends. Raises OSError."""
        previous: Segment | None = getattr(self, "active", None)
        if previous is not None:
            previous.log.owner = None
        self.active = segment
        segment.is_sealed = False
        if segment.log.path in self._left_files:
            self._left_files.remove(segment.log.path)  # its place has been taken
        segment.log.owner = self
        self._active_write = self._open_and_write
        del self._recent_offsets[:]
        del self._recent_positions[:]
        self.roll_timestamp = NO_BOUND_MS
        if segment.size_bytes:
            self.roll_timestamp = self.roll_timestamp_after(segment.first_batch_timestamp())

    def _open_and_write(self, buffers: Sequence[Buffer], position: int) -> int:
        """The first write after the file was opened, or let go."""
        self._active_write = self.active.log.file().write
        return self._active_write(buffers, position)

    @property
    def is_waited_for(self) -> bool:
        """Helper threads are at work for the log."""
        return False

    @property
    def may_let_go(self) -> bool:
        """See `storage.slices.FileOwner`, of the active segment's file."""
        return not self.is_waited_for

    def let_go(self) -> None:
        """See `storage.slices.FileOwner`."""
        self._active_write = self._open_and_write

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """One that is not in the row yet, and has no file."""
        self._names += 1
        return Segment(self.files, self.directory, base_offset, fresh=True, created_ms=now_ms)

    def join_segment(self, segment: Segment) -> None:
        """Seals the active segment and puts a begun one behind it. Raises OSError: the row is as it was."""
        segment.log.file()
        if not self.active.is_sealed:
            self.active.seal()
        self.note_sync(self.log_end_offset)
        self.segments.append(segment)
        self.activate(segment)

    def discard_segment(self, segment: Segment) -> None:
        """Removes a begun segment's file, now or before the next write."""
        segment.close()
        path = segment.path(LOG_SUFFIX)
        self._names += 1  # one that has gone is to be gone after a power cut too
        try:
            self.files.unlink(path)
        except FileNotFoundError:
            return
        except OSError:
            self._left_files.append(path)
            self._must_sync_cut = True
        self._must_sync_cut |= self._syncs_on_their_way > 0
        self.has_stale_bytes |= self._must_sync_cut

    def note_cut(self) -> None:
        """Something is cut off: syncs under way prove nothing any more, and there are new files."""
        self._truncations += 1
        self._names += 1

    def note_new_directory(self) -> None:
        """The log's own directory was made: the first sync is one of its parent too."""
        self._has_new_directory = True

    def note_new_names(self) -> None:
        """Files were made or renamed: the next sync is one of the directory too."""
        self._names += 1

    @property
    def truncations(self) -> int:
        """How often something was cut off the log."""
        return self._truncations

    def note_sync(self, up_to_offset: int) -> None:
        """Notes the background task after which everything below `up_to_offset` is on the disk."""
        sync = self.plan_sync(up_to_offset)
        self.background_tasks.add(
            TaskKind.SYNC, self.directory, self.directory, sync.call, sync.done, sync.failed
        )

    def plan_sync(self, up_to_offset: int) -> Sync:
        """What is to be done for that, by whoever does it.

        The active segment's indexes are left out: whoever recovers it makes them anew.
        """
        first = self.segment_index_of(self.recovery_point)
        paths: list[str] = []
        for segment in self.segments[first:]:
            if segment.base_offset <= up_to_offset:
                paths.append(segment.path(LOG_SUFFIX))
                if segment.is_sealed:
                    paths += [segment.path(OFFSET_INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX)]
                    if segment.transaction_index.has_file:
                        paths.append(segment.transaction_index.path)
        names = self._names
        directories = [self.directory] if names > self._durable_names else []
        if self._has_new_directory:
            directories.append(self.directory.rpartition("/")[0])
        truncations = self._truncations
        self._syncs_on_their_way += 1

        def synced() -> None:
            self._syncs_on_their_way -= 1
            self._durable_names = max(self._durable_names, names)
            self._has_new_directory = False
            if self._truncations == truncations:
                self.recovery_point = max(self.recovery_point, up_to_offset)

        def failed() -> None:
            self._syncs_on_their_way -= 1

        return Sync(partial(sync_files, self.files, directories, paths), synced, failed)
