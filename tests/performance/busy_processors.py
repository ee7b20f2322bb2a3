"""Small batches on a machine that is short of processors: is its shortage taken for a slow disk?

    python -m tests.performance.busy_processors [seconds] [turns] [another checkout, for comparison]

A broker of this checkout, and one of the other if it is named, get the same load by turns: small requests
from a raw client, first with the processors left to them, then beside one busy process for each processor;
with the logs on the disk, then in memory (/dev/shm). Printed for each: records a second and the broker's
processor seconds for a million records (the median of the turns, and the least and the most), and how often a
directory was taken for slow.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.performance.cases import Case
from tests.performance.contenders import Contender, OtherCheckout
from tests.performance.measuring import drive
from tests.support.brokers.broker_process import BarnabasProcess

PARTITIONS: Final = 8
CONNECTIONS: Final = 4
REQUEST_BYTES: Final = 1024
RECORD_BYTES: Final = 100
CASE: Final = Case("produce", REQUEST_BYTES, RECORD_BYTES, CONNECTIONS, partitions=PARTITIONS)
BUSY: Final = "while True: pass"


@contextmanager
def busy_neighbours() -> Iterator[None]:
    """One for each processor."""
    crowd = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for each in crowd:
            each.kill()
            each.wait()


def turn(contender: Contender, seconds: float) -> tuple[float, float]:
    """Records a second, and processor seconds for a million of them."""
    topic = contender.make_topic(PARTITIONS)
    taken = drive(contender, topic, CASE, seconds)
    contender.delete_topic(topic)
    records = REQUEST_BYTES // RECORD_BYTES
    return taken.requests_per_second * records, taken.broker_us / records


def slow_directories(contender: Contender) -> int:
    """How often a directory became slow, as the log says."""
    process = contender.process
    text = process.log_file.read_text() if isinstance(process, BarnabasProcess) else ""
    return text.count("appends there go through helper threads")


def show(name: str, figures: list[tuple[float, float]], slow: int) -> None:
    rates, costs = zip(*figures, strict=True)
    print(
        f"  {name:<12} {statistics.median(rates) / 1000:6.0f} ({min(rates) / 1000:.0f} to "
        f"{max(rates) / 1000:.0f}) thousand records/s   {statistics.median(costs):5.2f} "
        f"({min(costs):.2f} to {max(costs):.2f}) s per million   slow {slow} times",
        flush=True,
    )


def measure(folder: Path, other: Path | None, seconds: float, turns: int) -> None:
    with ExitStack() as stack:
        contenders = [Contender("here", BarnabasProcess(folder / "here"))]
        stack.callback(contenders[0].stop)
        if other is not None:
            contenders.append(Contender("the other", OtherCheckout(folder / "other", other)))
            stack.callback(contenders[1].stop)
        for is_busy in (False, True):
            print(" beside busy processors" if is_busy else " processors left to it")
            seen = {each.name: slow_directories(each) for each in contenders}
            figures: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contenders}
            with busy_neighbours() if is_busy else ExitStack():
                for number in range(turns):
                    for each in contenders[:: 1 if number % 2 else -1]:
                        figures[each.name].append(turn(each, seconds))
            for each in contenders:
                show(each.name, figures[each.name], slow_directories(each) - seen[each.name])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    other = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    print(f"{CONNECTIONS} connections, requests of {REQUEST_BYTES} bytes, {turns} turns of {seconds:g} s")
    for where in (None, "/dev/shm"):
        print("logs in memory" if where else "logs on the disk")
        with tempfile.TemporaryDirectory(prefix="busy-", dir=where) as folder:
            measure(Path(folder), other, seconds, turns)


if __name__ == "__main__":
    main()
