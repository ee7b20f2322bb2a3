"""Metrics of the replica fetchers, with the names that Kafka's JMX exporter gives them.

A fetcher is named as Kafka names its thread: ReplicaFetcherThread-0-2 is the first of those that fetch from
broker 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.metrics.families import Collector, Family, Sample, counter, gauge
from broker.replication.fetcher.fetcher_manager import ReplicaFetcherManager
from config.ports import Clock

__all__ = ["fetcher_collector"]

_MANAGER: Final = "kafka_server_replicafetchermanager_"
_STATS: Final = "kafka_server_fetcherstats_"


def fetcher_collector(fetchers: ReplicaFetcherManager, clock: Clock) -> Collector:
    """Reads the counters of the fetchers at each scrape."""

    def collect() -> Iterator[Family]:
        replica = {"clientId": "Replica"}
        yield gauge(_MANAGER + "maxlag", "Largest lag of a follower in records", fetchers.max_lag, **replica)
        yield gauge(
            _MANAGER + "minfetchrate",
            "Fetches a second of the slowest fetcher over the last half minute to minute",
            fetchers.min_fetch_rate(clock.monotonic_ms()),
            **replica,
        )
        yield gauge(
            _MANAGER + "failedpartitionscount",
            "Partitions that are followed no more in this leader epoch",
            fetchers.failed_partitions,
            **replica,
        )
        yield gauge(
            _MANAGER + "deadthreadcount",
            "Always 0: fetchers are no threads, and an error ends none of them",
            0,
            **replica,
        )
        yield counter(
            "kafka_server_brokertopicmetrics_replicationbytesin_total",
            "Bytes of records that this broker has copied from leaders",
            fetchers.replication_bytes_in,
        )
        yield counter(
            "kafka_server_brokertopicmetrics_reassignmentbytesin_total",
            "Of these, bytes for replicas that reassignments add",
            fetchers.reassignment_bytes_in,
        )
        yield gauge(
            "kafka_server_followerreplication_byte_rate",
            "Bytes a second copied of throttled replicas",
            fetchers.quota.rate(clock.monotonic_ms()),
        )
        yield Family(
            "kafka_server_fetcherlagmetrics_consumerlag",
            "gauge",
            "Records that a follower is behind its leader's high watermark",
            _lags(fetchers),
        )
        for name, attribute, description in (
            ("bytes_total", "bytes_fetched", "Bytes of records that a fetcher has copied"),
            ("requests_total", "requests_sent", "Fetches that a fetcher has sent"),
        ):
            yield Family(_STATS + name, "counter", description, _counts(fetchers, attribute))

    return collect


def _lags(fetchers: ReplicaFetcherManager) -> Iterator[Sample]:
    for fetcher, _ in list(fetchers.fetchers()):
        for fetch in list(fetcher.plan.partitions.values()):
            if fetch.lag >= 0:
                where = {"clientId": fetcher.name, "topic": fetch.topic, "partition": str(fetch.index)}
                yield where, fetch.lag


def _counts(fetchers: ReplicaFetcherManager, attribute: str) -> Iterator[Sample]:
    for fetcher, (host, port) in list(fetchers.fetchers()):  # they come and go while the page is written
        where = {"clientId": fetcher.name, "brokerHost": host, "brokerPort": str(port)}
        yield where, getattr(fetcher, attribute)
