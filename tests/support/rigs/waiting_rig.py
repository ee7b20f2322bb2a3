"""A broker's handlers with appends that wait for helper threads, which a test lets run."""

from __future__ import annotations

from typing import Any

from broker.handlers import produce
from broker.replication.waiting_appends import WaitingAppends
from config.ports import Files
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import SimpleRecord, build_batch
from storage.log_disk import SLOW_NS
from tests.support.rigs.handler_rig import HandlerRig
from tests.support.rigs.storage_world import RunsLater


class WaitingRig(HandlerRig):
    """A broker whose helper threads end when the test lets them."""

    def __init__(self, *, files: Files | None = None) -> None:
        self.disks, self.codecs = RunsLater(), RunsLater()
        super().__init__(files=files)

    def helper_threads(self) -> WaitingAppends:
        self.waiting_appends = WaitingAppends(
            clock=self.clock, timers=self.timers, disks=self.disks, codecs=self.codecs
        )
        return self.waiting_appends

    def slow_down(self) -> None:
        """A write stalls in each directory: appends there wait for helper threads until none has stalled for
        a while. The clock moves on, because an append asks for that once in a millisecond."""
        for disk in self.waiting_appends.by_directory.values():
            disk.stalled(SLOW_NS + 1)
        self.clock.move(2)

    def produce(self, *batches: tuple[str, bytearray], acks: int = -1, timeout_ms: int = 1000) -> Any:
        topics = [
            ProduceRequest.TopicProduceData(
                name, partition_data=[ProduceRequest.PartitionProduceData(0, memoryview(batch))]
            )
            for name, batch in batches
        ]
        request = ProduceRequest(None, acks, timeout_ms, topics)
        return produce.handle(self.services, self.context(0, 12), request)

    def large(self, *, key: bytes | None = b"k", codec: int = 0) -> bytearray:
        now_ms = self.clock.wall_ms()
        return build_batch([SimpleRecord(key, bytes(400), now_ms)] * 300, codec=codec)

    def run(self) -> None:
        self.timers.run_soon()
        while self.codecs.run() + self.disks.run() + self.timers.run_soon():
            pass
