"""An exactly-once pipeline of Kafka Connect whose workers are killed, and their broker with them.

Lines are appended to a file. A source of one worker carries them into a topic, in transactions together with
its position in the file, and a sink carries them into another file. Two workers make the cluster: when one
dies by kill -9 the other takes its tasks over. At the end the topic, read with read_committed, must hold each
line once, in the file's order. The sink promises each line at least once, and in the order of the topic again
and again after a kill.

By hand: `python -m tests.support.brokers.connect_under_fire --kills 30 --seed 7`; `--kind kafka` does it to
Apache Kafka.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Final, TypeVar

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.streams_under_fire import HEAP, MOST_REPEATED, SMALL
from tests.support.clients.committed import EndsOf, read
from tests.support.clients.librdkafka import create_topic
from tests.support.genuine.connect_worker import ConnectWorker
from tests.support.genuine.genuine_kafka import GenuineKafka

__all__ = ["AT_SINK", "AT_SOURCE", "BROKER", "FAULTS", "ConnectFire", "Outcome"]

AT_SOURCE, AT_SINK, BROKER, BOTH_WORKERS = FAULTS = (
    "kill -9 of the source's worker",
    "kill -9 of the sink's worker",
    "kill -9 of the broker",
    "kill -9 of both workers",
)
SOURCE: Final = "lines-in"
SINK: Final = "lines-out"
TOPIC: Final = "lines"
PATIENCE_SECONDS: Final = 120
PERIOD_SECONDS: Final = 0.01
CALM_SECONDS: Final = 0.5

FoundT = TypeVar("FoundT")


class Outcome:
    """What happened, in numbers; `line` is for people."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.lines = 0
        self.aborted = 0
        """Records of the topic that read_committed does not show."""
        self.repeated = 0
        """Lines of the sink's file that are there once more."""
        self.torn = 0
        """Lines of the sink's file at which its worker died."""

    @property
    def line(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{faults}; {self.lines} lines, each once in the topic; {self.aborted} aborted; "
            f"in the sink's file {self.repeated} repeated and {self.torn} torn"
        )


class LineWriter:
    """Appends one line after the other to a file."""

    def __init__(self, file: Path) -> None:
        self.lines: list[str] = []
        self._file = file
        self._file.touch()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _write(self) -> None:
        with open(self._file, "a", buffering=1) as file:
            for number in count():
                if self._ends.wait(PERIOD_SECONDS):
                    return
                line = f"{number}:".ljust(20 + number % 50, ".") + "|"
                file.write(f"{line}\n")
                self.lines.append(line)


