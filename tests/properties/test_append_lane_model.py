"""Appends in any order of events against a list: large ones, syncs, slow and failing disks, lost leadership.

Requests come in; helper threads, pauses and turns of the loop end in any order; disks fail in any call. What
was answered with an offset is in the log at that offset, in the order of the requests; what was refused is
not; nobody is forgotten; and another process finds the same.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.compression import LZ4, ZSTD
from protocol.records.reader import batch_records
from storage.append import AppendResult
from storage.append_lane import LaneHelpers
from storage.errors import AppendRefused, LogStorageError
from storage.faulty_files import Fault, FaultyFiles
from storage.log_disk import LogDisk
from storage.memory_files import MemoryFiles
from storage.waiting_append import WaitingAppend
from tests.support.rigs.log_rig import NOW_MS, LogRig, everything
from tests.support.rigs.storage_world import RunsLater

STEPS = 60


class World:
    """One log under one seed."""

    def __init__(self, seed: int) -> None:
        self.random_source = random.Random(seed)
        self.faulty = FaultyFiles(MemoryFiles())
        self.rig = LogRig(self.faulty)
        self.rig.configure(
            codec=self.random_source.choice((None, LZ4)),
            flush_messages=self.random_source.choice((2**63 - 1, 1, 3, 10)),
            segment_bytes=self.random_source.choice((2_000, 20_000, 1 << 30)),
        )
        self.codecs, self.disks = RunsLater(), RunsLater()
        self.turns: list[Any] = []
        self.now_ns = 0
        self.disk = LogDisk("/data", self.disks, lambda: self.now_ns)
        self.helpers = LaneHelpers(self.codecs, self.turns.append, inline_bytes=8192)
        self.rig.log.use_disk(self.disk, self.helpers)
        self.epoch = 0
        self.sequence = 0
        self.sent: list[tuple[bytes, WaitingAppend | AppendResult]] = []
        self.kept: dict[int, bytes] = {}
        self.seen: Counter[str] = Counter()
        self.answers: Counter[int] = Counter()

    def send(self) -> None:
        number = len(self.sent)
        value = f"{number}:".encode() + b"v" * self.random_source.choice((1, 100, 700))
        large = self.random_source.random() < 0.3
        records = [SimpleRecord(None, value, NOW_MS)] * (150 if large else 1)
        batch = build_batch(records, codec=self.random_source.choice((0, ZSTD)) if large else 0)
        scratch = bytearray(batch)
        try:
            sent = self.rig.log.append_as_leader(scratch, leader_epoch=self.epoch, now_ms=NOW_MS, walk=large)
            if isinstance(sent, WaitingAppend):
                sent.then(lambda _: self.answers.update([number]))
                self.seen["waits"] += 1
            else:
                self.seen["inline"] += 1
        except LogStorageError:
            self.seen["refused inline"] += 1
            return
        except AppendRefused:  # too large for a segment
            self.seen["refused at once"] += 1
            return
        scratch[:] = b"\xdd" * len(scratch)
        self.sent.append((value, sent))

    def step(self) -> None:
        way = self.random_source.randrange(12)
        if way < 4:
            self.send()
        elif way < 7 and self.turns:
            self.turns.pop(0)()
        elif way == 7 and self.codecs.waiting:
            self.codecs.waiting.pop(self.random_source.randrange(len(self.codecs.waiting)))()
        elif way == 8 and self.disks.waiting:
            self.disks.waiting.pop(self.random_source.randrange(len(self.disks.waiting)))()
        elif way == 9:
            call = self.random_source.choice(("write", "write", "fdatasync", "open", "truncate"))
            partial_bytes = self.random_source.choice((0, 0, 40)) if call == "write" else 0
            part = self.random_source.choice((".log", ".log", ".index", ".timeindex"))
            self.faulty.faults = [Fault(call, path_part=part, partial_bytes=partial_bytes)]
            if self.random_source.random() < 0.5:
                self.faulty.faults.append(
                    Fault("unlink", count=self.random_source.choice((1, 3)), path_part=".log")
                )
        elif way == 10:
            self.now_ns += self.random_source.choice((0, 10**9, 10**10))
            if self.random_source.random() < 0.5:
                self.disk.stalled(10**8)
                self.seen["slow"] += 1
        elif way == 11 and self.random_source.random() < 0.3:
            self.epoch += 1
            self.seen["moved under a write"] += bool(self.rig.log.appends.queue.prepared)
            self.rig.log.give_up_waiting_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle_all(self) -> None:
        self.seen["faults"] += sum(fault.hits for fault in self.faulty.faults)
        self.faulty.faults = []
        while self.turns or self.codecs.waiting or self.disks.waiting:
            for queue in (self.turns, self.codecs.waiting, self.disks.waiting):
                while queue:
                    queue.pop(0)()

    def check(self) -> None:
        stored = {record.offset: record.value for record in batch_records(everything(self.rig.log))}
        expected: dict[int, bytes] = {}
        last = -1
        for value, sent in self.sent:
            outcome = sent.outcome if isinstance(sent, WaitingAppend) else sent
            assert outcome is not None, "somebody was forgotten"
            if isinstance(outcome, AppendResult):
                assert outcome.base_offset > last, "the order of the requests"
                last = outcome.last_offset
                expected |= dict.fromkeys(range(outcome.base_offset, last + 1), value)
            else:
                self.seen["refused late"] += 1
        assert stored == expected
        assert set(self.answers.values()) <= {1}
        assert not self.rig.log.is_waited_for
        assert not any(segment.log.holds for segment in self.rig.log.segments)
        assert self.helpers.waiting_bytes == 0
        assert self.rig.log.recovery_point <= self.rig.log.log_end_offset


def run(seed: int, seen: Counter[str]) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle_all()
    world.check()
    end = world.rig.log.log_end_offset
    before = everything(world.rig.log)
    world.rig.close()
    world.rig.reopen(is_clean=False)
    assert world.rig.problems == ()
    assert (world.rig.log.log_end_offset, everything(world.rig.log)) == (end, before)
    seen.update(world.seen)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_any_order_of_events(seed: int) -> None:
    run(seed, Counter())


def test_the_worlds_meet_everything() -> None:
    seen: Counter[str] = Counter()
    for seed in range(120):
        run(seed, seen)
    met = {what for what, count in seen.items() if count}
    assert met == {
        "waits", "inline", "refused late", "refused inline", "refused at once", "slow", "faults",
        "moved under a write",
    }  # fmt: skip
