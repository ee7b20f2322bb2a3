"""What clients, coordinators and leaders send, and what must have become of it."""

from __future__ import annotations

import random
from typing import NamedTuple

from protocol.records.builder import BatchBuilder
from protocol.records.control import TransactionMarker, build_marker_batch
from tests.support.log_story.checks import require
from tests.support.log_story.model import Batch, Event, LogModel, Producer, tell

PRODUCERS = 3


class Sent(NamedTuple):
    """A batch before it has its place."""

    records: tuple[tuple[int, bytes, bytes | None], ...]
    """(timestamp, key, value)"""
    codec: int = 0
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    commits: bool | None = None
    """It is a marker."""
    coordinator_epoch: int = -1

    def __str__(self) -> str:
        who = "" if self.producer_id < 0 else f" of producer {self.producer_id} epoch {self.epoch}"
        if self.commits is not None:
            return f"a marker ({'commit' if self.commits else 'abort'}){who}"
        kind = " in a transaction" if self.is_transactional else ""
        sequence = f" from sequence {self.sequence}" if self.sequence >= 0 else ""
        return f"{len(self.records)} records{who}{sequence}{kind}" + (
            f", codec {self.codec}" if self.codec else ""
        )

    def encoded(self, base_offset: int = 0, leader_epoch: int = -1) -> bytearray:
        if self.commits is not None:
            return build_marker_batch(
                TransactionMarker(self.commits, self.coordinator_epoch), timestamp_ms=self.records[0][0],
                producer_id=self.producer_id, producer_epoch=self.epoch,
                base_offset=base_offset, leader_epoch=leader_epoch,
            )  # fmt: skip
        builder = BatchBuilder(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            codec=self.codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=self.is_transactional,
        )
        for timestamp, key, value in self.records:
            builder.append(key, value, timestamp)
        return builder.build()

    def require_is(self, batch: Batch, base: int, leader_epoch: int, append_time_ms: int | None) -> None:
        """What lies in the log is what was sent."""
        header = batch.header
        found = (
            header.base_offset, header.partition_leader_epoch, header.producer_id, header.producer_epoch,
            header.base_sequence, header.is_transactional, header.is_control, header.last_offset_delta,
        )  # fmt: skip
        is_marker = self.commits is not None
        wanted = (
            base, leader_epoch, self.producer_id, self.epoch, self.sequence,
            self.is_transactional, is_marker, len(self.records) - 1,
        )  # fmt: skip
        require(found == wanted, "another header lies in the log", log=found, sent=wanted)
        if is_marker:
            require(
                batch.event()[-2:] == (self.commits, self.coordinator_epoch), "another marker lies in the log"
            )
            return
        records = [(each.offset, each.key, each.value) for each in batch.records]
        sent = [(base + number, key, value) for number, (_, key, value) in enumerate(self.records)]
        require(records == sent, "other records lie in the log", log=records, sent=sent)
        times = [each.timestamp for each in batch.records]
        if header.timestamp_type == 1:
            require(append_time_ms in (None, times[0]), "another append time", log=times, now=append_time_ms)
        else:
            require(times == [each[0] for each in self.records], "other timestamps", log=times)


def records(rng: random.Random, now_ms: int) -> tuple[tuple[int, bytes, bytes | None], ...]:
    """Few keys, some tombstones, times that mostly ascend."""
    found = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        timestamp = now_ms - rng.choice((0, 0, 3, 5_000, 7_200_000))
        value = None if rng.random() < 0.15 else bytes(rng.choices(b"abcdef", k=rng.choice((0, 3, 12, 60))))
        found.append((timestamp, b"k%d" % rng.randrange(6), value))
    return tuple(found)


def plain(rng: random.Random, now_ms: int) -> Sent:
    return Sent(records(rng, now_ms), rng.choice((0, 0, 1, 2, 3, 4)))


def producers(model: LogModel, sent: list[Sent]) -> dict[int, Producer]:
    """As they will be once all of these are in the log."""
    events = list(model.history)
    offset = model.end
    for each in sent:
        last = offset + len(each.records) - 1
        events.append(
            Event(
                offset, last, 0, each.producer_id, each.epoch, each.sequence,
                each.is_transactional, each.commits, each.coordinator_epoch,
            )
        )  # fmt: skip
        offset = last + 1
    return tell(events).producers


def following(
    rng: random.Random, model: LogModel, now_ms: int, *, transactional: bool, behind: list[Sent] | None = None
) -> Sent:
    """The next batch of some producer; now and then one of its next epoch."""
    producer_id = rng.randrange(PRODUCERS) + (PRODUCERS if transactional else 0)
    known = producers(model, behind or []).get(producer_id, Producer(0))
    epoch, sequence = max(known.epoch, 0), known.last_sequence + 1
    if rng.random() < 0.1 and known.transaction < 0:
        epoch, sequence = epoch + 1, 0
    return Sent(
        records(rng, now_ms), rng.choice((0, 0, 1, 2, 3, 4)), producer_id, epoch, sequence, transactional
    )


def marker(rng: random.Random, model: LogModel, now_ms: int, behind: list[Sent] | None = None) -> Sent | None:
    """The end of an open transaction; seldom of one that has ended already."""
    known = producers(model, behind or [])
    open_ids = [each for each, producer in known.items() if producer.transaction >= 0]
    if not open_ids:
        open_ids = [each for each in known if each >= PRODUCERS and rng.random() < 0.1]
        if not open_ids:
            return None
    producer_id = rng.choice(open_ids)
    producer = known[producer_id]
    epoch = producer.epoch + (rng.random() < 0.3)
    coordinator = max(producer.coordinator_epoch, 0) + (rng.random() < 0.1)
    one = ((now_ms, b"", b""),)
    return Sent(one, 0, producer_id, epoch, -1, True, rng.random() < 0.5, coordinator)
