"""What the controller pays when a broker of many partitions goes or comes back.

    python -m tests.performance.many_partitions [PARTITIONS [BROKERS]]

One controller on files in memory, 10,000 partitions of replication factor 3 in 100 topics on three brokers,
with eligible leader replicas. A broker shuts down in a controlled way, another falls silent, both come back;
then all are lost, and come back one by one. For each event three numbers come out: records written,
processor seconds of all turns of the loop that it took, and of the longest of these turns. With 1000 brokers
each of them has thirty partitions, and an event should cost next to nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from protocol.serving.pending import Pending
from tests.support.rigs.controllers import ControllerFixture
from tests.support.rigs.hand_clock import HandClock, HandTimer, HandTimers

TOPICS = 100
HEARTBEATS = 1_000


class TimedTimers(HandTimers):
    """Hand-moved timers that know how long their longest call took."""

    longest_seconds = 0.0

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> HandTimer:
        return super().call_at(deadline_ms, partial(self._timed, callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        super().call_soon(partial(self._timed, callback))

    def _timed(self, callback: Callable[[], None]) -> None:
        began = time.process_time()
        callback()
        self.longest_seconds = max(self.longest_seconds, time.process_time() - began)


class TimedFixture(ControllerFixture):
    """A controller whose handlers count as turns, too."""

    timed = TimedTimers(HandClock())

    def call(self, api_key: ApiKey, request: Any, version: int | None = None) -> Any:
        registration = self.services.handlers.get(api_key)
        assert registration is not None
        context = self.context(api_key, registration.max_version if version is None else version)
        began = time.process_time()
        answer = registration.handler(self.services, context, request)
        self.timed.longest_seconds = max(self.timed.longest_seconds, time.process_time() - began)
        self.settle()
        return answer.response if isinstance(answer, Pending) else answer


def measure(name: str, fixture: TimedFixture, event: Callable[[], None]) -> None:
    fixture.timed.longest_seconds = 0.0
    offset = fixture.log.end_offset
    began = time.process_time()
    event()
    spent = time.process_time() - began
    records = fixture.log.end_offset - offset
    longest_ms = 1000 * fixture.timed.longest_seconds
    print(f"{name:34} {records:6} records {spent:7.3f} s, longest turn {longest_ms:6.1f} ms", flush=True)


def fill(fixture: ControllerFixture, partitions: int) -> None:
    for first in range(0, TOPICS, 10):
        topics = [
            CreateTopicsRequest.CreatableTopic(f"topic-{number}", partitions // TOPICS, 3)
            for number in range(first, first + 10)
        ]
        made = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics))
        assert not any(each.error_code for each in made.topics)


class Events:
    """What happens to the brokers, numbered from 1."""

    def __init__(self, fixture: TimedFixture, brokers: int) -> None:
        self.fixture = fixture
        self.brokers = range(1, brokers + 1)
        self.epochs: dict[int, int] = {}
        for broker in self.brokers:
            self.bring_up(broker, life=1)

    def bring_up(self, broker: int, life: int) -> None:
        """A new life of the broker registers and is unfenced."""
        identity, directory = (life, broker), (0xFFFF, broker)
        named = [b"".join(number.to_bytes(8) for number in pair) for pair in (identity, directory)]
        self.epochs |= self.fixture.bring_up(broker, incarnation=named[0], log_dirs=[named[1]])

    def shut_down(self) -> None:
        """Broker 1, with as many heartbeats as it takes."""
        for _ in range(HEARTBEATS):
            if self.fixture.heartbeat(1, self.epochs[1], want_shut_down=True).should_shut_down:
                return
            for other in self.brokers[1:]:
                self.fixture.heartbeat(other, self.epochs[other])
        raise AssertionError("the broker may shut down in the end")

    def fall_silent(self) -> None:
        """Broker 2."""
        for _ in range(2):
            for broker in self.brokers[2:]:
                self.fixture.heartbeat(broker, self.epochs[broker])
            self.fixture.timers.advance(5_000)
        self.fixture.settle()
        assert self.fixture.controller.image.brokers.by_id[2].fenced

    def return_two(self) -> None:
        for broker in (1, 2):
            self.bring_up(broker, life=2)

    def lose_all(self) -> None:
        for broker in self.brokers:
            self.fixture.heartbeat(broker, self.epochs[broker], want_fence=True)

    def return_all(self) -> None:
        for broker in self.brokers:
            self.fixture.heartbeat(broker, self.epochs[broker])


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    partitions, brokers = (*given, *(10_000, 3)[len(given) :])
    timers = TimedFixture.timed
    fixture = TimedFixture(clock=timers.clock, timers=timers, elr=True)
    events = Events(fixture, brokers)
    print(f"{partitions} partitions of 3 replicas on {brokers} brokers")
    measure("created", fixture, lambda: fill(fixture, partitions))
    measure("controlled shutdown", fixture, events.shut_down)
    measure("session time-out", fixture, events.fall_silent)
    measure("two new lives are registered", fixture, events.return_two)
    measure("all are fenced", fixture, events.lose_all)
    measure("all are unfenced", fixture, events.return_all)


if __name__ == "__main__":
    main()
