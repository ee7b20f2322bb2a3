"""Requests that wait, and fetch sessions, as Kafka's JMX exporter names them.

A request that waits for several partitions is watched by each of them: `purgatorysize` counts it at each,
`numdelayedoperations` once, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.metrics.families import Collector, Family, counter, gauge
from broker.replication.delayed_fetch import FetchPurgatory
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.replica_manager import ReplicaManager

__all__ = ["purgatory_collector"]

_PURGATORY: Final = "kafka_server_delayedoperationpurgatory_"
_SESSIONS: Final = "kafka_server_fetchsessioncache_"


def purgatory_collector(replicas: ReplicaManager, fetches: FetchPurgatory) -> Collector:
    def collect() -> Iterator[Family]:
        waiting = {
            "Fetch": _DelayedRequests(fetches.watched_partitions, len(fetches.waiting)),
            **_waiting_at_partitions(replicas),
        }
        yield Family(
            _PURGATORY + "purgatorysize",
            "gauge",
            "Partitions that waiting requests watch, each request's counted",
            [({"delayedOperation": name}, each.watched) for name, each in waiting.items()],
        )
        yield Family(
            _PURGATORY + "numdelayedoperations",
            "gauge",
            "Requests that wait for replicas or records",
            [({"delayedOperation": name}, each.requests) for name, each in waiting.items()],
        )
        yield from _sessions(fetches.sessions)

    return collect


class _DelayedRequests(NamedTuple):
    """watched: partitions, those of each request counted. requests: those that wait."""

    watched: int
    requests: int


def _waiting_at_partitions(replicas: ReplicaManager) -> dict[str, _DelayedRequests]:
    """Nobody but the partitions knows who waits for them; most have none."""
    produces: list[object] = []
    deletions: list[object] = []
    for partition in replicas.by_name.values():
        if partition.commit_waiters:
            produces += partition.commit_waiters
        if partition.deletion_waiters:
            deletions += partition.deletion_waiters
    return {
        "Produce": _DelayedRequests(len(produces), len(set(map(id, produces)))),
        "DeleteRecords": _DelayedRequests(len(deletions), len(set(map(id, deletions)))),
    }


def _sessions(sessions: FetchSessions) -> Iterator[Family]:
    yield gauge(_SESSIONS + "numincrementalfetchsessions", "Fetch sessions", len(sessions))
    yield gauge(
        _SESSIONS + "numincrementalfetchpartitionscached",
        "Partitions that the fetch sessions remember",
        sessions.partition_count,
    )
    yield counter(
        _SESSIONS + "incrementalfetchsessionevictions_total",
        "Fetch sessions that had to make room for others",
        sessions.evictions,
    )
