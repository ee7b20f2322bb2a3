"""Time to ready and resident memory: idle, with 5,000 idle connections, after the load."""

from __future__ import annotations

import resource
import socket
import statistics
import time
from pathlib import Path
from typing import Final

from tests.performance.contenders import Contender, start_barnabas, start_kafka

IDLE_CONNECTIONS: Final = 5000
STARTS: Final = 5


def resident_with_idle_connections(contender: Contender, count: int = IDLE_CONNECTIONS) -> int:
    """Bytes resident while ``count`` connections are open and say nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    opened: list[socket.socket] = []
    try:
        opened.extend(socket.create_connection(("127.0.0.1", contender.port)) for _ in range(count))
        time.sleep(2)
        return contender.resident_bytes()
    finally:
        for each in opened:
            each.close()


def memory_and_start(folder: Path, ours: Contender, kafka: Contender) -> str:
    """The last table; ``ours`` and ``kafka`` come from under load."""
    after_load = [each.resident_bytes() for each in (ours, kafka)]
    ready, idle, crowded = [], [], []
    for start, name in ((start_barnabas, "ours"), (start_kafka, "kafka")):
        place = folder / f"fresh-{name}"
        place.mkdir()
        first = start(place)
        time.sleep(3)
        idle.append(first.resident_bytes())
        crowded.append(resident_with_idle_connections(first))
        first.stop()
        again = []
        for _ in range(STARTS if name == "ours" else 2):
            contender = start(place)
            again.append(contender.ready_seconds)
            contender.stop()
        ready.append(statistics.median(again))
    rows = [
        "\n## Start and memory\n",
        "| | Barnabas | Kafka |",
        "|---|---|---|",
        f"| process start to ready, formatted directory | {ready[0]:.2f} s | {ready[1]:.2f} s |",
        f"| resident, idle | {_mib(idle[0])} | {_mib(idle[1])} |",
        f"| resident, {IDLE_CONNECTIONS:,} idle connections | {_mib(crowded[0])} | {_mib(crowded[1])} |",
        f"| resident, after the load above | {_mib(after_load[0])} | {_mib(after_load[1])} |",
    ]
    return "\n".join(rows) + "\n"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"
