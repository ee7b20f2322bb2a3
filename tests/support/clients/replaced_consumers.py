"""Many genuine consumers in several groups and processes, a third of them replaced every second.

    python -m tests.support.clients.replaced_consumers [--broker kafka] [--consumers 200] [--processes 4]
        [--seconds 30]

Starts a broker, has consumers of librdkafka join three groups (`newer` of the consumer protocol, `classic`,
and `mixed` of both), replaces a third of them in each second, and then lets them come to rest. It prints
whether a partition was ever owned by two, by the words of the owners (see `ownership`), and how long after
the last replacement everything was shared evenly.

A process of consumers is this module too; it reads nothing, writes words, and stops replacing at SIGUSR1 and
itself at SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic
from tests.support.clients.ownership import (
    BORN,
    CLOSES,
    ENDS,
    GIVES,
    HAS,
    LOST,
    Verdict,
    Word,
    judged,
    stable_since_ns,
    word,
)
from tests.support.genuine.genuine_kafka import GenuineKafka

SETTINGS: Final = {
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "500",
}
GROUPS: Final = ("newer", "newer", "classic", "mixed")
"""Of the consumers in turn."""
CLOSING_THREADS: Final = 32
POLL_PAUSE_SECONDS: Final = 0.02
QUIET_SECONDS: Final = 4
"""Nothing is said for so long: longer than any heartbeat interval."""


class Outcome(NamedTuple):
    words: list[Word]
    verdict: Verdict
    to_stable_seconds: float | None
    """From the last replacement on; None if it did not come about."""


class Living:
    """One consumer, which says what it has."""

    def __init__(self, address: str, group: str, name: str, *, is_newer: bool) -> None:
        self.group, self.name = group, name
        self._has: set[int] = set()
        self._closes = False
        own = {"group.protocol": "consumer"} if is_newer else {
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }  # fmt: skip
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "client.id": name,
                "enable.auto.commit": False,
                "log_level": 0,
                **own,
            }
        )
        self._say(BORN)
        self.consumer.subscribe(
            [group], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._was_lost
        )

    def _say(self, verb: str, partitions: Sequence[int] = (), at_ns: int | None = None) -> None:
        said = Word(at_ns or time.monotonic_ns(), verb, self.group, self.name, tuple(partitions))
        os.write(sys.stdout.fileno(), f"{said.line()}\n".encode())

    def _assigned(self, _: Consumer, places: list[TopicPartition]) -> None:
        """librdkafka may still serve an assignment while it closes; nobody works on it."""
        if self._closes:
            return
        partitions = [each.partition for each in places]
        self._say(HAS, partitions)
        self._has.update(partitions)

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._give_up(GIVES, places)

    def _was_lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._give_up(LOST, places)

    def _give_up(self, verb: str, places: list[TopicPartition]) -> None:
        partitions = [each.partition for each in places]
        self._say(verb, partitions)
        self._has.difference_update(partitions)

    def poll(self) -> None:
        with suppress(KafkaException):
            self.consumer.poll(0)

    def close(self) -> None:
        """What no callback gives up was given up when this was called."""
        self._closes = True
        before_ns = time.monotonic_ns()
        self._say(CLOSES, at_ns=before_ns)
        with suppress(KafkaException):
            self.consumer.close()
        if self._has:
            self._say(GIVES, sorted(self._has), before_ns)
        self._say(ENDS)


def work(address: str, process: int, count: int) -> None:
    """A process of consumers."""
    told: set[int] = set()
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, _: told.add(number))
    born = 0

    def new(slot: int) -> Living:
        nonlocal born
        born += 1
        number = process * count + slot
        group = GROUPS[number % len(GROUPS)]
        is_newer = group == "newer" or (group == "mixed" and (number // len(GROUPS) + born) % 2 == 0)
        return Living(address, group, f"c{process}-{slot}-{born}", is_newer=is_newer)

    living = [new(slot) for slot in range(count)]
    next_slot, next_at = 0, time.monotonic() + 1
    with ThreadPoolExecutor(CLOSING_THREADS) as closing:
        while signal.SIGTERM not in told:
            for each in living:
                each.poll()
            if signal.SIGUSR1 not in told and time.monotonic() >= next_at:
                next_at += 1
                for _ in range(max(1, count // 3)):
                    closing.submit(living[next_slot].close)
                    living[next_slot] = new(next_slot)
                    next_slot = (next_slot + 1) % count
            time.sleep(POLL_PAUSE_SECONDS)
    os._exit(0)  # nobody waits for what they would say now


class Crowd:
    """The processes, and all that was said."""

    def __init__(self, address: str, consumers: int, processes: int) -> None:
        self.words: list[Word] = []
        self._lock = threading.Lock()
        each = consumers // processes
        command = [sys.executable, "-m", "tests.support.clients.replaced_consumers", "--work", address]
        self._processes = [
            subprocess.Popen(
                [*command, "--process", str(number), "--consumers", str(each)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for number in range(processes)
        ]
        for process in self._processes:
            threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            raise RuntimeError("the process has no pipe")
        for line in process.stdout:
            with self._lock:
                self.words.append(word(line))

    def said(self) -> list[Word]:
        with self._lock:
            return list(self.words)

    def tell(self, number: int) -> None:
        for process in self._processes:
            process.send_signal(number)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def churn(
    address: str, *, consumers: int, processes: int, seconds: float, handed: int = 0, patience: float = 90
) -> Outcome:
    """Have consumers come and go, and judge what they say. They do so for longer than the seconds where no
    more partitions than `handed` have gone from one to another by then: groups take their time on a busy
    machine."""
    partitions = {
        group: 2 * consumers * GROUPS.count(group) // len(GROUPS) for group in dict.fromkeys(GROUPS)
    }
    for group, count in partitions.items():
        create_topic(address, group, count)
    crowd = Crowd(address, consumers, processes)
    try:
        if not until(lambda: sum(each.verb == BORN for each in crowd.said()) >= consumers, patience):
            raise RuntimeError("not all consumers were made")
        time.sleep(seconds)
        until(lambda: judged(crowd.said()).handed > handed, patience)
        crowd.tell(signal.SIGUSR1)

        def is_at_rest() -> bool:
            words = crowd.said()
            quiet_ns = time.monotonic_ns() - max(each.at_ns for each in words)
            closed = sum(each.verb == CLOSES for each in words) == sum(each.verb == ENDS for each in words)
            is_quiet = closed and quiet_ns > QUIET_SECONDS * 1_000_000_000
            return is_quiet and stable_since_ns(words, partitions) is not None

        until(is_at_rest, patience)
        words = crowd.said()
        stable_ns = stable_since_ns(words, partitions)
        last_ns = max(each.at_ns for each in words if each.verb in (BORN, CLOSES))
    finally:
        crowd.end()
    to_stable = None if stable_ns is None else (stable_ns - last_ns) / 1e9
    return Outcome(words, judged(words), to_stable)


def new_broker(which: str, folder: Path) -> BarnabasProcess | GenuineKafka:
    genuine = GenuineKafka(folder / "data", SETTINGS)
    return genuine if which == "kafka" else BarnabasProcess(folder / "data", genuine.properties)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--broker", choices=["barnabas", "kafka"], default="barnabas")
    parser.add_argument("--consumers", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--patience", type=float, default=180)
    parser.add_argument("--words", type=Path, help="a file for all that was said")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, default=0, help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.work:
        work(options.work, options.process, options.consumers)
        return
    with tempfile.TemporaryDirectory() as folder, new_broker(options.broker, Path(folder)) as broker:
        outcome = churn(
            broker.bootstrap_servers,
            consumers=options.consumers,
            processes=options.processes,
            seconds=options.seconds,
            patience=options.patience,
        )
    if options.words:
        options.words.write_text("".join(f"{each.line()}\n" for each in sorted(outcome.words)))
    verdict = outcome.verdict
    print(
        f"{options.broker}: {options.consumers} consumers, {verdict.replaced} replaced, {verdict.handed} "
        f"partitions handed over, {verdict.lost} times lost, {len(verdict.violations)} owned twice; "
        f"at rest after {outcome.to_stable_seconds} s"
    )
    print("\n".join(verdict.violations[:20]))
    if verdict.violations or outcome.to_stable_seconds is None:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
