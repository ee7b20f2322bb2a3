"""The well-behaved client beside a fuzzer: how long do its round trips take, and whose fault is it?

It runs in a process of its own, for what makes the fuzzer slow must not make it slow. A round trip that took
long on a busy machine says nothing yet: the broker, or the watcher, may have waited for a processor. The
kernel tells for how long each thread did (`run_delay` of schedstat), and that part is taken away; never so
much that less is left than the loop ran meanwhile. What is left is our own: the loop was busy with somebody
else's request, or blocked.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.codec.message import Message
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.fuzz.knowledge import WATCHED_TOPIC
from tests.support.samples import bad_batches

NS_PER_MS: Final = 1_000_000
REPORTED_MS: Final = 50
_PAUSE_SECONDS: Final = 0.005
_TIMEOUT_SECONDS: Final = 30
_LONGEST_KEPT: Final = 200


class Trip(NamedTuple):
    """A round trip. own_ms: without the time in which the broker or the watcher waited for a processor."""

    what: str
    ended_at: float
    took_ms: float
    own_ms: float
    broker_ran_ms: float


class Watched(NamedTuple):
    """trips: how many there were. slow: those above `REPORTED_MS`, longest first. error: what ended it."""

    trips: int
    slow: list[Trip]
    error: str

    @property
    def worst_own_ms(self) -> float:
        return max((trip.own_ms for trip in self.slow), default=0.0)


class Watcher:
    """Its process is started at once, which takes seconds on a busy machine; from `begin` on the broker must
    have the topic `watched`. `stop` gives what was seen."""

    def __init__(self, address: str, controller: str, pid: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_watch, args=(theirs, address, controller, pid), daemon=True)
        self._process.start()
        theirs.close()
        self._failed: Watched | None = None

    def begin(self) -> None:
        """Returns when it watches."""
        self._failed = self._ask("begin")

    @property
    def has_given_up(self) -> bool:
        """One answer has not come for half a minute, or the broker has gone."""
        return self._failed is not None or self._ours.poll()

    def stop(self) -> Watched:
        seen = self._failed or self._ask("stop")
        self._process.join()
        return seen or Watched(0, [], "the watcher went on")

    def _ask(self, word: str) -> Watched | None:
        """What it saw, once it has ended."""
        with suppress(BrokenPipeError):
            self._ours.send(word)
        try:
            seen: Watched | None = self._ours.recv()
        except (EOFError, ConnectionResetError):
            seen = Watched(0, [], "the watcher died")
        return seen


class Seen(NamedTuple):
    """Nanoseconds: the broker's loop ran, its threads and this one waited for a processor."""

    loop_ran: int
    broker_waited: dict[str, int]
    """By thread."""
    loop: str
    own_waited: int
    """This thread, and the main one of its process."""


class ProcessorWait:
    """What the threads of this process and of the broker have had of the processors."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._loop = str(pid)
        # The main thread of this process too: while it waits with the interpreter's lock, nobody else runs.
        own = {threading.get_native_id(), os.getpid()}
        self._own = [Path(f"/proc/self/task/{thread}/schedstat") for thread in own]

    def read(self) -> Seen:
        found = {task.name: _schedstat(task / "schedstat") for task in self._tasks.iterdir()}
        waited = {name: each[1] for name, each in found.items()}
        return Seen(found[self._loop][0], waited, self._loop, sum(_schedstat(each)[1] for each in self._own))


def waited_ns(before: Seen, after: Seen) -> int:
    """For how long the loop, the helper thread that waited longest, and this thread waited in between: an
    append may have gone through one helper."""
    waited = {name: ns - before.broker_waited.get(name, 0) for name, ns in after.broker_waited.items()}
    loop = waited.pop(before.loop, 0)
    return loop + max(waited.values(), default=0) + after.own_waited - before.own_waited


def own_ns(took_ns: int, before: Seen, after: Seen) -> int:
    """What is left of a round trip without the time in which somebody waited for a processor."""
    ran_ns = after.loop_ran - before.loop_ran
    return max(took_ns - waited_ns(before, after), min(ran_ns, took_ns))


def _schedstat(path: Path) -> tuple[int, int]:
    try:
        ran, waited, _ = path.read_text().split()
    except OSError:
        return 0, 0  # the thread has ended
    return int(ran), int(waited)


def _requests() -> dict[str, tuple[Message, int, bool]]:
    """Name of a round trip: request, version, whether it goes to the controller's listener."""
    data = ProduceRequest.PartitionProduceData(0, bytes(bad_batches.good(1)))
    produce = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(WATCHED_TOPIC, bytes(16), [data])],
    )
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    fetch = FetchRequest(
        max_wait_ms=0, max_bytes=1_000, topics=[FetchRequest.FetchTopic(WATCHED_TOPIC, bytes(16), [wanted])]
    )
    metadata = MetadataRequest(
        [MetadataRequest.MetadataRequestTopic(name=WATCHED_TOPIC)], allow_auto_topic_creation=False
    )
    return {
        "ApiVersions": (ApiVersionsRequest("watcher", "1"), 4, False),
        "Metadata": (metadata, 12, False),
        "Produce": (produce, 12, False),
        "Fetch": (fetch, 12, False),
        "ApiVersions of the controller": (ApiVersionsRequest("watcher", "1"), 4, True),
    }


def _watch(pipe: Connection[Any, Any], address: str, controller: str, pid: int) -> None:
    count, slow, error = 0, list[Trip](), ""
    pipe.recv()
    try:
        wait = ProcessorWait(pid)
        with (
            WireClient(address, client_id="watcher", timeout_seconds=_TIMEOUT_SECONDS) as client,
            WireClient(controller, client_id="watcher", timeout_seconds=_TIMEOUT_SECONDS) as to_controller,
        ):
            pipe.send(None)
            while not pipe.poll():
                for what, (request, version, is_controller) in _requests().items():
                    before, began_ns = wait.read(), time.monotonic_ns()
                    (to_controller if is_controller else client).ask(request, version)
                    took_ns = time.monotonic_ns() - began_ns
                    count += 1
                    if took_ns > REPORTED_MS * NS_PER_MS:
                        slow.append(_trip(what, took_ns, before, wait.read()))
                        slow = sorted(slow, key=lambda trip: -trip.own_ms)[:_LONGEST_KEPT]
                time.sleep(_PAUSE_SECONDS)
    except (OSError, ConnectionEnded, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    with suppress(BrokenPipeError):
        pipe.send(Watched(count, slow, error))


def _trip(what: str, took_ns: int, before: Seen, after: Seen) -> Trip:
    ran_ns, left_ns = after.loop_ran - before.loop_ran, own_ns(took_ns, before, after)
    return Trip(what, time.monotonic(), took_ns / NS_PER_MS, left_ns / NS_PER_MS, ran_ns / NS_PER_MS)