class ConnectFire:
    """`ConnectFire(broker, folder, seed).burn(faults)` does all of it; it raises where a line is lost."""

    def __init__(self, broker: BarnabasProcess | GenuineKafka, folder: Path, seed: int) -> None:
        """broker: runs, and is empty. folder: for the workers and the files."""
        self._broker = broker
        self._servers = broker.bootstrap_servers
        self._random = random.Random(seed)
        self._sink_file = folder / "lines-out"
        self._writer = LineWriter(folder / "lines-in")
        self._connectors = {
            SOURCE: {
                "connector.class": "FileStreamSource",
                "tasks.max": "1",
                "file": str(folder / "lines-in"),
                "topic": TOPIC,
                "batch.size": "20",
                "exactly.once.support": "required",
                "transaction.boundary": "interval",
                "transaction.boundary.interval.ms": "300",
            },
            SINK: {
                "connector.class": "FileStreamSink",
                "tasks.max": "1",
                "file": str(self._sink_file),
                "topics": TOPIC,
            },
        }
        self._workers = [ConnectWorker(name, self._servers, folder) for name in ("worker-1", "worker-2")]

    def burn(self, faults: Sequence[str]) -> Outcome:
        outcome = Outcome()
        create_topic(self._servers, TOPIC)
        try:
            for worker in self._workers:
                worker.begin()
            for name, config in self._connectors.items():
                self._ask_any(partial(_configure, name=name, config=config))
            self._writer.start()
            self._disturb(faults, outcome)
            # A source commits when a later batch comes: lines are written until these are through.
            written = len(self._writer.lines)
            last = self._writer.lines[-1]
            self._await(lambda: last in self._sunk() or None, lambda: f"{last!r} in the sink's file")
            for worker in self._workers:
                worker.ask_to_stop()
            for worker in self._workers:
                worker.await_end()
        finally:
            self._writer.end()
            for worker in self._workers:
                worker.kill()
        self._check(written, outcome)
        return outcome

    def _disturb(self, faults: Sequence[str], outcome: Outcome) -> None:
        """A kill of the source's worker that has come too late for the transaction is made once more."""
        ends = EndsOf(self._servers, 1, TOPIC)
        high, size_bytes = -1, 0
        coming = deque(faults)
        while coming and outcome.faults.total() < len(faults) + MOST_REPEATED:
            fault = coming.popleft()
            # Both tasks have gone on since the former kill: what is told of their places is not of before.
            high = self._await_transaction(ends, high)
            self._await_grown(size_bytes)
            source, sink = (self._ask_any(partial(_place, name=name)) for name in (SOURCE, SINK))
            time.sleep(self._random.uniform(0, CALM_SECONDS))
            high = self._await_transaction(ends, high)
            was_open = self._kill(fault, {AT_SOURCE: source, AT_SINK: sink}.get(fault), ends)
            if fault == AT_SOURCE and not was_open:
                coming.appendleft(fault)
            outcome.faults[fault] += 1
            size_bytes = self._sink_file.stat().st_size
        ends.close()

    def _kill(self, fault: str, address: str | None, ends: EndsOf) -> bool:
        """The killed are started again; a worker's tasks go to the other one meanwhile. Whether a transaction
        was open when workers were dead."""
        if fault == BROKER:
            self._broker.kill()
            time.sleep(self._random.uniform(0, CALM_SECONDS))
            self._broker.start()
            return False
        killed = [each for each in self._workers if fault == BOTH_WORKERS or each.address == address]
        assert killed, f"no worker is at {address}"
        for worker in killed:
            worker.kill()
        was_open = ends.stay_open()
        for worker in killed:
            worker.begin()
        return was_open

    def _await_transaction(self, ends: EndsOf, high: int) -> int:
        """A transaction is open, and what lay before the former kill is decided. The high watermark now."""
        found = None

        def open_again() -> int | None:
            nonlocal found
            found = ends.now()
            return found.high if found is not None and high < found.stable < found.high else None

        return self._await(open_again, lambda: f"an open transaction; since {high} the ends came to {found}")

    def _await_grown(self, size_bytes: int) -> None:
        """The sink's file is larger than this."""

        def grown() -> bool | None:
            return (self._sink_file.exists() and self._sink_file.stat().st_size > size_bytes) or None

        self._await(grown, lambda: f"a sink's file of more than {size_bytes} bytes")

    def _ask_any(self, question: Callable[[ConnectWorker], FoundT | None]) -> FoundT:
        """The first worker's answer that is one. A worker refuses while its cluster rebalances."""

        def ask() -> FoundT | None:
            answers = (question(worker) for worker in self._workers)
            return next((each for each in answers if each is not None), None)

        return self._await(ask, lambda: "an answer of a worker")

    def _await(self, found: Callable[[], FoundT | None], what: Callable[[], str]) -> FoundT:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (answer := found()) is None:
            for worker in self._workers:
                worker.require_running()
            if time.monotonic() > deadline:
                tails = "\n".join(worker.log_tail() for worker in self._workers)
                raise AssertionError(f"not in {PATIENCE_SECONDS} s: {what()}\n{tails}")
            time.sleep(0.02)
        return answer

    def _sunk(self) -> list[str]:
        return self._sink_file.read_text().splitlines() if self._sink_file.exists() else []

    def _check(self, written: int, outcome: Outcome) -> None:
        """written: so many lines must be through."""
        lines = self._writer.lines
        found = [(message.value() or b"").decode() for message in read(self._servers, 1, TOPIC)]
        pairs = enumerate(zip(found, lines, strict=False))
        wrong = next((f"{place}: {pair}" for place, pair in pairs if pair[0] != pair[1]), None)
        assert wrong is None, f"a record of the topic and the line that belongs there, {wrong}"
        assert written <= len(found) <= len(lines), (written, len(found), len(lines))
        places = {line: place for place, line in enumerate(found)}
        sunk = self._sunk()
        whole = [places[line] for line in sunk if line in places]
        jumps = [pair for pair in pairwise([-1, *whole]) if pair[1] > pair[0] + 1]
        assert not jumps, f"the sink left lines out, between {jumps[:3]}"
        missing = set(range(written)).difference(whole)
        assert not missing, f"{len(missing)} lines are not in the sink's file, the first is {min(missing)}"
        outcome.lines = len(found)
        outcome.repeated = len(whole) - len(set(whole))
        outcome.torn = len(sunk) - len(whole)
        torn = [line for line in sunk if line not in places]
        assert len(torn) <= sum(outcome.faults.values()), torn
        outcome.aborted = len(read(self._servers, 1, TOPIC, is_committed=False)) - len(found)


def _configure(worker: ConnectWorker, name: str, config: Mapping[str, str]) -> object:
    return worker.ask(f"/connectors/{name}/config", config)


def _place(worker: ConnectWorker, name: str) -> str | None:
    return worker.runs_at(name)


def main() -> None:
    parser = argparse.ArgumentParser(description="A pipeline of Kafka Connect under fire.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=["ours", "kafka"], default="ours")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="connect-under-fire-"))
    print(f"logs and data: {folder}", flush=True)
    data = folder / "broker"
    broker = BarnabasProcess(data, SMALL) if options.kind == "ours" else GenuineKafka(data, SMALL, heap=HEAP)
    faults = [FAULTS[number % len(FAULTS)] for number in range(options.kills)]
    random.Random(options.seed).shuffle(faults)
    with broker.start():
        outcome = ConnectFire(broker, folder, options.seed).burn(faults)
    print(outcome.line)
    assert outcome.aborted > 0, "no kill has met an open transaction"


if __name__ == "__main__":
    main()
