"""Which leader wrote from which offset on.

Each leader of a partition has an epoch, and its batches carry it. The list of (epoch, start offset), kept
in `leader-epoch-checkpoint`, answers the question by which two replicas find where their logs part: "where
does what you have of epoch N end?" It can be made again from the batches, so the file is written without
haste. KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
LAST_EPOCH: Final = 0x7FFFFFFF
"""The largest epoch that there can be."""

_NOWHERE: Final = 1 << 63


class LeaderEpochs:
    """The list of pairs of epoch and start offset. Both ascend."""

    __slots__ = (
        "_changes",
        "_epochs",
        "_in_file",
        "_start_offsets",
        "_written",
        "changed",
        "has_failed",
        "latest_epoch",
    )

    def __init__(self, entries: Iterable[tuple[int, int]] = (), *, is_written: bool = True) -> None:
        """is_written: the checkpoint file says the same."""
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self._written = 0
        """The number of entries, from the first one on, that are in the checkpoint file as they are here, or
        on their way into it."""
        self._in_file = 0
        """The number of those that have arrived."""
        self._changes = 0
        """The number of changes other than new entries at the end."""
        self.latest_epoch = UNDEFINED_EPOCH
        """The epoch of the newest entry, or -1."""
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.changed = not is_written
        """Whether the list differs from what was written to the checkpoint file last."""
        self._written = self._in_file = len(self._epochs) if is_written else 0
        self.has_failed = False
        """Whether the last attempt to write the checkpoint file has failed."""

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def start_offset(self) -> int:
        """The first offset whose epoch is known; beyond every offset if none is."""
        return self._start_offsets[0] if self._start_offsets else _NOWHERE

    @property
    def latest_start_offset(self) -> int:
        """The start offset of the newest entry; -1 if there is none."""
        return self._start_offsets[-1] if self._start_offsets else -1

    @property
    def unwritten_offset(self) -> int:
        """The start offset of the first entry that is not in the checkpoint file; beyond every offset if all
        are. A start after a crash must read the batches from there on to know their epochs."""
        return self._start_offsets[self._in_file] if self._in_file < len(self._epochs) else _NOWHERE

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that the log is of `epoch` from `start_offset` on. Entries that contradict this are
        removed."""
        if epoch < 0 or epoch == self.latest_epoch:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset):
            self._epochs.pop()
            self._start_offsets.pop()
        if len(self._epochs) < self._written:
            self._written = self._in_file = 0
            self._changes += 1
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest_epoch = epoch
        self.changed = True

    def epoch_of(self, offset: int) -> int:
        """The epoch of the leader that wrote `offset`, or -1 if it is not known."""
        found = bisect_right(self._start_offsets, offset)
        return self._epochs[found - 1] if found else UNDEFINED_EPOCH

    def start_offset_of(self, epoch: int) -> int:
        """The start offset of an epoch, or -1 if there is no such entry."""
        return self._start_offsets[self._epochs.index(epoch)] if epoch in self._epochs else UNDEFINED_OFFSET

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch at or below `epoch`, and its end offset.

        (-1, -1) for an epoch that is undefined or above all known ones. For one below all known ones, the
        epoch itself and the first known start offset. This is the answer of OffsetForLeaderEpoch.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if following == 0:
            return epoch, self._start_offsets[0]
        return self._epochs[following - 1], self._start_offsets[following]

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops the entries that begin at or after `end_offset`: the log was cut there."""
        before = len(self._epochs)
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._epochs.pop()
            self._start_offsets.pop()
        if len(self._epochs) != before:
            self.note_change()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops what lies below `start_offset`; the epoch in force there now begins there."""
        found = bisect_right(self._start_offsets, start_offset)
        if found == 0 or (found == 1 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[: found - 1]
        del self._start_offsets[: found - 1]
        self._start_offsets[0] = start_offset
        self.note_change()

    def clear(self) -> None:
        self._epochs.clear()
        self._start_offsets.clear()
        self.note_change()

    def needs_writing(self, log_end_offset: int) -> bool:
        """Whether there is anything new to say in the checkpoint file. An epoch without records is not: it is
        forgotten by a restart, which begins another. What was not written before it is."""
        if self.latest_start_offset >= log_end_offset and self._written >= len(self._epochs) - 1:
            return False
        return self.changed

    def note_writing(self) -> Callable[[], None]:
        """The list, as it is now, is on its way into the checkpoint file. Returns what is to be called when
        it has arrived."""
        self.changed = False
        self._written = len(self._epochs)
        return partial(self._arrived, self._written, self._changes)

    def _arrived(self, count: int, changes: int) -> None:
        self.has_failed = False
        if changes == self._changes:
            self._in_file = max(self._in_file, count)

    def note_failure(self) -> None:
        """The checkpoint file could not be written. It is tried again."""
        self.has_failed = True
        self.note_change()

    def note_change(self) -> None:
        """The checkpoint file must be written."""
        self._written = self._in_file = 0
        self._changes += 1
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.changed = True
