"""A log after a start, and its model from before: is what is there what may be there?

See `story` for what may be lost. The model then goes on from what was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from storage.partition_log import PartitionLog
from tests.support.log_story.after_compaction import accept_compaction, stored
from tests.support.log_story.appending import Sent
from tests.support.log_story.checks import Wrong, require, require_producer
from tests.support.log_story.model import Batch, Event, LogModel, tell
from tests.support.log_story.subject import Subject


class Reunion:
    """A log after a start, and the model from before."""

    def __init__(
        self,
        subject: Subject,
        log: PartitionLog,
        counts: Counter[str],
        now_ms: int,
        *,
        with_power: bool,
        is_clean: bool,
        knows_high_watermark: bool,
    ) -> None:
        self.subject, self.log, self.counts, self.now_ms = subject, log, counts, now_ms
        self.knows_high_watermark = knows_high_watermark
        self.model = subject.model
        self.with_power, self.is_clean = with_power, is_clean
        self.is_cut_back = False

    def meet(self) -> None:
        model, log, subject = self.model, self.log, self.subject
        is_empty = not log.size_bytes and log.log_end_offset == log.log_start_offset
        if subject.is_starting_anew and is_empty:
            known = {entry.producer_id for entry in log.producer_state.entries()}
            history = [event for event in model.history if event.producer_id in known]
            model.start_anew(log.log_end_offset)
            model.history = history  # the snapshot of before is there still
        else:
            if subject.is_compacting and not self.with_power:
                accept_compaction(log, model, self.now_ms, None)
            self._meet_batches()
        highest = model.high_watermark if subject.is_removing else model.start
        if self.is_cut_back:
            highest = max(highest, subject.started_at)
        rose = log.log_start_offset > highest and not subject.is_starting_anew
        require(not rose, "the log start rose", log=log.log_start_offset, model=model.start)
        if self.is_clean:
            model.epochs_known_from = max(model.epochs_known_from, model.start)
            stayed = log.log_start_offset == model.start or model.removal_failed
            require(stayed, "the log start fell", log=log.log_start_offset, model=model.start)
        model.start = log.log_start_offset
        model.removal_failed = False
        if self.is_clean and self.knows_high_watermark:
            require(
                log.high_watermark == model.high_watermark, "the high watermark fell", log=log.high_watermark
            )
        model.high_watermark = log.high_watermark
        model.reloaded_at = max(model.end, 1)
        self._meet_producers()
        model.durable = log.recovery_point

    def _meet_batches(self) -> None:
        model, log, subject = self.model, self.log, self.subject
        found = stored(log)
        if self.with_power and subject.may_return:
            self._take_cut_back(found)
        if self.with_power or model.removal_failed:
            self._bring_back(found)
        first = log.segments[0].base_offset
        old = [batch for batch in model.batches if batch.last >= first]
        if subject.is_compacting and self.with_power:
            self._meet_compaction(found, old)
            return
        there = {batch.base: batch for batch in found}
        extra = [batch for batch in found if batch.base >= model.end]
        if self.with_power and subject.leftovers:
            # refused bytes that could not be cut off were synced with the rest, and overwritten since
            changed = [batch.base for batch in old if there.get(batch.base, batch).data != batch.data]
            if changed and changed[0] >= subject.synced:
                extra = [batch for batch in found if batch.base >= changed[0]]
                there = {batch.base: batch for batch in found if batch.base < changed[0]}
        kept = [batch for batch in old if batch.base in there]
        lost = [batch for batch in old if batch.base not in there]
        for batch in kept:
            require(there[batch.base].data == batch.data, "a batch has other bytes", base=batch.base)
        require(len(kept) + len(extra) == len(found), "batches that never were", bases=sorted(there))
        self._judge_lost(lost, kept)
        self._judge_extra(extra)
        for batch in extra:
            model.history.append(batch.event())
        gone = {batch.base for batch in lost}
        end = log.log_end_offset
        model.history = [event for event in model.history if event.base not in gone and event.base < end]
        model.forgotten = {event for event in model.forgotten if event.base not in gone and event.base < end}
        follows = [*(batch.base for batch in found[1:]), end]
        is_torn = end - model.end > sum(b.last - b.base + 1 for b in extra) or any(
            batch.last + 1 != base for batch, base in zip(found, follows, strict=False)
        )
        model.has_gaps = model.has_gaps or (self.with_power and is_torn) or bool(lost and end > lost[0].base)
        cut = 0 if subject.is_starting_anew else subject.cutting
        model.replace_batches(found)
        if cut is not None:
            model.former = {data: batch for data, batch in model.former.items() if batch.last < cut}
        if not self.with_power and subject.cutting is None and not subject.is_starting_anew:
            wanted = extra[-1].last + 1 if extra else model.end
            require(end == wanted or model.ends_bare, "the log end is another", log=end, model=wanted)
        is_bare = model.was_compacted or model.has_gaps
        is_there = end >= subject.synced or is_bare
        require(is_there, "a synced end is gone", log=end, synced=subject.synced)
        model.end = end
        model.cleaned_to = min(model.cleaned_to, model.end)

    def _take_cut_back(self, found: list[Batch]) -> None:
        """Batches that were cut off are there again, before or instead of those that followed the cut."""
        model, subject = self.model, self.subject
        former = {batch.data for batch in subject.may_return}
        known = {batch.data for batch in model.batches}
        there = [batch for batch in found if batch.last >= subject.returns_from]
        if not any(batch.data in former and batch.data not in known for batch in there):
            return
        self.counts["cuts come back"] += 1
        self.is_cut_back = True
        while there and there[-1].data not in former and there[-1].data not in known:
            there.pop()  # unanswered
        require(
            all(b.data in former or b.data in known for b in there), "batches that never were, after a cut"
        )
        model.aborted_once |= set(model.aborted())
        bases = {batch.base for batch in there}
        lowest = min(bases)
        model.batches = [b for b in model.batches if b.last < lowest] + there
        model.history = [e for e in model.history if e.last < lowest] + [b.event() for b in there]
        model.forgotten = {e for e in model.forgotten if e.last < lowest}
        model.has_gaps = True
        model.end = there[-1].last + 1
        subject.synced = min(subject.synced, subject.returns_from)

    def _bring_back(self, found: list[Batch]) -> None:
        """Batches that had gone are there again, in the form that they had."""
        model = self.model
        there = {batch.base: batch for batch in model.batches}
        for batch in found:
            former = model.former.get(batch.data)
            if former is not None and (batch.base not in there or there[batch.base].data != batch.data):
                there[batch.base] = former
        model.batches = [there[base] for base in sorted(there)]

    def _judge_lost(self, lost: list[Batch], kept: list[Batch]) -> None:
        subject = self.subject
        if not lost:
            return
        self.counts["batches lost"] += len(lost)
        if subject.is_starting_anew:
            return
        if subject.cutting is not None and not self.with_power:
            require(lost[0].last >= subject.cutting, "more is cut off than was asked", base=lost[0].base)
            is_end = not kept or kept[-1].base < lost[0].base
            require(
                is_end, "a cut left something behind it", lost=lost[0].base, kept=[each.base for each in kept]
            )
            return
        require(self.with_power, "an answered batch is gone", bases=[batch.base for batch in lost])
        require(
            lost[0].last >= subject.synced, "a synced batch is gone", base=lost[0].base, synced=subject.synced
        )

    def _judge_extra(self, extra: list[Batch]) -> None:
        """What nobody was told about may be there: in whole batches, in order."""
        choices = [(self.subject.appending, False)] + [(each, True) for each in self.subject.leftovers]
        for number, (waiting, is_old) in enumerate(choices):
            try:
                self._require_sent(extra, list(waiting), is_old=is_old)
            except Wrong:
                if number + 1 == len(choices):
                    raise
                continue
            break
        self.counts["unanswered there"] += bool(extra)

    def _require_sent(self, extra: list[Batch], waiting: list[Sent | bytes], *, is_old: bool) -> None:
        """is_old: the leader's epoch may have changed since."""
        for batch in extra:
            epoch = batch.header.partition_leader_epoch if is_old else self.model.leader_epoch
            while not self._is_next(batch, waiting, epoch):
                if (
                    not waiting or not self.with_power
                ):  # power takes the end of a segment, and leaves the next
                    raise Wrong(f"a batch that nobody sent is at offset {batch.base}")

    def _is_next(self, batch: Batch, waiting: list[Sent | bytes], leader_epoch: int) -> bool:
        if not waiting:
            return False
        sent = waiting.pop(0)
        if not isinstance(sent, Sent):
            return sent == batch.data
        try:
            sent.require_is(batch, batch.base, leader_epoch, None)
        except Wrong:
            return False
        return True

    def _meet_compaction(self, found: list[Batch], old: list[Batch]) -> None:
        """A power cut in the middle of a pass: the part below the synced point is old or compacted."""
        by_base = {batch.base: batch for batch in old}
        for batch in found:
            require(batch.base in by_base, "a batch that never was", base=batch.base)
        log, model = self.log, self.model
        cut = [batch for batch in old if batch.last < log.log_end_offset]
        is_there = log.log_end_offset >= self.subject.synced or model.was_compacted
        require(is_there, "a synced end is gone", log=log.log_end_offset)
        missing_above = [
            b for b in cut if b.last >= self.subject.synced and b.base not in {f.base for f in found}
        ]
        before, model.batches = old, [b for b in cut if b not in missing_above]
        model.history = [event for event in model.history if event.base < log.log_end_offset]
        aborted_before = len(before) - len(model.batches)
        model.has_gaps = model.has_gaps or aborted_before > 0
        accept_compaction(log, model, self.now_ms, None, with_power=True)
        model.batches = found
        model.end = log.log_end_offset

    def _meet_producers(self) -> None:
        meet_producers(self.model, self.log, self.counts, is_exact=self.is_clean)


