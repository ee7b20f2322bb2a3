"""An exactly-once application of Kafka Streams, killed again and again, and its broker with it.

The application (`StreamsJob.java`) counts words and joins orders with payments, by way of repartition topics,
state stores and changelogs. While it is fed an instance of it dies by kill -9, the broker does, or all at
once; an instance comes back without its folder, or after a pause in which others took it for dead and its
transaction ran out of time. Each fault waits until a transaction is open. At the end the output,
read with read_committed, must be what the same application makes of the same input undisturbed, and what a
plain model makes of it (`tests.support.clients.streams_work`).

By hand: `python -m tests.support.brokers.streams_under_fire --kills 30 --seed 7`; `--kind kafka` does it to
Apache Kafka.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Message

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.committed import EndsOf, read
from tests.support.clients.librdkafka import create_topic
from tests.support.clients.streams_work import OUTPUTS, PARTITIONS, WINDOW_MS, Determined, Feeder, Record
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.java_program import JavaProgram
from tests.support.genuine.kafka_jars import java_command
from tests.support.genuine.tool_server import compile_java

__all__ = ["FAULTS", "HEAP", "MOST_REPEATED", "SMALL", "Outcome", "StreamsFire"]

APPLICATION, BROKER, BOTH, FOLDER, PAUSE = FAULTS = (
    "kill -9 of the application",
    "kill -9 of the broker",
    "kill -9 of both",
    "application killed and its folder lost",
    "application paused for long",
)
PAUSE_SECONDS: Final = 13
"""Longer than the session of a member (6 s) and the time of a transaction (10 s)."""
SMALL: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
INPUTS: Final = "in"
HEAP: Final = "256m"
PATIENCE_SECONDS: Final = 120
POLL_SECONDS: Final = 0.02
CALM_SECONDS: Final = 0.5
"""At most, between the sight of an open transaction and the wait for the one that the kill meets."""
MOST_REPEATED: Final = 10
"""The most kills of a run that are made once more because they have met no transaction."""


class Outcome:
    """What happened, in numbers; `line` is for people."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.items = 0
        self.records = 0
        """Of the output, all compared."""
        self.aborted = 0
        """Records of the output that read_committed does not show."""
        self.pauses: list[float] = []
        """Seconds from a kill until something new was committed, and a transaction was open again."""

    @property
    def line(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{faults}; {self.items} items in, {self.records} records out, the same as undisturbed; "
            f"{self.aborted} aborted; longest pause after a kill {max(self.pauses, default=0):.1f} s"
        )


