"""A node for tests of transactions, with coordinators that do not make one wait; ours or Apache Kafka's.

It has the feature levels that a new directory has by itself: transactions are of the newest version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.brokers.against import AGAINST_KAFKA
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka

CONFIG: Final = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


def transactional_broker(data: Path) -> BarnabasProcess | GenuineKafka:
    """Not started yet. Its kind is what the tests run against."""
    return GenuineKafka(data, CONFIG) if AGAINST_KAFKA else BarnabasProcess(data, CONFIG)