def meet_producers(model: LogModel, log: PartitionLog, counts: Counter[str], *, is_exact: bool) -> None:
    """Known is what the log still shows, and what a snapshot tells of the time before.

    The snapshot of a roll is written beside the loop: a process that dies first leaves an older one or none,
    and what has been removed from the log in that moment is missing from both.
    """
    first = log.segments[0].base_offset
    there = {batch.base for batch in model.batches}
    forgotten: set[Event] = set()
    ever = sorted({*model.history, *model.forgotten}) if not is_exact else list(model.history)
    for producer_id, producer in tell(ever).producers.items():
        mine = [event for event in ever if event.producer_id == producer_id]
        for choice in [mine] if is_exact else _what_may_be_known(mine, first, there):
            told = tell(choice).producers.get(producer_id)
            try:
                if told is None:
                    require(log.producer_state.get(producer_id) is None, "a producer is known")
                else:
                    require_producer(log, producer_id, told, model.reloaded_at)
            except Wrong:
                continue
            counts["producers known in part"] += len(choice) < len(mine)
            forgotten |= set(mine) - set(choice)
            break
        else:
            require_producer(log, producer_id, producer, model.reloaded_at)
    model.aborted_once |= set(model.aborted())
    model.history = [event for event in ever if event not in forgotten]
    if not is_exact:
        model.forgotten = forgotten


def _what_may_be_known(mine: list[Event], first: int, there: set[int]) -> Iterator[list[Event]]:
    """All; or what the segments show, and before that all that a snapshot told. One from below the first
    segment is not believed: a producer is known as it was then, or by what is there, or not at all."""
    gone = sum(event.base < first for event in mine)
    for snapshot in range(len(mine), gone - 1, -1):
        yield [*mine[:snapshot], *(event for event in mine[snapshot:] if event.base in there)]
    yield [event for event in mine if event.base >= first]
    yield [event for event in mine if event.base >= first and event.base in there]
