"""Logs on their way from one log directory to another, while they serve. KIP-113.

    wanted ──► copying: worker processes append to the copy what it lacks, part by part, until little is left
                  │                                        ▲
                  │ little is left                         │ more than that again
                  ▼                                        │
               swap, in one turn of the loop: the last bytes are copied, the copy gets the log's name and the
               log its files
                  │
                  ├── all of the log is on the disk there: the old directory becomes `-delete`
                  │
    stopped ◄─────┴── taken back, the log deleted or cut, a disk that fails: the copy is removed; a log that
                      was cut begins its move anew

What the log is in memory stays as it is: only its files are others afterwards. So nobody who holds it
notices; a reader's slice goes on with the old file, which lives until it is closed.

While a log moves it is not compacted (the copy would be of both states); retention goes on, and what it has
removed is left out of the copy. The old directory keeps its name until a sync has brought the new one to the
disk, so that a power cut leaves one of them whole. After a crash before that both are there, and the start
sets the shorter one aside (`log_loading`); a copy that was not swapped in begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from config.ports import Clock, Files, RandomSource
from storage.background_tasks import BackgroundTasks, TaskKind
from storage.cleaner.cleaner import Cleaner
from storage.directories import LogDirectory
from storage.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    DirectoryKind,
    leaving_directory,
    offset_of,
    partition_directory,
    segment_file,
)
from storage.hosted_logs import HostedLogs, Key
from storage.index_file import FileTail
from storage.jobs import JobFailed, Workers
from storage.partition_log import PartitionLog
from storage.replica_directory_move_job import MOVE, MovePlan, MoveResult, SegmentLength
from storage.segment import Segment

PART_BYTES: Final = 64 * 1024 * 1024
"""The number of bytes that a worker copies for one plan. The lag is updated after each."""

LAST_BYTES: Final = 1 << 20
"""The number of bytes that may be copied on the loop, in the turn in which the copy takes the log's place."""

MOVES_AT_ONCE: Final = 2
_NO_LIMIT: Final = (1 << 63) - 1

_logger: Final = logging.getLogger("barnabas.storage")


class Move(msgspec.Struct):
    """A log that is being copied to another directory."""

    log: PartitionLog
    target: LogDirectory
    path: str
    """The directory of the copy."""
    truncations: int
    copied: dict[int, int] = msgspec.field(default_factory=dict)
    """The number of bytes of each segment that are in the copy."""
    synced_offset: int = 0
    """Below this offset the copy is complete and synced."""
    active_offset: int = -1
    """The base offset of the segment that was active when the last complete part was planned."""
    is_ordered: bool = False
    is_stopped: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(self.copied.values())

    @property
    def missing_bytes(self) -> int:
        return sum(
            segment.size_bytes - self.copied.get(segment.base_offset, 0) for segment in self.log.segments
        )

    @property
    def end_offset(self) -> int:
        """The offset at which the copy ends, as far as the indexes tell."""
        for segment in self.log.segments:
            copied = self.copied.get(segment.base_offset, 0)
            if copied < segment.size_bytes:
                found = segment.locate_position(copied) if copied else None
                return found if found is not None else segment.base_offset
        return self.log.log_end_offset


class LeftDirectory(msgspec.Struct, frozen=True):
    """The directory in which a log lay, until the one in which it lies now is on the disk."""

    key: Key
    log: PartitionLog
    home: LogDirectory
    path: str
    end_offset: int
    """The log end offset of the time of the move."""


