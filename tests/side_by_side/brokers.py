"""The two brokers: one node each, freshly formatted, with the same file but for ports and folders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka

BARNABAS: Final = "Barnabas"
KAFKA: Final = "Apache Kafka"

SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "group.consumer.min.heartbeat.interval.ms": "500",
    # A static member that is away for a while stays away for as long as all calls take.
    "group.consumer.max.session.timeout.ms": "900000",
    # The records carry old times, and nothing may remove them meanwhile: neither retention nor the cleaner,
    # which removes what is too old of logs that are compacted as well.
    "log.initial.task.delay.ms": "3600000",
    "log.cleaner.backoff.ms": "3600000",
}
"""Beside what `GenuineKafka` writes for one node."""


def new_broker(which: str, data: Path) -> BarnabasProcess | GenuineKafka:
    """Not started. What a file sets shows in many answers, so both are given every line of it."""
    genuine = GenuineKafka(data, SETTINGS)
    genuine.features = NO_FEATURES
    return BarnabasProcess(data, genuine.properties) if which == BARNABAS else genuine
