"""Logs and log directories of a broker as Kafka's JMX exporter names them.

The label `logDirectory` is the directory's absolute path, without the quotation marks that JMX puts around
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from broker.metrics.families import Collector, Family, Sample, gauge
from broker.replication.replica_manager import ReplicaManager
from storage.directories import FailedDirectory, LogDirectory
from storage.partition_log import PartitionLog

__all__ = ["HasDirectories", "log_collector"]

_PER_LOG: Final[tuple[tuple[str, str, Callable[[PartitionLog], int]], ...]] = (
    ("size", "Bytes of a partition's log", lambda log: log.size_bytes),
    ("logstartoffset", "First offset of a partition", lambda log: log.log_start_offset),
    ("logendoffset", "Offset of the next record of a partition", lambda log: log.log_end_offset),
    ("numlogsegments", "Segments of a partition's log", lambda log: len(log.segments)),
)


class HasDirectories(Protocol):
    """The log directories of a node: those that can be used, and those that have failed."""

    @property
    def directories(self) -> list[LogDirectory]: ...

    @property
    def failed_directories(self) -> list[FailedDirectory]: ...


def log_collector(replicas: ReplicaManager, logs: HasDirectories) -> Collector:
    def collect() -> Iterator[Family]:
        for suffix, description, measure in _PER_LOG:
            yield Family(f"kafka_log_log_{suffix}", "gauge", description, _logs(replicas, measure))
        yield Family(
            "kafka_log_logmanager_logdirectoryoffline",
            "gauge",
            "1: the log directory has failed",
            _directories(logs),
        )
        yield gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that have failed",
            len(logs.failed_directories),
        )
        yield Family(
            "kafka_log_logmanager_logdirectorycordoned",
            "gauge",
            "1: the log directory gets no new partitions",
            [({"logDirectory": each.absolute_path}, int(each.is_cordoned)) for each in logs.directories],
        )
        yield gauge(
            "kafka_log_logmanager_cordonedlogdirectorycount",
            "Log directories that get no new partitions",
            sum(each.is_cordoned for each in logs.directories),
        )

    return collect


def _logs(replicas: ReplicaManager, measure: Callable[[PartitionLog], int]) -> Iterator[Sample]:
    for partition in list(replicas.by_name.values()):
        yield {"topic": partition.topic, "partition": str(partition.index)}, measure(partition.log)


def _directories(logs: HasDirectories) -> Iterator[Sample]:
    for each in logs.directories:
        yield {"logDirectory": each.absolute_path}, 0
    for failed in logs.failed_directories:
        yield {"logDirectory": failed.absolute_path}, 1
