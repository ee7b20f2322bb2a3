"""The tables of the benchmark as Markdown, with the machine and the versions that they hold for."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.performance.load import client_name
from tests.performance.measuring import Measurement, least, median
from tests.support.genuine.kafka_jars import KAFKA_VERSION

if TYPE_CHECKING:
    from tests.performance.side_by_side import Row

FILE: Final = Path(__file__).with_name("RESULTS.md")

END: Final = "<!-- Above: written by make bench. Below: other programs, each named. -->\n"
"""What stands behind this line stays when the tables are written."""

HEAD: Final = (
    "| load | Barnabas MB/s | Kafka MB/s | ratio | pump MB/s | Barnabas µs per request, least (median) | Kafka's | ratio | pump's "
    "| p50/p99 µs, Barnabas | Kafka's | client µs per request |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(row: Row) -> str:
    ours, theirs = median(row.ours), median(row.theirs)
    our_least, their_least = least(row.ours), least(row.theirs)
    floor = f"{median(row.floor).megabytes_per_second:,.0f}" if row.floor else ""
    cells = [
        row.case.title,
        f"{ours.megabytes_per_second:,.0f}",
        f"{theirs.megabytes_per_second:,.0f}",
        f"**{ours.megabytes_per_second / theirs.megabytes_per_second:.2f}**",
        floor,
        _cost(row.ours),
        _cost(row.theirs),
        f"**{our_least.broker_us / their_least.broker_us:.2f}**",
        _cost(row.floor) if row.floor else "",
        f"{ours.p50_us:,.0f} / {ours.p99_us:,.0f}",
        f"{theirs.p50_us:,.0f} / {theirs.p99_us:,.0f}",
        f"{least(row.ours).client_us:,.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _cost(runs: Sequence[Measurement]) -> str:
    """Processor time of a request: the least of the runs, and the median."""
    digits = 1 if least(runs).broker_us < 100 else 0
    return f"{least(runs).broker_us:,.{digits}f} ({median(runs).broker_us:,.{digits}f})"


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvloop", "msgspec", "crc32c"))
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}; Python {sys.version.split()[0]}, {packages}"


def write(rows: Sequence[Row], rest: str, options: argparse.Namespace) -> None:
    from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP

    flags = " ".join((f"-Xmx{KAFKA_HEAP}", *KAFKA_FLAGS))
    text = f"""# Side by side with Apache Kafka {KAFKA_VERSION}

`make bench`, {datetime.now(UTC):%Y-%m-%d}. {machine()}.
Apache Kafka: `{flags}`, warmed {options.warm:.0f} s per case. Medians of {options.rounds} rounds of up to {options.seconds:g} s in
turns, at most 1 GB produced per round; 5 requests in flight per connection; {client_name()} moves prebuilt frames. µs per request are
processor time of the broker by the kernel's account, the least of the rounds and the median. A ratio of MB/s above 1 and a ratio of
µs below 1 mean that Barnabas is ahead. Barnabas has one core, Kafka all of them. The pump is a C program that receives, writes to a
file and answers, and checks nothing: the floor.

{HEAD}
"""
    others = FILE.read_text().partition(END)[2]
    FILE.write_text(text + "".join(row(each) + "\n" for each in rows) + "\n" + rest + "\n" + END + others)
