"""A log whose appends wait for helper threads that a test lets run one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from config.limits import SLOW_DIRECTORY_MS
from protocol.errors import ErrorCode
from protocol.records.builder import SimpleRecord, build_batch
from storage.append import AppendResult
from storage.append_lane import LaneHelpers
from storage.errors import AppendRefused
from storage.faulty_files import Fault, FaultyFiles
from storage.log_disk import LogDisk
from storage.memory_files import MemoryFiles
from storage.waiting_append import WaitingAppend
from tests.support.rigs.log_rig import NOW_MS, LogRig
from tests.support.rigs.storage_world import RunsLater

MS = 1_000_000


class LaneRig(LogRig):
    """A log with a lane, whose threads and turns of the loop a test lets run one by one."""

    def __init__(self, *faults: Fault, **config: Any) -> None:
        self.faulty = FaultyFiles(MemoryFiles())
        super().__init__(self.faulty)
        self.codecs, self.disks = RunsLater(), RunsLater()
        self.turns: list[Callable[[], None]] = []
        self.ns = 0
        self.helpers = LaneHelpers(self.codecs, self.turns.append)
        self.configure(**config)
        self.attach()
        self.faulty.faults = list(faults)

    def attach(self) -> None:
        self.disk = LogDisk("/data", self.disks, lambda: self.ns)
        self.log.use_disk(self.disk, self.helpers)

    def send(self, batch: memoryview | bytearray, epoch: int = 0) -> WaitingAppend | AppendResult:
        """As the replica manager does it."""
        return self.log.append_as_leader(batch, leader_epoch=epoch, now_ms=self.now_ms)

    def wait_in_line(self, batch: memoryview | bytearray, epoch: int = 0) -> WaitingAppend:
        lane = self.log.appends.own_lane()
        return lane.submit(batch, leader_epoch=epoch, now_ms=NOW_MS, walk=False, request_version=13)

    def turn(self) -> None:
        turns = list(self.turns)
        self.turns.clear()
        for each in turns:
            each()

    def run(self) -> None:
        while self.turns or self.codecs.waiting or self.disks.waiting:
            self.turn()
            self.codecs.run()
            self.disks.run()


def large(
    codec: int = 0, *, key: bytes | None = None, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytearray:
    return build_batch(
        [SimpleRecord(key, bytes([n % 251]) * 400 + n.to_bytes(4), NOW_MS) for n in range(400)],
        codec=codec, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2],
    )  # fmt: skip


def result_of(waiting: WaitingAppend | AppendResult) -> AppendResult:
    outcome = waiting.outcome if isinstance(waiting, WaitingAppend) else waiting
    assert isinstance(outcome, AppendResult), outcome
    return outcome


def refusal_of(waiting: WaitingAppend | AppendResult) -> ErrorCode:
    assert isinstance(waiting, WaitingAppend)
    assert isinstance(waiting.outcome, AppendRefused), waiting.outcome
    return waiting.outcome.error_code


def slow_down(rig: LaneRig) -> None:
    rig.disk.stalled((SLOW_DIRECTORY_MS + 1) * MS)
    rig.now_ms += SLOW_DIRECTORY_MS + 1
