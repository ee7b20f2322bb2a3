"""What compaction may remove, and what of a log therefore must be there afterwards."""

from __future__ import annotations

from storage.partition_log import PartitionLog
from tests.support.log_story.checks import require
from tests.support.log_story.model import Batch, LogModel


def stored(log: PartitionLog) -> list[Batch]:
    return [
        Batch(segment.read(position, header.size_bytes))
        for segment in log.segments
        for position, header in segment.headers()
    ]


def accept_compaction(
    log: PartitionLog, model: LogModel, now_ms: int, cleaned_to: int | None, *, with_power: bool = False
) -> None:
    """The model takes over what is left, if it may be that. Raises Wrong.

    cleaned_to: the log is said to be clean up to there; None after a crash. with_power: a last batch,
    for which an earlier one was removed, may be lost since.
    """
    first = log.segments[0].base_offset
    old = [batch for batch in model.batches if batch.last >= first]
    new = stored(log)
    if [batch.data for batch in old] == [batch.data for batch in new]:
        return
    model.was_compacted = True
    by_base = {batch.base: batch for batch in old}
    for batch in new:
        was = by_base.get(batch.base)
        require(was is not None and was.last == batch.last, "compaction made a batch up", base=batch.base)
        if was is not None:
            _require_part_of(batch, was)
    kept = {record.offset for batch in new for record in batch.records}
    aborted = model.aborted()

    def is_undone(batch: Batch) -> bool:
        header = batch.header
        return header.is_transactional and any(
            each.producer_id == header.producer_id and each.first <= batch.base <= each.marker
            for each in aborted
        )

    newest: dict[bytes | None, tuple[int, Batch, bool]] = {}
    for batch in old:
        if batch.header.is_control:
            for record in batch.records:
                horizon = batch.header.has_delete_horizon and batch.header.base_timestamp <= now_ms
                require(record.offset in kept or horizon, "a marker went too early", offset=record.offset)
        elif not is_undone(batch):
            for record in batch.records:
                newest[record.key] = (record.offset, batch, record.value is None)
    for key, (offset, batch, is_tombstone) in newest.items():
        expired = is_tombstone and batch.header.has_delete_horizon and batch.header.base_timestamp <= now_ms
        require(offset in kept or expired, "the last record of a key is gone", key=key, offset=offset)
    if not with_power:
        _require_producers(old, new, log, model)
    if cleaned_to is not None:
        _require_clean(new, model.start, cleaned_to)
    model.replace_batches(new)


def _require_part_of(batch: Batch, was: Batch) -> None:
    before = {record.offset: (record.key, record.value, record.timestamp) for record in was.records}
    for record in batch.records:
        require(
            before.get(record.offset) == (record.key, record.value, record.timestamp),
            "compaction changed a record", offset=record.offset,
        )  # fmt: skip
    new, old = batch.header, was.header
    changed = [
        name
        for name in ("producer_id", "producer_epoch", "base_sequence", "partition_leader_epoch", "is_control")
        if getattr(new, name) != getattr(old, name)
    ]
    require(not changed, "compaction changed a header", base=batch.base, changed=changed)


def _require_producers(old: list[Batch], new: list[Batch], log: PartitionLog, model: LogModel) -> None:
    """Each producer's last batch is there, if only as a header."""
    there = {batch.base for batch in new}
    lasts = {each.last_offset for each in model.told().producers.values() if each.batches}
    for batch in old:
        if batch.last in lasts and batch.header.producer_id >= 0 and not batch.header.is_control:
            require(
                batch.base in there, f"the last batch of a producer is gone from {log.name}", base=batch.base
            )


def _require_clean(new: list[Batch], start: int, cleaned_to: int) -> None:
    """From the log start to the checkpoint every key has one record."""
    seen: dict[bytes | None, int] = {}
    for batch in new:
        if batch.header.is_control or batch.last >= cleaned_to:
            continue
        for record in batch.records:
            if record.offset < start:
                continue
            require(
                record.key not in seen,
                "an older record of a key stayed",
                key=record.key,
                offset=record.offset,
            )
            seen[record.key] = record.offset
