"""The producer of the rolling restart: what it has seen is what has happened to the broker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from tests.performance.paced_producer import Paced, paced_producer
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic

pytestmark = barnabas_only

PARTITIONS = 7
PAUSE_SECONDS = 1.5


def test_a_broker_that_stands_still_is_seen_as_a_pause(new_broker: Callable[..., BarnabasProcess]) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "paced", PARTITIONS)
    with paced_producer(Paced(broker.bootstrap_servers, "paced", range(PARTITIONS))) as seen:
        time.sleep(1)
        stopped = time.monotonic()
        os.kill(broker.pid, signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        os.kill(broker.pid, signal.SIGCONT)
        time.sleep(1)
    assert seen.refused == 0
    assert seen.overall_seconds >= PAUSE_SECONDS - 0.05
    assert seen.pauses[0].seconds >= seen.overall_seconds
    assert abs(seen.pauses[0].began - stopped) < PAUSE_SECONDS
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition("paced", each), timeout=60)[1]
        for each in range(PARTITIONS)
    ]
    consumer.close()
    assert min(ends) > 10
    assert sum(ends) == seen.acknowledged, "each record is there once"
