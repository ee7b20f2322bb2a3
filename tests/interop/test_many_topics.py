"""Many topics made, kept over a stop and a kill, and deleted by a genuine admin client.

BARNABAS_MANY_TOPICS sets how many (600 otherwise); times are measured by tests/performance/many_topics.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka.admin import AdminClient

from tests.performance.many_topics import create, delete, dirty
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess

COUNT: Final = int(os.environ.get("BARNABAS_MANY_TOPICS", "600"))
RESIDENT_LIMIT_BYTES: Final = 150 << 20


def settled(broker: BarnabasProcess, names: list[str]) -> set[str]:
    """The topics of ours that are there and led, once the broker has heard of all."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(1200):
        topics = [each for each in admin.list_topics(timeout=60).topics.values() if each.topic in names]
        led = {
            str(each.topic) for each in topics if all(part.leader == 1 for part in each.partitions.values())
        }
        if len(led) == len(names):
            break
        time.sleep(0.05)
    return led


def gone(broker: BarnabasProcess, names: list[str]) -> bool:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(1200):
        if not admin.list_topics(timeout=60).topics.keys() & set(names):
            return True
        time.sleep(0.05)
    return False


@barnabas_only
def test_many_topics_come_stay_and_go(tmp_path: Path) -> None:
    names = [f"topic-{number:05}" for number in range(COUNT)]
    half = COUNT // 2
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "20000",
        "metadata.max.retention.bytes": "100000",
        "log.segment.delete.delay.ms": "0",
    }
    broker = BarnabasProcess(tmp_path / "data", settings)
    with broker.start():
        create(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), names)
        assert settled(broker, names) == set(names)
        dirty(broker, names[:100])
    with broker.start():
        assert settled(broker, names) == set(names)
        assert psutil.Process(broker.pid).memory_info().rss < RESIDENT_LIMIT_BYTES
        delete(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), names[half:])
        broker.kill()
    with broker.start():
        assert settled(broker, names[:half]) == set(names[:half])
        assert gone(broker, names[half:])
        delete(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), names[:half])
        assert gone(broker, names)
    quorum = broker.data / "__cluster_metadata-0"
    snapshots = [path.name for path in quorum.glob("*.checkpoint")]
    assert snapshots, "they come by themselves"
    with broker.start():
        assert gone(broker, names)
