"""What a look into a partition's directory finds, and what it puts right.

After a clean end every file is believed: the tail of the last segment is read, a few headers. After a
crash the segments that may not be on the disk in full (above the recovery point, and always the last one)
are read from end to end, every checksum is verified and the indexes are made again:

    │ batch │ batch │ batch │ bat…           the first thing that is no whole, intact, well-placed batch,
                            ▲                with nothing valid behind it, is the torn end of an append:
                                             the log is cut here

    │ batch │ ░░░░░ │ batch │ batch │        valid batches behind it were written, and perhaps acknowledged:
            ▲                                no death of a process does this, a power cut or a disk does

Which of the two it was, the recovery point tells (`OnDamage.AUTO`). From there on nothing was promised to be
on the disk, and a power cut leaves this picture on a sound one: pages reach it in any order, a full segment
may lose its end while the next one has batches. The log is cut here, as Apache Kafka does it, and the rest is
copied again from the leader. Below the recovery point everything had been synced, so the disk has changed it,
and what lies behind is not thrown away unasked: the log is refused, and the error says what to do.

If the end that a segment lost began exactly at a batch, the file tells nothing of it:

    │ batch │ batch │          │ batch │     the offsets up to the next segment are missing
                    ▲          ▲ base offset of the next segment

Below the recovery point, and up to where the log was compacted (`compaction_marker`), compaction has left
them out. Elsewhere they are lost, and the log is cut here like one that is torn: with a hole it would count
as complete, and a replica would never copy what it lacks. Apache Kafka's LogLoader compares no offsets
between segments and goes on with the hole.

A producer's state comes from the newest snapshot and the headers behind it. What another process has read
already (`recovery_job`) is believed: only the tail is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final

from config.ports import Files
from protocol.records.header import BatchHeader, is_intact
from storage.append import stored_marker_of
from storage.batch_scan import next_whole_batch
from storage.checkpoints import MalformedCheckpoint, read_leader_epochs
from storage.compaction_marker import read_compaction_marker
from storage.errors import CorruptSegment, DamagedLog, LegacyFormat
from storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offsets_by_suffix,
    segment_file,
)
from storage.leader_epochs import LeaderEpochs
from storage.leftovers import tidy
from storage.loaded_log import LoadedLog, RecoveredLog
from storage.loaded_producers import load_producers
from storage.producer_state import ProducerState
from storage.segment import MAX_RELATIVE_OFFSET, Segment
from storage.stored_batches import Note, nothing, refuse_legacy_format, stored_batches
from storage.time_index import NO_TIMESTAMP
from storage.transaction_index import AbortedTransaction

_MAX_OFFSET: Final = (1 << 63) - 1
_IS_CUT: Final = (
    "It is cut at that place (barnabas.recovery.corrupt); a replica copies what follows again from its leader"
)


class OnDamage(Enum):
    """What to do with damage that has valid batches behind it (`barnabas.recovery.corrupt`)."""

    AUTO = "auto"
    """Truncate where nothing is known to be synced, and refuse what had been."""
    REFUSE = "refuse"
    TRUNCATE = "truncate"


def load_log(
    files: Files,
    directory: str,
    *,
    is_clean: bool,
    recovery_point: int,
    log_start_offset: int,
    index_interval_bytes: int,
    now_ms: int,
    cleaned_offset: int = 0,
    on_damage: OnDamage = OnDamage.AUTO,
    recovered: RecoveredLog | None = None,
    note: Note = nothing,
) -> LoadedLog:
    """Reads a directory, and returns all that a `PartitionLog` begins with. An empty directory becomes an
    empty log.

    cleaned_offset: what `cleaner-offset-checkpoint` says of the log.
    recovered: what another process has found and put right a moment ago. note: called with the number of
    bytes that were read after a crash. Raises OSError, DamagedLog, LegacyFormat, and CorruptSegment if a log
    that was closed cleanly is damaged in the middle.
    """
    problems: list[str] = []
    names = tidy(files, directory)
    offsets = offsets_by_suffix(names)
    segments = _segments(files, directory, offsets, now_ms)
    if not segments:
        segments.append(_empty_segment(files, directory, log_start_offset, now_ms))
    if recovered is None:
        epochs = _leader_epochs(files, directory, names, segments, problems, is_clean=is_clean)
    else:
        is_clean, recovery_point = True, min(recovery_point, recovered.recovery_point)
        epochs = LeaderEpochs(recovered.leader_epochs, is_written=not recovered.epochs_changed)
    snapshots = offsets.get(SNAPSHOT_SUFFIX, [])
    scan = _Scan(files, directory, index_interval_bytes, epochs, problems, on_damage, cleaned_offset, note)
    scan.transaction_indexes = offsets.get(TRANSACTION_INDEX_SUFFIX, ())
    scan.producers_at = partial(load_producers, files, directory, segments, snapshots)
    log_end_offset = scan.run(segments, is_clean, recovery_point)
    if log_end_offset < log_start_offset:
        _begin_anew_at(files, directory, log_start_offset, now_ms, segments, snapshots, problems)
        log_end_offset = log_start_offset
        epochs.clear()
        scan.producers = ProducerState()
    log_start_offset = min(max(log_start_offset, segments[0].base_offset), log_end_offset)
    epochs.truncate_from_end(log_end_offset)
    if not is_clean and epochs.start_offset > log_start_offset:
        epochs = _epochs_of_batches(segments)  # the log start fell back behind what the checkpoint knows
    epochs.truncate_from_start(log_start_offset)
    while snapshots and snapshots[-1] > log_end_offset:
        files.unlink(f"{directory}/{segment_file(snapshots.pop(), SNAPSHOT_SUFFIX)}")
    if scan.unsynced_offset is not None:
        recovery_point = min(recovery_point, scan.unsynced_offset)
    producers = scan.producers
    if recovered is not None and not scan.scanned_segments:
        producers = ProducerState(recovered.producers)
    elif producers is None:
        producers = load_producers(files, directory, segments, snapshots, log_end_offset)
    return LoadedLog(
        segments,
        log_start_offset,
        log_end_offset,
        log_end_offset if is_clean and recovered is None else min(recovery_point, log_end_offset),
        producers,
        epochs,
        snapshots,
        scan.scanned_segments,
        scan.cut_bytes,
        tuple(problems),
    )


def _begin_anew_at(
    files: Files,
    directory: str,
    offset: int,
    now_ms: int,
    segments: list[Segment],
    snapshots: list[int],
    problems: list[str],
) -> None:
    """The checkpoint of log starts knows that all records below `offset` were given up, and none above it is
    there. The log begins again, empty, at `offset`, as in Kafka's LogLoader: a record that got an offset
    below it would count as deleted at the next start."""
    problems.append(
        f"{directory} ends below its log start offset {offset}: what is left was deleted, it begins anew"
    )
    while segments:
        for path in segments.pop().mark_deleted():
            files.unlink(path)
    while snapshots:
        files.unlink(f"{directory}/{segment_file(snapshots.pop(), SNAPSHOT_SUFFIX)}")
    segments.append(_empty_segment(files, directory, offset, now_ms))


def begin_log(files: Files, directory: str, now_ms: int) -> LoadedLog:
    """An empty log in a directory that was just created. Raises OSError."""
    first = _empty_segment(files, directory, 0, now_ms)
    return LoadedLog([first], 0, 0, 0, ProducerState(), LeaderEpochs(), [])


def _empty_segment(files: Files, directory: str, base_offset: int, now_ms: int) -> Segment:
    segment = Segment(files, directory, base_offset, fresh=True, created_ms=now_ms)
    segment.create()
    return segment


class _Scan:
    """Reads the segments that must be verified."""

    def __init__(
        self,
        files: Files,
        directory: str,
        index_interval_bytes: int,
        epochs: LeaderEpochs,
        problems: list[str],
        on_damage: OnDamage,
        cleaned_offset: int,
        note: Note,
    ) -> None:
        self._files = files
        self._directory = directory
        self._interval = index_interval_bytes
        self._epochs = epochs
        self._problems = problems
        self._on_damage = on_damage
        self._cleaned_offset = cleaned_offset
        self._note = note
        self.producers_at: Callable[[int], ProducerState]
        self.transaction_indexes: Sequence[int] = ()
        """The base offsets of the segments that have a `.txnindex`. Most have none."""
        self.producers: ProducerState | None = None
        """The producers at the end of the segment that was verified last. None if others follow it, or if
        none was verified."""
        self.unsynced_offset: int | None = None
        """Indexes of segments from this offset on may be complete and not on the disk, so the next sync
        begins here."""
        self.scanned_segments = 0
        self.cut_bytes = 0
        self._synced_offset = 0
        """What lies below it had been on the disk."""

    def run(self, segments: list[Segment], is_clean: bool, recovery_point: int) -> int:
        """Makes every segment usable, and removes what follows the first torn batch. Returns the log end
        offset."""
        end_offset = segments[0].base_offset
        self._synced_offset = _MAX_OFFSET if is_clean else recovery_point
        hidden: list[Segment] = []
        for number, segment in enumerate(segments):
            is_last = number == len(segments) - 1
            is_durable = not is_last and segments[number + 1].base_offset <= recovery_point
            if is_durable and segments[number + 1].base_offset == recovery_point:
                is_durable = is_clean or self._is_sealed(segment, recovery_point)
                if not is_clean:
                    self.unsynced_offset = segment.base_offset
            if (is_clean or is_durable) and (trusted := self._trust(segment, is_last)) is not None:
                end_offset = trusted
                self.producers = None
                segment.is_sealed = not is_last
                continue
            behind = segments[number + 1 :]
            if not (is_clean or is_durable):
                # The checkpoint may know epochs of what is lost. The batches tell those of what is not.
                self._epochs.truncate_from_end(max(end_offset, segment.base_offset))
            end_offset, is_cut = self._verify(segment, end_offset, behind)
            if not (is_cut or is_clean or is_durable or is_last):
                is_cut = self._has_lost_its_end(segment, end_offset, behind)
            if not is_last:
                segment.seal()
                if is_clean or is_durable:  # nobody else would come back to its new indexes
                    segment.sync()
                    self._files.fsync_directory(self._directory)
            if not segment.size_bytes and segment.base_offset < end_offset:
                hidden.append(segment)
            if is_cut and not is_last:
                del segments[number + 1 :]
                break
        if hidden:
            self._drop_hidden(segments, hidden)
        return end_offset

    def _is_sealed(self, segment: Segment, next_base_offset: int) -> bool:
        """Whether the indexes of a segment are on the disk too. Below the recovery point only those of the
        last one can be missing: its records may have been synced before it was sealed. Its index files may
        then be older, with entries for batches that were lost, so each entry must be for a batch that is
        there."""
        try:
            if not segment.has_sane_indexes() or not segment.has_complete_indexes(self._interval):
                return False
            indexed = {position: offset for offset, position in segment.offset_index.entries()}
            times = iter(segment.time_index.entries())
            following = next(times, None)
            newest = NO_TIMESTAMP
            for position, header in segment.headers():
                if header.is_control:
                    return False  # whether `.txnindex` is whole cannot be seen: it is made again
                if header.next_offset > next_base_offset:
                    return False  # the end of before a cut is there again
                if indexed.pop(position, header.last_offset) != header.last_offset:
                    return False
                if following == (header.max_timestamp, header.last_offset):
                    following = next(times, None)
                newest = max(newest, header.max_timestamp)
            return not indexed and following is None and newest <= segment.time_index.last()[0]
        except CorruptSegment:
            return False

    def _trust(self, segment: Segment, is_last: bool) -> int | None:
        """Believes a segment without reading it from end to end. Returns its end offset (or its base offset
        if others follow), or None if its indexes cannot be right and it must be read."""
        if not self._has_sane_indexes(segment):
            self._problems.append(f"{segment.log.path} has no sound indexes; they are made again")
            return None
        if not is_last:
            return segment.base_offset
        try:
            return segment.load_tail()
        except CorruptSegment as error:
            self._problems.append(f"{error}; the segment is read from its beginning")
            return None

    def _has_sane_indexes(self, segment: Segment) -> bool:
        if not segment.has_sane_indexes():
            return False
        base_offset = segment.base_offset
        return base_offset not in self.transaction_indexes or segment.transaction_index.is_sane(base_offset)

    def _verify(self, segment: Segment, expected_offset: int, behind: list[Segment]) -> tuple[int, bool]:
        """Checks every batch of a segment and makes its indexes anew. Returns the end offset, and whether
        bytes were cut off."""
        self.scanned_segments += 1
        file_bytes = segment.log.file().size()
        refuse_legacy_format(segment.log.file(), 0, file_bytes)  # before its indexes are emptied
        if self.producers is None:
            self.producers = self.producers_at(segment.base_offset)
        end_offset = max(expected_offset, segment.base_offset)
        segment.begin_rebuild()
        for position, header, batch in stored_batches(segment.log.file(), file_bytes, self._note):
            if not is_intact(batch, 0, header):
                break
            if header.base_offset < end_offset or header.last_offset_delta < 0:
                break
            if header.producer_id >= 0:
                self._note_producer(segment, header, batch)
            segment.appended(
                position, header.last_offset, header.max_timestamp, header.size_bytes, self._interval
            )
            self._epochs.assign(
                max(header.partition_leader_epoch, self._epochs.latest_epoch), header.base_offset
            )
            end_offset = header.next_offset
        cut = file_bytes - segment.size_bytes
        if cut:
            self._cut_torn(segment, file_bytes, end_offset, behind)
        return end_offset, cut > 0

    def _cut_torn(self, segment: Segment, file_bytes: int, end_offset: int, behind: list[Segment]) -> None:
        """Cuts off bytes that are no whole batch, or raises DamagedLog if a valid batch lies behind them."""
        valid_bytes = segment.size_bytes
        cut = file_bytes - valid_bytes
        has_valid_behind = self._judge_valid_behind(segment, file_bytes, end_offset, behind)
        self._problems.append(
            f"{segment.log.path} ends with {cut} bytes that are no whole batch: cut at byte "
            f"{valid_bytes}, offset {end_offset}"
        )
        self._drop(behind, "lies behind a torn segment")
        segment.log.file().truncate(valid_bytes)
        if has_valid_behind:
            segment.log.file().fdatasync()  # whole batches must not come back among those that follow now
        self.cut_bytes += cut

    def _has_lost_its_end(self, segment: Segment, end_offset: int, behind: list[Segment]) -> bool:
        """Whether whole batches are missing in front of the next segment that nobody has compacted away. Then
        what lies behind is removed, or DamagedLog is raised if there is a valid batch in it."""
        next_offset = behind[0].base_offset
        if end_offset >= next_offset or next_offset <= self._cleaned_offset:
            return False
        if not segment.size_bytes and next_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return False  # no segment holds so many offsets: a follower's first batch was too far away for it
        if next_offset <= read_compaction_marker(self._files, self._directory):
            return False
        self._judge_valid_behind(segment, segment.size_bytes, end_offset, behind)
        self._problems.append(
            f"{segment.log.path} ends at offset {end_offset}, and the next segment begins at {next_offset}: "
            "what was between them is lost"
        )
        self._drop(behind, "lies behind offsets that are lost")
        return True

    def _judge_valid_behind(
        self, segment: Segment, file_bytes: int, end_offset: int, behind: list[Segment]
    ) -> bool:
        """Whether a valid batch lies behind the place at which a segment is damaged. Raises DamagedLog if it
        is not to be thrown away."""
        found = self._whole_batch_behind(segment, file_bytes, behind)
        if found is None:
            return False
        path, position, header = found
        damaged = DamagedLog(
            segment.log.path, segment.size_bytes, end_offset, path, position, header.base_offset,
            self._directory, was_synced=end_offset < self._synced_offset,
        )  # fmt: skip
        if self._on_damage is OnDamage.REFUSE or (damaged.was_synced and self._on_damage is OnDamage.AUTO):
            raise damaged
        self._problems.append(f"{damaged.what}. {damaged.cause}. {_IS_CUT}")
        return True

    def _whole_batch_behind(
        self, segment: Segment, file_bytes: int, behind: list[Segment]
    ) -> tuple[str, int, BatchHeader] | None:
        """The next batch behind a bad one, in this segment or a later one. Raises LegacyFormat for records of
        an old format in the place of the bad one, or at the beginning of a later segment."""
        position = segment.size_bytes
        for each in (segment, *behind):
            file = each.log.file()
            size_bytes = file_bytes if each is segment else file.size()
            refuse_legacy_format(file, position, size_bytes)
            searched = position + 1 if each is segment else position
            found = next_whole_batch(file, searched, size_bytes, each.base_offset, self._note)
            if found is not None:
                return each.log.path, *found
            position = 0
        return None

    def _note_producer(self, segment: Segment, header: BatchHeader, batch: memoryview) -> None:
        """Updates the producer's entry. An aborted transaction gets its entry in the segment's index
        again."""
        producers = self.producers
        if producers is None:
            return
        marker = stored_marker_of(batch, header)
        completed = producers.update(header, marker)
        if completed is not None and marker is not None and not marker.committed:
            stable_offset = producers.transactions.stable_offset_after(completed)
            segment.transaction_index.append(AbortedTransaction(*completed, stable_offset))

    def _drop_hidden(self, segments: list[Segment], hidden: list[Segment]) -> None:
        """Removes segments without a batch that begin within the offsets of the one before them: the log was
        truncated there, and that had not reached the disk. A look-up of such an offset would find nothing in
        them."""
        self._drop(hidden, "is empty, and begins below the end of the segment before it")
        segments[:] = [each for each in segments if not any(each is one for one in hidden)]
        segments[-1].load_tail()
        segments[-1].is_sealed = False
        self.producers = None

    def _drop(self, segments: list[Segment], why: str) -> None:
        """Removes segments behind the end of the log, the last one first, before the one in front of them is
        truncated. They must not come back."""
        for segment in reversed(segments):
            self._problems.append(f"{segment.log.path} {why}; it is removed")
            self.cut_bytes += segment.size_bytes
            for path in segment.mark_deleted():
                self._files.unlink(path)
        if segments:
            self._files.fsync_directory(self._directory)


def _segments(files: Files, directory: str, offsets: dict[str, list[int]], now_ms: int) -> list[Segment]:
    """The segments that have a `.log` file. Index files without one are removed."""
    logs = dict.fromkeys(offsets.get(LOG_SUFFIX, ()))
    for suffix in SEGMENT_SUFFIXES[1:]:
        for offset in offsets.get(suffix, ()):
            if offset not in logs:
                files.unlink(f"{directory}/{segment_file(offset, suffix)}")
    segments = []
    for offset in logs:
        segment = Segment(files, directory, offset, fresh=False, created_ms=now_ms)
        segment.size_bytes = files.status(segment.log.path).size_bytes
        segments.append(segment)
    return segments


def _leader_epochs(
    files: Files,
    directory: str,
    names: list[str],
    segments: list[Segment],
    problems: list[str],
    *,
    is_clean: bool,
) -> LeaderEpochs:
    """The epochs that the checkpoint says. They are read from the batches if it is damaged, or if it says
    nothing of a log with batches that was closed: then it was lost. After a crash the scan finds them."""
    entries: list[tuple[int, int]] = []
    try:
        if LEADER_EPOCH_CHECKPOINT in names:
            entries = read_leader_epochs(files, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    except MalformedCheckpoint as error:
        problems.append(f"{error}; leader epochs are read from the batches")
        return _epochs_of_batches(segments)
    if entries or not is_clean or not any(segment.size_bytes for segment in segments):
        return LeaderEpochs(entries)
    return _epochs_of_batches(segments)


def _epochs_of_batches(segments: list[Segment]) -> LeaderEpochs:
    """The leader epochs from the headers of batches, up to the first place where there is no batch."""
    epochs = LeaderEpochs()
    epochs.note_change()
    for segment in segments:
        try:
            for _, header in segment.headers():
                epochs.assign(max(header.partition_leader_epoch, epochs.latest_epoch), header.base_offset)
        except LegacyFormat:
            continue  # such records are of no epoch
        except CorruptSegment:
            break  # the torn end; the scan deals with it
    return epochs
