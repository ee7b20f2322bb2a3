"""One run of one broker: a topic is made and filled, the load put on, and the kernel says what was spent."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tests.performance.cases import Case
from tests.performance.consumers import Consuming, consume
from tests.performance.contenders import Topic
from tests.performance.frames import batch_of
from tests.performance.load import Load, Outcome, put
from tests.performance.processor_time import Spent

MAX_BYTES: Final = 1 << 30
"""One measurement produces no more than this, so that the disk's write-back does not decide it."""
SMALL_REQUEST_BYTES: Final = 4 << 10
"""A run with requests up to this writes a quarter of that."""
CROWD_TIMES: Final = 3
"""Runs on hundreds of partitions are so many times longer, or each partition's first batch would decide."""
TOUCHED_AT_ONCE_BYTES: Final = 1 << 20
FETCHED_MAX_BYTES: Final = 8 << 30
FETCH_TOPIC_BYTES: Final = 256 << 20
FETCH_BATCH_BYTES: Final = 64 << 10


class Measured(Protocol):
    """A broker under measurement, or the pump."""

    name: str
    is_broker: bool

    @property
    def port(self) -> int: ...
    def spent(self) -> Spent: ...
    def make_topic(self, partitions: int) -> Topic: ...
    def delete_topic(self, topic: Topic) -> None: ...


class Measurement(NamedTuple):
    """One run of one broker: rates per second of wall time; processor time and page faults of one request."""

    megabytes_per_second: float
    requests_per_second: float
    broker_us: float
    user_us: float
    system_us: float
    page_faults: float
    client_us: float
    p50_us: float
    p99_us: float


def drive(contender: Measured, topic: Topic, case: Case, seconds: float, **more: Any) -> Measurement:
    """The load, once; the broker's processor time is taken around it. more: see `Load`."""
    max_bytes = MAX_BYTES if case.kind == "produce" else FETCHED_MAX_BYTES
    given: dict[str, Any] = {
        "kind": case.kind,
        "port": contender.port,
        "seconds": seconds,
        "partitions": topic.each_partition,
        "connections": case.connections,
        "request_bytes": case.request_bytes,
        "record_bytes": case.record_bytes,
        "acks": case.acks,
        "idempotent": case.idempotent,
        "producer_id": int(time.monotonic() * 1000) % (1 << 40) * 1000,
        "in_session": case.in_session,
        "checks_offsets": contender.is_broker,
        "max_bytes": max_bytes,
    } | more
    if case.kind != "consume":
        return _measured(contender, case, lambda: put(Load(**given)))
    consuming = Consuming(
        contender.port,
        topic,
        case.connections,
        seconds,
        end_offset=more["end_offset"],
        max_bytes=max_bytes,
        fetch_bytes=case.request_bytes,
    )
    return _measured(contender, case, lambda: consume(consuming))


def _measured(contender: Measured, case: Case, work: Callable[[], Outcome]) -> Measurement:
    before = contender.spent()
    try:
        outcome = work()
    except RuntimeError as error:
        raise RuntimeError(f"{contender.name}, {case.title}: {error}") from None
    spent = contender.spent() - before
    requests = max(1, outcome.requests)
    return Measurement(
        outcome.bytes / 1e6 / outcome.seconds,
        outcome.requests / outcome.seconds,
        spent.seconds * 1e6 / requests,
        spent.user * 1e6 / requests,
        spent.system * 1e6 / requests,
        spent.page_faults / requests,
        outcome.cpu_seconds * 1e6 / requests,
        outcome.latency_us["p50"],
        outcome.latency_us["p99"],
    )


class Stage:
    """A case on one broker: a fresh topic for each run that produces, one filled topic for all that fetch."""

    def __init__(self, contender: Measured, case: Case) -> None:
        self.contender = contender
        self.case = case
        self._topic: Topic | None = None
        self._layout: dict[str, int] = {}

    def run(self, seconds: float) -> Measurement:
        if self.case.partitions > 1:
            seconds *= CROWD_TIMES
        if self.case.kind != "produce":
            if self._topic is None:
                self._topic = self._new_topic()
                self._layout = fill(self.contender, self._topic, self.case)
            return drive(self.contender, self._topic, self.case, seconds, **self._layout)
        touch_pages(MAX_BYTES if self.case.request_bytes > SMALL_REQUEST_BYTES else MAX_BYTES // 4)
        topic = self._new_topic()
        try:
            return drive(self.contender, topic, self.case, seconds)
        finally:
            self.contender.delete_topic(topic)

    def close(self) -> None:
        if self._topic is not None:
            self.contender.delete_topic(self._topic)

    def _new_topic(self) -> Topic:
        wanted = self.case.partitions if self.case.partitions > 1 else self.case.connections
        return self.contender.make_topic(wanted)


@contextmanager
def staged(contender: Measured, case: Case) -> Iterator[Stage]:
    stage = Stage(contender, case)
    try:
        yield stage
    finally:
        stage.close()


def fill(contender: Measured, topic: Topic, case: Case) -> dict[str, int]:
    """Give a fetch something to read in each partition, and say how the batches lie, as `Load` wants it."""
    size = min(FETCH_BATCH_BYTES, case.request_bytes) - 1024
    batch, count = batch_of(size, 1000)
    wanted = FETCH_TOPIC_BYTES // topic.partitions
    if case.kind == "fetch":
        wanted = max(wanted, 2 * case.request_bytes)
    batches = wanted // len(batch) + 1
    if contender.is_broker:
        # One connection goes through the partitions in turn, so all get as much.
        producing = Case("produce", size)
        drive(contender, topic, producing, 600, max_bytes=(batches + 1) * topic.partitions * len(batch))
    return {"end_offset": batches * count, "records_per_batch": count, "batch_bytes": len(batch)}


def touch_pages(size_bytes: int) -> None:
    """Write as much to a file as the run will, and delete it. Where the machine is a guest of another one, a
    page that nobody has used lately must be had from the host first: 5 µs each, more than all else that a
    write costs. It must be a file: what was touched as memory comes back in other places.
    """
    block = bytes(TOUCHED_AT_ONCE_BYTES)
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(size_bytes // TOUCHED_AT_ONCE_BYTES):
            file.write(block)


def settle(contenders: Sequence[Measured], seconds: float = 30) -> None:
    """Wait until nothing of what was before goes on: the disk's write-back, a virtual machine's compiler and
    collector, the deletion of the last topic. One broker's aftermath must not slow the other."""
    os.sync()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = sum(each.spent().seconds for each in contenders)
        time.sleep(0.4)
        busy = sum(each.spent().seconds for each in contenders) - before
        if busy <= 0.03 and _unwritten_kib() <= 64 << 10:
            return


def _unwritten_kib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Dirty:", "Writeback:")))


def median(measurements: Sequence[Measurement]) -> Measurement:
    return Measurement(*(statistics.median(column) for column in zip(*measurements, strict=True)))


def least(measurements: Sequence[Measurement]) -> Measurement:
    """The run in which the broker spent the least: the one that others disturbed least."""
    return min(measurements, key=lambda each: each.broker_us)
