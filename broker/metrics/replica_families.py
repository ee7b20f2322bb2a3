"""Topics, partitions, logs and coordinators of a broker as Kafka's JMX exporter names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from broker.controller_channel.lifecycle import BrokerLifecycle
from broker.metrics.families import Collector, Family, Sample, counter, gauge
from broker.replication.replica_manager import ReplicaManager
from config.limits import LABELS_PER_METRIC

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"

_PER_TOPIC: Final = (
    ("messagesin_total", "messages_in", "Records appended"),
    ("bytesin_total", "bytes_in", "Bytes of records that producers sent"),
    ("bytesout_total", "bytes_out", "Bytes of records that consumers took"),
)
_PER_LOG: Final = (
    ("size", "size_bytes", "Bytes of a partition's log"),
    ("logstartoffset", "log_start_offset", "First offset of a partition"),
    ("logendoffset", "log_end_offset", "Offset of the next record of a partition"),
)


def replica_collector(replicas: ReplicaManager, lifecycle: BrokerLifecycle) -> Collector:
    """Shows what the replica manager counts anyway; it is read when somebody scrapes."""

    def collect() -> Iterator[Family]:
        for suffix, attribute, description in _PER_TOPIC:
            yield Family(_TOPICS + suffix, "counter", description, _topics(replicas, attribute))
        for suffix, attribute, description in _PER_LOG:
            yield Family(f"kafka_log_log_{suffix}", "gauge", description, _logs(replicas, attribute))
        partitions = list(replicas.by_name.values())
        yield gauge(_REPLICAS + "partitioncount", "Partitions of this broker", len(partitions))
        leaders = [partition for partition in partitions if partition.is_leader]
        yield gauge(_REPLICAS + "leadercount", "Partitions that this broker leads", len(leaders))
        yield gauge(
            _REPLICAS + "underminisrpartitioncount",
            "Led partitions with too few replicas in sync",
            sum(partition.is_under_min_isr for partition in leaders),
        )
        yield gauge(
            _REPLICAS + "underreplicatedpartitions",
            "Led partitions with replicas out of sync",
            sum(len(partition.isr) < len(partition.replicas) for partition in leaders),
        )
        yield gauge("kafka_server_kafkaserver_brokerstate", "3 is running", int(lifecycle.state))

    return collect


def _topics(replicas: ReplicaManager, attribute: str) -> Iterator[Sample]:
    for number, counters in enumerate(replicas.counters.values()):
        if number >= LABELS_PER_METRIC:
            return
        yield {"topic": counters.topic}, getattr(counters, attribute)


def _logs(replicas: ReplicaManager, attribute: str) -> Iterator[Sample]:
    for number, ((topic, index), partition) in enumerate(replicas.by_name.items()):
        if number >= LABELS_PER_METRIC:
            return
        yield {"topic": topic, "partition": str(index)}, getattr(partition.log, attribute)


class Coordinator(Protocol):
    """A coordinator, as far as its metrics need it."""

    @property
    def failures(self) -> int: ...


def coordinator_families(groups: Coordinator) -> Iterator[Family]:
    """Shows what goes wrong in the coordinators, for alerts."""
    yield counter(
        "barnabas_coordinator_failures_total",
        "Partitions of the group coordinator that were read back from their log by our fault",
        groups.failures,
    )
