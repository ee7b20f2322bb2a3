"""From producer to consumer at a fixed modest rate: alone, in company, and with a crowd of consumers."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from tests.performance.compiled import compiled
from tests.performance.consumers import Consuming, consume
from tests.performance.contenders import Contender

RATE_PER_SECOND: Final = 200
SECONDS: Final = 8
ROUNDS: Final = 3
CROWD_PER_SECOND: Final = 1000
CROWDS: Final = ((8, 8), (50, 500))
"""Consumers and their partitions."""


def one_round(contender: Contender, company: bool, seconds: float) -> tuple[float, float]:
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
            "seconds": seconds,
        }
        command = [sys.executable, "-m", "tests.performance.latency_client", json.dumps(plan)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{contender.name}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        return found["p50"], found["p99"]
    finally:
        contender.delete_topic(topic)
        contender.delete_topic(noise)


def one_round_of(
    contender: Contender, consumers: int, partitions: int, seconds: float
) -> tuple[float, float]:
    """p50 and p99 in µs of records that a crowd of consumers in fetch sessions waits for."""
    topic = contender.make_topic(partitions)
    try:
        consuming = Consuming(contender.port, topic, consumers, seconds, per_second=CROWD_PER_SECOND)
        found = consume(consuming).latency_us
        return found["p50"], found["p99"]
    finally:
        contender.delete_topic(topic)


def end_to_end(ours: Contender, kafka: Contender, rounds: int = ROUNDS, seconds: float = SECONDS) -> str:
    lines = [
        f"\n## End to end, records of 100 bytes, medians of {rounds} rounds of {seconds:g} s\n",
        "| load | Barnabas p50 / p99 µs | Kafka p50 / p99 µs |",
        "|---|---|---|",
    ]
    for company, title in ((False, "alone"), (True, "beside a slow and a greedy consumer")):
        cells = [
            _middle([one_round(each, company, seconds) for _ in range(rounds)]) for each in (ours, kafka)
        ]
        lines.append(f"| {RATE_PER_SECOND} a second, {title} | {' | '.join(cells)} |")
    for consumers, partitions in CROWDS if compiled("consumers_client") else ():
        cells = []
        for each in (ours, kafka):
            one_round_of(each, consumers, partitions, seconds / 2)
            cells.append(_middle([one_round_of(each, consumers, partitions, seconds) for _ in range(rounds)]))
        title = f"{CROWD_PER_SECOND:,} a second, {consumers} consumers of {partitions} partitions"
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _middle(rounds: Sequence[tuple[float, float]]) -> str:
    p50, p99 = (statistics.median(column) for column in zip(*rounds, strict=True))
    return f"{p50:,.0f} / {p99:,.0f}"
