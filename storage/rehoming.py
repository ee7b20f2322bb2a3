"""An open log goes on with other files of the same content: the last step of its move to another directory.

Its numbers, producers, epochs and waiting batches stay as they are. Each segment is opened anew over there;
the active one's indexes, of which a part waits in memory, are written out to their end.
"""

from __future__ import annotations

from storage.partition_log import PartitionLog
from storage.segment import Segment


def rehome(log: PartitionLog, directory: str, synced_offset: int, now_ms: int) -> None:
    """`directory` holds all segments of the log at their present lengths, and the indexes of the sealed ones.

    What lies there up to `synced_offset` is on the disk. Raises OSError; the log is then as it was.
    """
    segments = [_moved(log, segment, directory, now_ms) for segment in log.segments]
    old = list(log.segments)
    log.directory = directory
    log.segments[:] = segments
    log.note_cut()  # syncs under way are of the old files: they prove nothing about these
    log.recovery_point = min(log.recovery_point, synced_offset)
    log.leader_epochs.note_change()
    log.activate(segments[-1])
    for segment in old:
        segment.close()


def _moved(log: PartitionLog, old: Segment, directory: str, now_ms: int) -> Segment:
    is_active = old is log.active
    segment = Segment(log.files, directory, old.base_offset, fresh=is_active, created_ms=old.created_ms)
    segment.size_bytes = old.size_bytes
    segment.max_timestamp, segment.max_timestamp_offset = old.max_timestamp, old.max_timestamp_offset
    segment.first_timestamp = old.first_timestamp
    segment.bytes_since_index_entry = old.bytes_since_index_entry
    segment.is_full, segment.is_sealed = old.is_full, old.is_sealed
    if is_active:
        old.require_indexes()
        segment.offset_index.file.copy_from(old.offset_index.file)
        segment.time_index.file.copy_from(old.time_index.file)
        for aborted in old.transaction_index.entries():
            segment.transaction_index.append(aborted)
    return segment
