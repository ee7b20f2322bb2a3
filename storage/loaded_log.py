"""What a look into a partition's directory has found: all that a `PartitionLog` begins with."""

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
    """Read from end to end, because nobody said that they are whole."""
    cut_bytes: int = 0
    """How many bytes of a torn batch at the end were cut off."""
    problems: tuple[str, ...] = ()
    """What was not as it should be, and has been put right; for the log."""


class RecoveredLog(msgspec.Struct, frozen=True, kw_only=True):
    """What another process found in a log and has put right: what it says need not be read again."""

    directory: str
    producers: list[ProducerEntry]
    leader_epochs: list[tuple[int, int]]
    epochs_changed: bool
    """`leader-epoch-checkpoint` has yet to be written with them."""
    recovery_point: int
    """Lower than before where indexes were made again that must be synced with the log behind it."""
    scanned_segments: int
    cut_bytes: int
    problems: list[str]
    failure: str = ""
    """Why the log cannot be used; all other fields are empty then."""
