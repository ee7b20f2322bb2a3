"""Barnabas and Apache Kafka on the same machine, in turns, driven by the same client: ``make bench``.

For every case both brokers get a fresh topic and the same load for a few seconds, one after
the other, several rounds; before its first round of a case Apache Kafka runs warm on it (60 s
by default), since its compiler needs that. Medians go to ``RESULTS.md`` as a table of ratios,
with the processor seconds of the brokers and of the client told apart. Wall time on a shared
machine is noisy; processor time per GB is steadier.

    python -m tests.performance.side_by_side [--rounds 3] [--seconds 3] [--warm 60] [--only "fetch"]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.performance import results
from tests.performance.cases import Case, cases
from tests.performance.contenders import Contender, Topic, start_barnabas, start_kafka
from tests.performance.frames import batch_of
from tests.performance.latency import end_to_end
from tests.performance.memory import memory_and_start

MAX_BYTES: Final = 1 << 30
"""One measurement moves no more than this, so that the disk's write-back does not decide it."""
FETCH_TOPIC_BYTES: Final = 256 << 20
FETCH_BATCH_BYTES: Final = 64 << 10


class Measurement(NamedTuple):
    """One run of one broker. Rates per second of wall time, processor seconds of broker and client."""

    megabytes_per_second: float
    requests_per_second: float
    broker_ms_per_gb: float
    client_ms_per_gb: float
    p50_us: float
    p99_us: float


def drive(contender: Contender, topic: Topic, case: Case, seconds: float, **more: Any) -> Measurement:
    """The raw client as a process, once; the broker's processor time is taken around it."""
    load = {
        "kind": "fetch" if case.kind == "fetch" else "produce",
        "port": contender.port,
        "seconds": seconds,
        "partitions": topic.each_partition,
        "connections": case.connections,
        "request_bytes": case.request_bytes,
        "record_bytes": case.record_bytes,
        "idempotent": case.idempotent,
        "producer_id": int(time.monotonic() * 1000) % (1 << 40) * 1000,
        "max_bytes": MAX_BYTES if case.kind != "fetch" else MAX_BYTES * 8,
    } | more
    cpu = contender.cpu_seconds()
    command = [sys.executable, "-m", "tests.performance.raw_client", json.dumps(load)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{contender.name}, {case.title}: {done.stderr[-2000:]}")
    outcome = json.loads(done.stdout)
    broker_cpu = contender.cpu_seconds() - cpu
    gigabytes = outcome["bytes"] / 1e9
    return Measurement(
        outcome["bytes"] / 1e6 / outcome["seconds"],
        outcome["requests"] / outcome["seconds"],
        broker_cpu * 1000 / gigabytes,
        outcome["cpu_seconds"] * 1000 / gigabytes,
        outcome["latency_us"]["p50"],
        outcome["latency_us"]["p99"],
    )


def settle(contenders: Sequence[Contender]) -> None:
    """Wait until nothing of what was before goes on: the disk's write-back, a virtual machine's compiler and
    collector, the deletion of the last topic. One broker's aftermath must not slow the other."""
    os.sync()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        before = sum(each.cpu_seconds() for each in contenders)
        time.sleep(0.4)
        busy = sum(each.cpu_seconds() for each in contenders) - before
        if busy <= 0.03 and _unwritten_kib() <= 64 << 10:
            return


def _unwritten_kib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Dirty:", "Writeback:")))


def measure(contender: Contender, case: Case, seconds: float) -> Measurement:
    """A fresh topic, one run, the topic deleted again."""
    topic = contender.make_topic(case.partitions if case.partitions > 1 else case.connections)
    try:
        if case.kind != "fetch":
            return drive(contender, topic, case, seconds)
        more = fill(contender, topic)
        return drive(contender, topic, case, seconds, **more)
    finally:
        contender.delete_topic(topic)


def fill(contender: Contender, topic: Topic) -> dict[str, int]:
    """Give a fetch something to read, and say how the batches lie."""
    batch, count = batch_of(FETCH_BATCH_BYTES - 1024, 1000)
    batches = FETCH_TOPIC_BYTES // len(batch)
    case = Case("produce", FETCH_BATCH_BYTES - 1024, 1000)
    drive(contender, topic, case, 60, max_bytes=batches * len(batch))
    return {"end_offset": batches * count, "records_per_batch": count, "batch_bytes": len(batch)}


def warm(contender: Contender, case: Case, seconds: float) -> None:
    """The case's own load until it has run for ``seconds``, a fresh topic each time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        measure(contender, case, min(left, 5))


def median(measurements: Sequence[Measurement]) -> Measurement:
    return Measurement(*(statistics.median(column) for column in zip(*measurements, strict=True)))


class Pair(NamedTuple):
    """One row of the table."""

    case: Case
    ours: Measurement
    theirs: Measurement


def compare(ours: Contender, full: Contender, kafka: Contender, options: argparse.Namespace) -> list[Pair]:
    pairs = []
    for case in cases():
        if options.only not in case.title:
            continue
        mine = full if case.full else ours
        warm(mine, case, 1)
        warm(kafka, case, options.warm)
        rounds: tuple[list[Measurement], list[Measurement]] = ([], [])
        for _ in range(options.rounds):
            for contender, taken in zip((mine, kafka), rounds, strict=True):
                settle((ours, full, kafka))
                taken.append(measure(contender, case, options.seconds))
        pair = Pair(case, median(rounds[0]), median(rounds[1]))
        print(results.row(pair), flush=True)
        pairs.append(pair)
    return pairs


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument(
        "--warm", type=float, default=60.0, help="seconds of load before Apache Kafka is measured on a case"
    )
    parser.add_argument("--only", default="", help="cases whose title has these words")
    parser.add_argument("--no-write", action="store_true", help="print the tables, leave RESULTS.md as it is")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        folder = Path(name)
        kafka = start_kafka(folder)
        ours = start_barnabas(folder)
        full = start_barnabas(folder, barnabas__record__validation="full")
        try:
            print(results.HEAD, flush=True)
            pairs = compare(ours, full, kafka, options)
            rest = "" if options.only else end_to_end(ours, kafka) + memory_and_start(folder, ours, kafka)
        finally:
            for contender in (ours, full, kafka):
                contender.stop()
    print(rest)
    if not options.no_write and not options.only:
        results.write(pairs, rest, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