class ReplicaDirectoryMoves:
    """The moves of one node. All calls come from the loop."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        random_source: RandomSource,
        hosted: HostedLogs,
        background_tasks: BackgroundTasks,
        cleaner: Cleaner,
        workers: Workers,
    ) -> None:
        self._files = files
        self._clock = clock
        self._random_source = random_source
        self._hosted = hosted
        self._background_tasks = background_tasks
        self._cleaner = cleaner
        self._workers = workers
        self._moves: dict[Key, Move] = {}
        self._ordered = 0
        """The number of parts that workers copy, for moves that were stopped meanwhile too."""
        self._left: dict[str, LeftDirectory] = {}
        """The directories that logs have left and that still have their names, by path."""
        self.bytes_per_second = _NO_LIMIT
        """`replica.alter.log.dirs.io.max.bytes.per.second`."""
        self.suspect: Callable[[str, BaseException | None], None] | None = None
        """Called with the path of a file on which a call has failed."""
        self.on_moved: Callable[[Key], None] | None = None
        """Called with a log that has moved."""

    def get(self, key: Key) -> Move | None:
        return self._moves.get(key)

    def begin(self, key: Key, target: LogDirectory) -> None:
        """Begins to move a log to a directory. An earlier move to another directory is dropped. To name the
        present directory stops a move."""
        current = self._moves.get(key)
        if current is not None:
            if current.target is target:
                return
            self.stop(key, f"it shall lie in {target.path}")
        if self._hosted.homes[key] is target:
            return
        log = self._hosted.logs[key]
        unique = self._random_source.random_bytes(16)
        path = target.file(leaving_directory(*key, unique, DirectoryKind.FUTURE))
        self._moves[key] = Move(log, target, path, log.truncations)
        self._cleaner.hold(key)
        _logger.info("%s begins to move from %s to %s", log.name, self._hosted.homes[key].path, target.path)
        self.run()

    def stop(self, key: Key, reason: str) -> None:
        """Stops the move, and removes the copy."""
        move = self._moves.pop(key, None)
        if move is None:
            return
        self._cleaner.release(key)
        move.is_stopped = True
        _logger.info("%s does not move to %s any more: %s", move.log.name, move.target.path, reason)
        if not move.is_ordered:
            self._remove_copy(move)

    def log_goes(self, key: Key, kind: DirectoryKind) -> None:
        """Stops the move of a log that is about to leave the node. A directory that it has left becomes one
        of this kind, so that it is not taken for another log of that name."""
        self.stop(key, "its log goes")
        for left in list(self._left.values()):
            if left.key == key:
                self._retire(left, kind)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Stops all moves into a directory that has failed. What logs have left in it stays as it is."""
        self._left = {path: left for path, left in self._left.items() if left.home is not directory}
        for key, move in list(self._moves.items()):
            if move.target is directory:
                self.stop(key, f"{directory.path} has failed")

    def run(self) -> None:
        """Goes on with all moves. It is called about every second, and when a part has been copied."""
        self.retire_left()
        for key, move in list(self._moves.items()):
            if move.is_ordered:
                continue
            if self._hosted.logs.get(key) is not move.log:
                self.stop(key, "the log has gone")
            elif move.log.truncations != move.truncations:
                target = move.target
                self.stop(key, "the log was cut; the move begins anew")
                self.begin(key, target)
            elif self._cleaner.is_cleaning(key):
                continue
            elif self._may_swap(key, move):
                self._swap(key, move)
            elif self._ordered < MOVES_AT_ONCE:
                self._order(key, move)

    # Copying

    def _order(self, key: Key, move: Move) -> None:
        segments = [
            SegmentLength(segment.base_offset, segment.size_bytes, segment.is_sealed)
            for segment in move.log.segments
        ]
        plan = MovePlan(
            source=move.log.directory, target=move.path, segments=segments, most_bytes=self._part_bytes()
        )
        move.is_ordered = True
        self._ordered += 1
        rate = 0 if self.bytes_per_second >= _NO_LIMIT else max(self.bytes_per_second, 1)
        done = partial(self._copied, key, move, move.log.log_end_offset, segments[-1].base_offset)
        self._workers.submit(MOVE, plan, done, bytes_per_second=rate)

    def _part_bytes(self) -> int:
        """The size of the next part. It is smaller if little may be copied in a second, so that a change of
        the rate acts soon and the lag is up to date."""
        return max(min(PART_BYTES, 5 * self.bytes_per_second), 64 * 1024)

    def _copied(
        self, key: Key, move: Move, end_offset: int, active_offset: int, result: MoveResult | JobFailed
    ) -> None:
        move.is_ordered = False
        self._ordered -= 1
        if move.is_stopped:
            self._remove_copy(move)
            return
        if move.log.truncations != move.truncations:
            self.run()
            return
        if isinstance(result, JobFailed):
            _logger.error("%s cannot be copied to %s: %s", move.log.name, move.target.path, result)
            self.stop(key, str(result))
            return
        move.copied = result.copied
        if result.is_complete:
            move.synced_offset, move.active_offset = end_offset, active_offset
        self.run()

    # The swap

    def _may_swap(self, key: Key, move: Move) -> bool:
        log = move.log
        return (
            move.target.file(partition_directory(*key)) not in self._left
            and move.active_offset == log.active.base_offset
            and log.segments.unfinished_cut is None
            and not log.is_waited_for
            and not log.appends.queue.prepared
            and all(move.copied.get(each.base_offset) == each.size_bytes for each in log.segments[:-1])
            and move.missing_bytes <= LAST_BYTES
        )

    def _swap(self, key: Key, move: Move) -> None:
        log, home = move.log, self._hosted.homes[key]
        old_directory = log.directory
        new_directory = move.target.file(partition_directory(*key))
        try:
            self._copy_last(move)
            self._files.rename(move.path, new_directory)
        except OSError as error:
            _logger.error("%s cannot take its place in %s: %s", log.name, move.target.path, error)
            self._told(move.target.path, error)
            self.stop(key, str(error))
            return
        del self._moves[key]
        self._cleaner.release(key)
        self._background_tasks.drop(old_directory, TaskKind.WRITE, TaskKind.SYNC)
        try:
            copies = [_copied_segment(log, segment, new_directory) for segment in log.segments]
            log.use_copies(new_directory, copies, move.synced_offset)
            self._hosted.move_home(key, move.target)
            log.durability.forget_truncation_marker()
            log.durability.mark_if_checkpointed(  # it may have lain there once
                log.recovery_point, log.log_start_offset
            )
        except OSError as error:
            self._told(move.target.path, error)
            self._hosted.leave_to_next_start(key, f"{new_directory} cannot take the log's place: {error}")
            return
        self._match_names(log)
        log.durability.write_snapshot()
        log.durability.note_new_directory()
        log.flush()
        log.durability.write_leader_epochs()
        _logger.info("%s lies in %s now", log.name, new_directory)
        self._left[old_directory] = LeftDirectory(key, log, home, old_directory, log.log_end_offset)
        if self.on_moved is not None:
            self.on_moved(key)

    def _copy_last(self, move: Move) -> None:
        """Copies the last bytes of the active segment, and its indexes, of which a part waits in memory. A
        target that has no space for them refuses them here, while nothing has changed. Raises OSError."""
        segment = move.log.active
        stem = f"{move.path}/{segment_file(segment.base_offset, '')}"
        done = move.copied.get(segment.base_offset, 0)
        data = segment.read(done, segment.size_bytes - done)
        FileTail(f"{stem}{LOG_SUFFIX}", done, data).write(self._files)
        segment.require_indexes()
        offsets, times = segment.offset_index.file, segment.time_index.file
        for suffix, index in ((OFFSET_INDEX_SUFFIX, offsets), (TIME_INDEX_SUFFIX, times)):
            FileTail(f"{stem}{suffix}", 0, index.entries(0, index.count)).write(self._files)
            index.close()

    def _match_names(self, log: PartitionLog) -> None:
        """Removes from the copy what retention has removed from the log meanwhile, and forgets the producer
        snapshots that were still to be written when the log was moved."""
        names = self._files.listdir(log.directory)
        snapshots = [offset_of(name, SNAPSHOT_SUFFIX) for name in names]
        log.durability.keep_snapshots([offset for offset in snapshots if offset is not None])
        there = {segment.base_offset: None for segment in log.segments}
        for name in names:
            for suffix in SEGMENT_SUFFIXES:
                offset = offset_of(name, suffix)
                if offset is not None and offset not in there:
                    path = f"{log.directory}/{name}"
                    self._background_tasks.add(
                        TaskKind.REMOVE, path, log.directory, partial(self._files.unlink, path)
                    )

    # The old directory

    def retire_left(self) -> None:
        """Deletes the directories that logs have left, when all is on the disk that the logs had then. The
        one of a log that has gone offline since is left to the operator: it lacks what came after the
        move."""
        for left in list(self._left.values()):
            if self._hosted.logs.get(left.key) is not left.log:
                self._retire(left, DirectoryKind.STRAY)
            elif left.log.durability.is_on_disk(left.end_offset):
                self._retire(left, DirectoryKind.DELETED)

    def _retire(self, left: LeftDirectory, kind: DirectoryKind) -> None:
        del self._left[left.path]
        leaving = left.home.file(leaving_directory(*left.key, self._random_source.random_bytes(16), kind))
        try:
            self._files.rename(left.path, leaving)
        except OSError as error:
            _logger.error("%s has moved, its old directory could not be renamed: %s", left.path, error)
            self._told(left.path, error)
            return
        if kind is DirectoryKind.DELETED:
            due_ms = self._clock.wall_ms() + left.log.config.file_delete_delay_ms
            call = partial(self._files.rmtree, leaving)
            self._background_tasks.add(TaskKind.REMOVE, leaving, left.path, call, due_ms=due_ms)

    def _remove_copy(self, move: Move) -> None:
        self._background_tasks.add(
            TaskKind.REMOVE, move.path, move.path, partial(self._files.rmtree, move.path)
        )

    def _told(self, path: str, error: BaseException) -> None:
        if self.suspect is not None:
            self.suspect(path, error)


def _copied_segment(log: PartitionLog, old: Segment, directory: str) -> Segment:
    """A segment of the log with its copy in `directory`, in which its files are. Aborted transactions of the
    active segment wait in memory, there as here. Raises OSError."""
    is_active = old is log.active
    segment = Segment(log.files, directory, old.base_offset, fresh=False, created_ms=old.created_ms)
    segment.size_bytes = old.size_bytes
    segment.max_timestamp, segment.max_timestamp_offset = old.max_timestamp, old.max_timestamp_offset
    segment.first_timestamp = old.first_timestamp
    segment.bytes_since_index_entry = old.bytes_since_index_entry
    segment.is_full, segment.is_sealed = old.is_full, old.is_sealed
    if is_active:
        segment.offset_index.file.note_copy_of(old.offset_index.file)
        segment.time_index.file.note_copy_of(old.time_index.file)
        for aborted in old.transaction_index.entries():
            segment.transaction_index.append(aborted)
    return segment