class StreamsFire:
    """`StreamsFire(broker, folder, seed).burn(faults)` does all of it; it raises where the output differs."""

    def __init__(
        self, broker: BarnabasProcess | GenuineKafka, folder: Path, seed: int, *, instances: int = 1
    ) -> None:
        """broker: runs, and is empty. folder: for the application. instances: of what is disturbed."""
        self._broker = broker
        self._instances = instances
        self._folder = folder
        self._random = random.Random(seed)
        self._servers = broker.bootstrap_servers
        self._classpath = compile_java("StreamsJob", folder)

    def burn(self, faults: Sequence[str]) -> Outcome:
        outcome = Outcome()
        feeder = Feeder(self._servers, INPUTS)
        disturbed = self._application("killed", self._instances)
        try:
            self._begin(disturbed)
            feeder.start()
            self._disturb(disturbed, faults, outcome)
            feeder.end()
            expected = Determined.expected(feeder.items, feeder.first_ms)
            shown = self._finish("killed", disturbed, expected)
        finally:
            feeder.stop()
            for each in disturbed:
                each.kill()
        outcome.items, outcome.records = feeder.items, expected.size
        stored = read(self._servers, PARTITIONS, *_outputs("killed"), is_committed=False)
        outcome.aborted = len(stored) - shown
        undisturbed = self._application("undisturbed", 1)
        try:
            self._begin(undisturbed)
            self._finish("undisturbed", undisturbed, expected)
        finally:
            undisturbed[0].kill()
        return outcome

    @staticmethod
    def _begin(instances: list[JavaProgram]) -> None:
        for each in instances:
            each.begin()
        for each in instances:
            each.await_line("RUNNING")

    def _application(self, name: str, instances: int) -> list[JavaProgram]:
        """Its outputs are made here: Streams makes only what is its own."""
        for topic in _outputs(name):
            create_topic(self._servers, topic, PARTITIONS)
        return [self._instance(name, number) for number in range(instances)]

    def _instance(self, name: str, number: int) -> JavaProgram:
        # RocksDB unpacks its library: a process that is killed leaves it behind.
        library = self._folder / f"{name}-{number}-library"
        library.mkdir()
        environment = {"ROCKSDB_SHAREDLIB_DIR": str(library)}
        command = self._command(name, self._state(name, number))
        return JavaProgram(command, self._folder / f"{name}-{number}.log", environment)

    def _state(self, name: str, number: int) -> Path:
        return self._folder / f"{name}-{number}"

    def _command(self, name: str, state: Path) -> list[str]:
        words = (self._servers, name, INPUTS, name, str(state), str(WINDOW_MS))
        command = java_command("StreamsJob", *words, heap=HEAP)
        command[command.index("-cp") + 1] = self._classpath
        return command

    def _disturb(self, application: list[JavaProgram], faults: Sequence[str], outcome: Outcome) -> None:
        """A kill of the application that has come too late for its transaction is made once more."""
        ends = EndsOf(self._servers, PARTITIONS, *_outputs("killed"))
        killed_at, high = time.monotonic(), -1
        coming = deque(faults)
        while coming and outcome.faults.total() < len(faults) + MOST_REPEATED:
            fault = coming.popleft()
            high = self._await_transaction(ends, high, application)
            if outcome.faults:
                outcome.pauses.append(time.monotonic() - killed_at)
            time.sleep(self._random.uniform(0, CALM_SECONDS))
            high = self._await_transaction(ends, high, application)
            killed_at = time.monotonic()
            was_open = self._kill(fault, application, ends)
            if fault == APPLICATION and not was_open:
                coming.appendleft(fault)
            outcome.faults[fault] += 1
        ends.close()

    def _await_transaction(self, ends: EndsOf, high: int, application: list[JavaProgram]) -> int:
        """A transaction is open, and what the former kill has interrupted, up to its high watermark, is
        decided. The high watermark now."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        found = None
        while found is None or not high < found.stable < found.high:
            for each in application:
                each.require_running()
            assert time.monotonic() < deadline, (
                f"since the ends were {high} they came to {found}:\n{application[0].log_tail()}"
            )
            found = ends.now()
            time.sleep(POLL_SECONDS)
        return found.high

    def _kill(self, fault: str, application: list[JavaProgram], ends: EndsOf) -> bool:
        """The killed are started again, and the application is not waited for. Whether a transaction was open
        when the application alone was dead."""
        number = self._random.randrange(len(application))
        one = application[number]
        if fault == PAUSE:
            one.pause()
            time.sleep(PAUSE_SECONDS)
            one.resume()
            return False
        killed = {BROKER: [], BOTH: application}.get(fault, [one])
        for each in killed:
            each.kill()
        was_open = fault == APPLICATION and ends.stay_open()
        if fault in (BROKER, BOTH):
            self._broker.kill()
            time.sleep(self._random.uniform(0, CALM_SECONDS))
            self._broker.start()
        if fault == FOLDER:
            shutil.rmtree(self._state("killed", number), ignore_errors=True)
        for each in killed:
            each.begin()
        return was_open

    def _finish(self, name: str, application: list[JavaProgram], expected: Determined) -> int:
        """The application has done all and leaves; the number of records that it has committed."""
        read(self._servers, PARTITIONS, *_outputs(name), at_least=expected.size)
        for each in application:
            each.require_running()
            each.leave("CLOSED")
        ends = EndsOf(self._servers, PARTITIONS, *_outputs(name))
        left = ends.now()
        ends.close()
        assert left is not None
        assert not left.is_undecided, f"a transaction stays open: {left}"
        found = [_record(message, name) for message in read(self._servers, PARTITIONS, *_outputs(name))]
        difference = Determined.of(found).difference(expected)
        assert not difference, f"the {name} application's output and what it should be:\n{difference}"
        return len(found)


def _outputs(name: str) -> list[str]:
    return [f"{name}-{output}" for output in OUTPUTS]


def _record(message: Message, name: str) -> Record:
    key, value = message.key(), message.value()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    topic = str(message.topic()).removeprefix(f"{name}-")
    return Record(topic, message.partition(), key.decode(), value.decode(), message.timestamp()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description="An application of Kafka Streams under fire.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--instances", type=int, default=2, help="of the application")
    parser.add_argument("--kind", choices=["ours", "kafka"], default="ours")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="streams-under-fire-"))
    print(f"logs and data: {folder}", flush=True)
    data = folder / "broker"
    broker = BarnabasProcess(data, SMALL) if options.kind == "ours" else GenuineKafka(data, SMALL, heap=HEAP)
    faults = [FAULTS[number % len(FAULTS)] for number in range(options.kills)]
    random.Random(options.seed).shuffle(faults)
    with broker.start():
        outcome = StreamsFire(broker, folder, options.seed, instances=options.instances).burn(faults)
    print(outcome.line)
    assert outcome.aborted > 0, "no kill has met an open transaction"


if __name__ == "__main__":
    main()
