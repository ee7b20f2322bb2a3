"""From producer to consumer at a fixed modest rate: alone, and beside one slow and one greedy consumer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

from tests.performance.contenders import Contender

RATE_PER_SECOND: Final = 200
SECONDS: Final = 8
ROUNDS: Final = 3


def one_round(contender: Contender, company: bool) -> tuple[float, float]:
    """p50 and p99 in µs."""
    topic = contender.make_topic(1)
    noise = contender.make_topic(1)
    try:
        plan = {
            "port": contender.port,
            "topic": topic.name,
            "topic_id": topic.id_hex,
            "noise": noise.name if company else "",
            "noise_id": noise.id_hex,
            "rate": RATE_PER_SECOND,
            "seconds": SECONDS,
        }
        command = [sys.executable, "-m", "tests.performance.latency_client", json.dumps(plan)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{contender.name}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        return found["p50"], found["p99"]
    finally:
        contender.delete_topic(topic)
        contender.delete_topic(noise)


def end_to_end(ours: Contender, kafka: Contender) -> str:
    lines = [
        f"\n## End to end, {RATE_PER_SECOND} records of 100 bytes a second\n",
        "| company | Barnabas p50 / p99 µs | Kafka p50 / p99 µs |",
        "|---|---|---|",
    ]
    for company, title in ((False, "alone"), (True, "beside a slow and a greedy consumer")):
        cells = []
        for contender in (ours, kafka):
            rounds = [one_round(contender, company) for _ in range(ROUNDS)]
            p50, p99 = (sorted(column)[ROUNDS // 2] for column in zip(*rounds, strict=True))
            cells.append(f"{p50:,.0f} / {p99:,.0f}")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
