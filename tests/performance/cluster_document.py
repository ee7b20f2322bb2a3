"""CLUSTER.md: a section for each part of `tests.performance.cluster`, with what was run, when and how busy.

Only the sections of parts that were run are written anew, and what stands behind `END` is left alone.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tests.performance.cluster_side import SESSION_MS
from tests.performance.cluster_steady import MAX_BYTES
from tests.performance.contenders import KAFKA_FLAGS, KAFKA_HEAP
from tests.performance.load import client_name
from tests.performance.results import machine
from tests.support.genuine.kafka_jars import KAFKA_VERSION

__all__ = ["Section", "write"]

FILE: Final = Path(__file__).with_name("CLUSTER.md")
END: Final = "<!-- Above: written by tests/performance/cluster.py. Below: written by hand. -->\n"
"""What stands behind this line stays when the tables are written."""
HEADING: Final = re.compile(r"^## (\w+)\n", re.MULTILINE)


class Section(NamedTuple):
    """One part that was run. load: the load average of a minute at its beginning and at its end."""

    part: str
    table: str
    load: tuple[float, float]


def write(sections: Sequence[Section], order: Sequence[str], command: str, rounds: int) -> None:
    """order: of the parts in the file. command: that has measured."""
    written, _, others = FILE.read_text().partition(END)
    pieces = HEADING.split(written)
    known = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    known |= {each.part: _told(each, command, rounds) for each in sections}
    bodies = [f"## {part}\n{known[part]}" for part in order if part in known]
    FILE.write_text(_head() + "".join(bodies) + END + others)


def _told(section: Section, command: str, rounds: int) -> str:
    load = f"a load average of {section.load[0]:.1f} at the beginning and {section.load[1]:.1f} at the end"
    about = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {load}. Medians of {rounds} rounds, by `{command}`."
    return f"\n{textwrap.fill(about, 110, break_on_hyphens=False)}\n\n{section.table}\n"


def _head() -> str:
    about = (
        "The clusters and the client share these cores with whatever else the machine does, which the load "
        "averages tell. So a throughput or a latency is what three busy nodes, three resting ones and a "
        "client make of so few cores, and no machine's best; the ratios and the processor time say more. "
        "Processor time is of all nodes together by the kernel's account. Medians of runs by turns, with the "
        f"least and the most. A run that produces has at most {MAX_BYTES >> 20} MiB and is driven by "
        f"{client_name()}. The session time-out of a broker is {SESSION_MS} ms in both. Of MB/s and of "
        "acknowledged records a ratio above 1, of all else a ratio below 1 means that Barnabas is ahead."
    )
    return "\n".join(
        (
            f"# Three nodes beside three nodes of Apache Kafka {KAFKA_VERSION}",
            "",
            f"`python -m tests.performance.cluster`. {machine()}.",
            f"Apache Kafka: `-Xmx{KAFKA_HEAP} {' '.join(KAFKA_FLAGS)}`.",
            "",
            textwrap.fill(about, 110),
            "\n",
        )
    )
