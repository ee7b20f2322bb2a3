"""The metrics of followers, by Kafka's names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.metrics.families import Sample
from broker.metrics.fetcher_families import _counts, _lags, fetcher_collector
from broker.replication.fetcher.fetcher_manager import ReplicaFetcherManager
from controller.metadata.image.brokers import BrokerEndpoint
from protocol.errors import ErrorCode
from tests.support.rigs.fetcher_rig import FetcherRig, failure, records
from tests.support.rigs.log_rig import leader_batch


def followers_of(rig: FetcherRig) -> ReplicaFetcherManager:
    """Two partitions that are copied from broker 1."""
    manager = ReplicaFetcherManager(
        rig.surroundings,
        fetchers_per_leader=1,
        connect=lambda host, port, client_id: rig.leader,
        endpoint=lambda broker_id: BrokerEndpoint("one", 9, 0),
    )
    for index in range(2):
        rig.host(index)
        rig.partitions[index].follow_image(
            leader_id=1, leader_epoch=1, partition_epoch=1, replicas=(1, 2), isr=(1, 2),
            min_insync_replicas=1, now_ms=0,
        )  # fmt: skip
        manager.partition_moved(rig.partitions[index])
    rig.timers.run_soon()
    return manager


def test_the_rate_of_fetches_is_that_of_the_last_minute() -> None:
    rig = FetcherRig()
    manager = followers_of(rig)
    ((fetcher, _),) = manager.fetchers()
    fetcher.requests_sent = 1000
    rig.clock.move(10_000)
    assert manager.min_fetch_rate(rig.clock.monotonic_ms()) == 100
    rig.clock.move(30_000)
    assert manager.min_fetch_rate(rig.clock.monotonic_ms()) == 25
    rig.clock.move(30_000)
    assert manager.min_fetch_rate(rig.clock.monotonic_ms()) == 0, "it has stalled"
    fetcher.requests_sent += 300
    rig.clock.move(20_000)
    assert manager.min_fetch_rate(rig.clock.monotonic_ms()) == 6
    rig.clock.move(40_000)
    rig.answer(records(leader_batch(0, b"a", epoch=1), high_watermark=9))
    assert fetcher.requests_sent == 1301
    rig.clock.move(10_000)
    assert manager.min_fetch_rate(rig.clock.monotonic_ms()) == 301 / 70, "fetches end windows, too"


def test_fetchers_come_and_go_while_a_page_is_written() -> None:
    rig = FetcherRig()
    manager = followers_of(rig)
    samples = iter(_counts(manager, "requests_sent"))
    assert next(samples)[1] == 1
    rig.host(2)
    rig.partitions[2].follow_image(
        leader_id=3, leader_epoch=1, partition_epoch=1, replicas=(1, 2, 3), isr=(1, 2, 3),
        min_insync_replicas=1, now_ms=0,
    )  # fmt: skip
    manager.partition_moved(rig.partitions[2])
    assert len(list(manager.fetchers())) == 2
    assert list(samples) == [], "the new one is told of at the next scrape"


def test_no_partition_that_is_followed_is_left_out() -> None:
    fetches = {index: SimpleNamespace(lag=1, topic="t", index=index) for index in range(10_001)}
    fetcher = SimpleNamespace(name="ReplicaFetcherThread-0-1", plan=SimpleNamespace(partitions=fetches))
    manager: Any = SimpleNamespace(fetchers=lambda: iter([(fetcher, ("one", 9))]))
    assert len(list(_lags(manager))) == 10_001


def test_lag_bytes_and_failures_are_shown() -> None:
    rig = FetcherRig()
    manager = followers_of(rig)
    batch = leader_batch(0, b"a", b"b", epoch=1)
    rig.clock.move(500)
    rig.answer(records(batch, high_watermark=9), failure(ErrorCode.FENCED_LEADER_EPOCH, 1))
    found: dict[str, list[Sample]] = {
        family.name: list(family.samples) for family in fetcher_collector(manager, rig.clock)()
    }
    name = "ReplicaFetcherThread-0-1"
    where = {"clientId": name, "brokerHost": "one", "brokerPort": "9"}
    assert found == {
        "kafka_server_replicafetchermanager_maxlag": [({"clientId": "Replica"}, 7)],
        "kafka_server_replicafetchermanager_minfetchrate": [({"clientId": "Replica"}, 4.0)],
        "kafka_server_replicafetchermanager_failedpartitionscount": [({"clientId": "Replica"}, 1)],
        "kafka_server_replicafetchermanager_deadthreadcount": [({"clientId": "Replica"}, 0)],
        "kafka_server_brokertopicmetrics_replicationbytesin_total": [({}, len(batch))],
        "kafka_server_brokertopicmetrics_reassignmentbytesin_total": [({}, 0)],
        "kafka_server_followerreplication_byte_rate": [({}, 0.0)],
        "kafka_server_fetcherlagmetrics_consumerlag": [
            ({"clientId": name, "topic": "orders", "partition": "0"}, 7)
        ],
        "kafka_server_fetcherstats_bytes_total": [(where, len(batch))],
        "kafka_server_fetcherstats_requests_total": [(where, 2)],
    }
