"""What a request costs between the codec and the log: handler, replica manager, partition, long polls.

    python -m tests.performance.handlers [--memory]

Each line is the best of many short rounds, in microseconds per request, with the part that the log itself
takes (`PartitionLog.append`, `PartitionLog.read`) measured beside it and taken off. Real files unless told
otherwise.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Final

from broker.handlers import fetch, list_offsets, metadata, produce
from broker.ports.files import RealFiles
from broker.security.authorizer import AllowAll
from protocol.codec.compiler import encoder
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import ProduceRequest
from tests.support.rigs.handler_rig import HandlerRig, MemoryLogs, topic_id

ROUNDS: Final = 25
CALLS: Final = 500


class DirectoryLogs(MemoryLogs):
    """Logs under a temporary directory of the disk."""

    root = ""

    def create(self, topic, partition, topic_id, config, directory_id=None):  # type: ignore[no-untyped-def]
        from storage.opening import create_log

        log = create_log(
            self.files,
            f"{self.root}/{topic}-{partition}",
            topic,
            partition,
            topic_id,
            config,
            self.background_tasks,
            now_ms=self.clock.wall_ms(),
        )
        self.logs[topic, partition] = log
        return log


def per_call_us(call: Callable[[], object], calls: int = CALLS) -> float:
    """One call's time in the quietest of the rounds; the collector rests."""
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        gc.disable()
        began = time.perf_counter_ns()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter_ns() - began) / calls / 1000)
        gc.enable()
    return min(rounds)


def say(what: str, total_us: float, log_us: float = 0.0) -> None:
    rest = f"  of it the log {log_us:6.2f}, the rest {total_us - log_us:6.2f}" if log_us else ""
    print(f"{what:<58}{total_us:8.2f} us{rest}")


def measure_produce(rig: HandlerRig, size_bytes: int) -> None:
    made = topic_id(1)
    batch = memoryview(rig.batch(1, size_bytes))
    context = rig.context(0, 12)
    request = ProduceRequest(
        None,
        -1,
        30_000,
        [ProduceRequest.TopicProduceData("t", made, [ProduceRequest.PartitionProduceData(0, batch)])],
    )
    log = rig.log("t")

    def handled() -> None:
        batch[0:8] = b"\0\0\0\0\0\0\0\0"
        produce.handle(rig.services, context, request)

    def appended() -> None:
        batch[0:8] = b"\0\0\0\0\0\0\0\0"
        log.append_as_leader(batch, leader_epoch=0, now_ms=context.now_ms, request_version=12)

    say(f"produce {size_bytes} bytes, acks=all", per_call_us(handled), per_call_us(appended))


def position(index: int, offset: int) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(index, 0, offset, -1, -1, 1 << 20)


def measure_fetch(rig: HandlerRig) -> None:
    made = topic_id(1)
    context = rig.context(1, 17)
    log = rig.log("t")
    rig.replicas.by_name["t", 0].appended(0)
    end = log.log_end_offset

    def released(response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if data.records:
                    data.records.release()  # type: ignore[union-attr]

    sessionless = FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[FetchRequest.FetchTopic("t", made, [position(0, end - 1)])]
    )

    def one() -> None:
        released(fetch.handle(rig.services, context, sessionless))  # type: ignore[arg-type]

    def read() -> None:
        log.read(end - 1, max_bytes=1 << 20, up_to_offset=end, at_least_one_batch=True)

    say("fetch near the end, no session, 1 partition", per_call_us(one), per_call_us(read))

    for count in (10, 100, 1000):
        many = "m"
        topics = [FetchRequest.FetchTopic(many, topic_id(2), [position(index, 0) for index in range(count)])]
        opened = fetch.handle(
            rig.services, context, FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=0, topics=topics)
        )
        assert isinstance(opened, FetchResponse)
        epoch = 0

        def incremental(session_id: int = opened.session_id) -> None:
            nonlocal epoch
            epoch += 1
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=[]
            )
            fetch.handle(rig.services, context, request)

        say(f"fetch in a session of {count} idle partitions", per_call_us(incremental))
        without = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
        say(
            f"fetch of {count} idle partitions, no session",
            per_call_us(lambda w=without: fetch.handle(rig.services, context, w), 20000 // count // 5),  # type: ignore[misc]
        )


def measure_long_poll(rig: HandlerRig) -> None:
    """A consumer at the end of the log, woken by each append: fetch, wait, append, wake, answer."""
    made = topic_id(1)
    context = rig.context(1, 17)
    partition = rig.replicas.by_name["t", 0]
    log = partition.log
    batch = memoryview(rig.batch(1, 1000))
    asked = position(0, 0)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchRequest.FetchTopic("t", made, [asked])])

    def polled() -> None:
        asked.fetch_offset = log.log_end_offset
        pending = fetch.handle(rig.services, context, request)
        batch[0:8] = b"\0\0\0\0\0\0\0\0"
        log.append_as_leader(batch, leader_epoch=0, now_ms=context.now_ms, request_version=12)
        partition.appended(1000)
        rig.timers.run_soon()
        pending.response.responses[0].partitions[0].records.release()  # type: ignore[union-attr]
        rig.timers._timers.clear()

    def appended() -> None:
        batch[0:8] = b"\0\0\0\0\0\0\0\0"
        log.append_as_leader(batch, leader_epoch=0, now_ms=context.now_ms, request_version=12)

    say("long poll: wait, be woken by an append, answer", per_call_us(polled), per_call_us(appended))


def measure_list_offsets(rig: HandlerRig) -> None:
    context = rig.context(2, 10)
    for timestamp, name in ((-1, "latest"), (-2, "earliest")):
        request = ListOffsetsRequest(
            -1,
            0,
            [
                ListOffsetsRequest.ListOffsetsTopic(
                    "m", [ListOffsetsRequest.ListOffsetsPartition(i, -1, timestamp) for i in range(100)]
                )
            ],
        )
        cost = per_call_us(lambda r=request: list_offsets.handle(rig.services, context, r), 200)  # type: ignore[misc]
        say(f"list offsets, {name}, 100 partitions", cost)


def measure_metadata(rig: HandlerRig) -> None:
    context = rig.context(3, 12)
    request = MetadataRequest(None)
    response = metadata.handle(rig.services, context, request)
    partitions = sum(len(topic.partitions) for topic in response.topics)
    say(
        f"metadata of all {len(response.topics)} topics, {partitions} partitions",
        per_call_us(lambda: metadata.handle(rig.services, context, request), 50),
    )
    encode = encoder(MetadataResponse, 12)
    say("  its encoding", per_call_us(lambda: encode(response), 20))
    named = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")])
    say("metadata of one topic", per_call_us(lambda: metadata.handle(rig.services, context, named)))


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        if "--memory" in sys.argv:
            rig = HandlerRig()
        else:
            rig = HandlerRig(files=RealFiles())
            rig.logs.__class__ = DirectoryLogs
            rig.logs.root = folder  # type: ignore[attr-defined]
        rig.in_force = AllowAll()
        rig.topic("t", 1, number=1)
        rig.topic("m", 1000, number=2)
        for size_bytes in (1000, 16_000):
            measure_produce(rig, size_bytes)
        measure_fetch(rig)
        measure_long_poll(rig)
        measure_list_offsets(rig)
        measure_metadata(rig)


if __name__ == "__main__":
    main()
