"""What was found in the directory of a partition: all that a `PartitionLog` begins with."""

from __future__ import annotations

import msgspec

from storage.leader_epochs import LeaderEpochs
from storage.producer_state import ProducerEntry, ProducerState
from storage.segment import Segment


class LoadedLog(msgspec.Struct):
    segments: list[Segment]
    """The segments by base offset, at least one; their sizes and last timestamps are known."""
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producer_state: ProducerState
    leader_epochs: LeaderEpochs
    snapshot_offsets: list[int]
    """The offsets of the producer snapshots in the directory, ascending."""
    scanned_segments: int = 0
    """The number of segments that were read from end to end, because they may be incomplete."""
    cut_bytes: int = 0
    """The number of bytes of a torn batch at the end that were cut off."""
    problems: tuple[str, ...] = ()
    """Faults that were found and repaired. They are logged."""


class RecoveredLog(msgspec.Struct, frozen=True, kw_only=True):
    """What another process has found in a log and has put right. It need not be read again."""

    directory: str
    producers: list[ProducerEntry]
    leader_epochs: list[tuple[int, int]]
    epochs_changed: bool
    """Whether `leader-epoch-checkpoint` must be written with these epochs."""
    recovery_point: int
    """The new recovery point. It is lower than before if indexes were made again, because they must be synced
    with the log behind it."""
    scanned_segments: int
    cut_bytes: int
    problems: list[str]
    failure: str = ""
    """The reason for which the log cannot be used. All other fields are empty then."""
