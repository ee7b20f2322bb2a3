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

from tests.support.genuine.kafka_jars import KAFKA_VERSION

if TYPE_CHECKING:
    from tests.performance.side_by_side import Pair

FILE: Final = Path(__file__).with_name("RESULTS.md")

HEAD: Final = (
    "| load | Barnabas MB/s | Kafka MB/s | ratio | broker CPU ms/GB, ours | Kafka's | ratio | p50/p99 µs, ours | Kafka's "
    "| client CPU ms/GB, ours/Kafka's |\n|---|---|---|---|---|---|---|---|---|---|"
)


def row(pair: Pair) -> str:
    ours, theirs = pair.ours, pair.theirs
    cells = [
        pair.case.title,
        f"{ours.megabytes_per_second:,.0f}",
        f"{theirs.megabytes_per_second:,.0f}",
        f"**{ours.megabytes_per_second / theirs.megabytes_per_second:.2f}**",
        f"{ours.broker_ms_per_gb:,.0f}",
        f"{theirs.broker_ms_per_gb:,.0f}",
        f"**{ours.broker_ms_per_gb / theirs.broker_ms_per_gb:.2f}**",
        f"{ours.p50_us:,.0f} / {ours.p99_us:,.0f}",
        f"{theirs.p50_us:,.0f} / {theirs.p99_us:,.0f}",
        f"{ours.client_ms_per_gb:,.0f} / {theirs.client_ms_per_gb:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


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


def write(pairs: Sequence[Pair], rest: str, options: argparse.Namespace) -> None:
    from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP

    flags = " ".join((f"-Xmx{KAFKA_HEAP}", *KAFKA_FLAGS))
    text = f"""# Side by side with Apache Kafka {KAFKA_VERSION}

`make bench`, {datetime.now(UTC):%Y-%m-%d}. {machine()}.
Apache Kafka: `{flags}`, warmed {options.warm:.0f} s per case. Medians of {options.rounds} rounds of up to {options.seconds:g} s in
turns, at most 1 GB produced per round; 5 requests in flight per connection; the same raw client moves prebuilt frames.
A ratio of MB/s above 1 and a ratio of CPU below 1 mean that Barnabas is ahead. Barnabas has one core, Kafka all of them.

{HEAD}
"""
    FILE.write_text(text + "".join(row(pair) + "\n" for pair in pairs) + "\n" + rest)
