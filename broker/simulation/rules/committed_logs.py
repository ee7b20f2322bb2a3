"""What is committed in a partition: the reference that every later log is compared with.

It grows when a leader's high watermark does, by the batches of that leader's own log. Where two logs have the
same batches, offset for offset and checksum for checksum, they are equal.
"""

from __future__ import annotations

from broker.simulation.rules.seen_logs import SeenBatch, SeenLog, first_above

__all__ = ["CommittedLog", "Difference"]


class Difference(Exception):
    """Two logs part: what is committed, and what is there instead (None: a gap)."""

    def __init__(self, committed: SeenBatch, found: SeenBatch | None) -> None:
        super().__init__(f"committed is {committed}, there is {found if found is not None else 'nothing'}")
        self.committed = committed


class CommittedLog:
    """batches: in a row, from the lowest that any leader had on. merged_end: below it some replica may have
    compacted its log, so that it has other batches there, or has copied such ones."""

    def __init__(self) -> None:
        self.merged_end = 0
        self.batches: list[SeenBatch] = []
        self.lasts: list[int] = []

    @property
    def end_offset(self) -> int:
        return self.lasts[-1] + 1 if self.lasts else 0

    def extend(self, log: SeenLog, high_watermark: int) -> None:
        """A leader with this log, which agrees with what was committed before, has committed so much."""
        begin = first_above(log.lasts, self.end_offset)
        end = first_above(log.lasts, high_watermark)
        self.batches += log.batches[begin:end]
        self.lasts += log.lasts[begin:end]

    def cut(self, offset: int) -> None:
        """What is at or above an offset is lost, and may be."""
        kept = first_above(self.lasts, offset)
        del self.batches[kept:]
        del self.lasts[kept:]

    def agreed_end(self, log: SeenLog, begin_offset: int, start_offset: int, end_offset: int) -> int:
        """Compares a log that starts at `start_offset` with what is committed between two offsets; says up to
        where they have been found equal. Raises Difference."""
        begin = max(begin_offset, start_offset)
        theirs, ours = first_above(log.lasts, begin), first_above(self.lasts, begin)
        if ours < len(self.lasts) and self.batches[ours].base_offset > begin:
            theirs = first_above(log.lasts, self.batches[ours].base_offset)
        while ours < len(self.lasts) and self.lasts[ours] < end_offset and theirs < len(log.lasts):
            committed, found = self.batches[ours], log.batches[theirs]
            if committed == found:
                begin = committed.last_offset + 1
                ours += 1
                theirs += 1
            elif found.base_offset < self.merged_end or committed.base_offset < self.merged_end:
                begin = max(committed.last_offset, found.last_offset) + 1
                ours, theirs = first_above(self.lasts, begin), first_above(log.lasts, begin)
            else:
                raise Difference(committed, found)
        return begin
