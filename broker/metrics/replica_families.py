"""Topics, partitions, replicas and coordinators of a broker as Kafka's JMX exporter names them.

What is counted by topic is also told of all topics together, in a sample without a label, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from broker.controller_channel.lifecycle import BrokerLifecycle
from broker.metrics.families import Collector, Family, Sample, counter, gauge
from broker.replication.isr_maintenance import IsrMaintenance
from broker.replication.leader_replication import LeaderReplication
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"

_PER_TOPIC: Final = (
    ("messagesin_total", "messages_in", "Records appended"),
    ("bytesin_total", "bytes_in", "Bytes of records that producers sent"),
    ("bytesout_total", "bytes_out", "Bytes of records that consumers took"),
    ("totalproducerequests_total", "total_produce_requests", "Batches that producers sent"),
    (
        "failedproducerequests_total",
        "failed_produce_requests",
        "Batches refused by an error that is not a known one",
    ),
    ("totalfetchrequests_total", "total_fetch_requests", "Looks into partitions for fetches"),
    (
        "failedfetchrequests_total",
        "failed_fetch_requests",
        "Looks into partitions that met an error that is not a known one",
    ),
)

_PER_PARTITION: Final[tuple[tuple[str, str, Callable[[Partition], int]], ...]] = (
    ("insyncreplicascount", "Replicas in sync, at their leader", lambda each: len(each.isr)),
    (
        "replicascount",
        "Replicas, at their leader",
        lambda each: len(each.replicas) if each.is_leader else 0,
    ),
    ("underreplicated", "1 at the leader if replicas are out of sync", lambda each: each.is_under_replicated),
    ("underminisr", "1 at the leader if too few replicas are in sync", lambda each: each.is_under_min_isr),
    ("atminisr", "1 at the leader if just enough replicas are in sync", lambda each: each.is_at_min_isr),
    (
        "laststableoffsetlag",
        "Replicated records that readers of committed ones do not see yet",
        lambda each: each.log.high_watermark - each.log.last_stable_offset,
    ),
)


def replica_collector(
    replicas: ReplicaManager, isr: IsrMaintenance, lifecycle: BrokerLifecycle, sent: LeaderReplication
) -> Collector:
    """Shows what the replica manager counts anyway; it is read when somebody scrapes. sent: what followers
    were sent."""

    def collect() -> Iterator[Family]:
        for suffix, attribute, description in _PER_TOPIC:
            yield Family(_TOPICS + suffix, "counter", description, _topics(replicas, attribute))
        yield from _sent_to_followers(sent)
        for suffix, description, measure in _PER_PARTITION:
            samples = _partitions(replicas, measure)
            yield Family(f"kafka_cluster_partition_{suffix}", "gauge", description, samples)
        yield from _replica_manager(replicas)
        yield counter(_REPLICAS + "isrexpands_total", "Replicas that came into an ISR", isr.expands)
        yield counter(_REPLICAS + "isrshrinks_total", "ISRs that lost replicas", isr.shrinks)
        yield counter(
            _REPLICAS + "failedisrupdates_total",
            "Changes of an ISR that the controller did not make",
            isr.failed_updates,
        )
        yield gauge("kafka_server_kafkaserver_brokerstate", "3 is running", int(lifecycle.state))

    return collect


def _sent_to_followers(sent: LeaderReplication) -> Iterator[Family]:
    yield counter(
        _TOPICS + "replicationbytesout_total", "Bytes of records that followers took", sent.bytes_out
    )
    yield counter(
        _TOPICS + "reassignmentbytesout_total",
        "Of these, bytes for replicas that reassignments add",
        sent.reassignment_bytes_out,
    )
    yield gauge(
        "kafka_server_leaderreplication_byte_rate",
        "Bytes a second sent to throttled replicas",
        sent.quota.rate(sent.clock.monotonic_ms()),
    )


class _Sums(NamedTuple):
    """Over all partitions; all but the last one over those that this broker leads."""

    leaders: int
    under_min_isr: int
    under_replicated: int
    at_min_isr: int
    reassigning: int
    producer_ids: int


def _sums(partitions: Iterable[Partition]) -> _Sums:
    """One walk, for there may be ten thousand partitions."""
    leaders = under_min_isr = under_replicated = at_min_isr = reassigning = producer_ids = 0
    for partition in partitions:
        producer_ids += len(partition.log.producer_state)
        if partition.is_leader:
            leaders += 1
            under_min_isr += partition.is_under_min_isr
            under_replicated += partition.is_under_replicated
            at_min_isr += partition.is_at_min_isr
            reassigning += partition.is_reassigning
    return _Sums(leaders, under_min_isr, under_replicated, at_min_isr, reassigning, producer_ids)


def _replica_manager(replicas: ReplicaManager) -> Iterator[Family]:
    sums = _sums(replicas.by_name.values())
    offline = replicas.offline_count
    for suffix, description, value in (
        ("partitioncount", "Partitions of this broker", len(replicas.by_name) + offline),
        ("leadercount", "Partitions that this broker leads", sums.leaders),
        ("offlinereplicacount", "Partitions of this broker whose log cannot be used", offline),
        ("underminisrpartitioncount", "Led partitions with too few replicas in sync", sums.under_min_isr),
        ("underreplicatedpartitions", "Led partitions with replicas out of sync", sums.under_replicated),
        ("atminisrpartitioncount", "Led partitions with just enough replicas in sync", sums.at_min_isr),
        ("reassigningpartitions", "Led partitions that are being reassigned", sums.reassigning),
        ("produceridcount", "Producer ids that the partitions remember", sums.producer_ids),
    ):
        yield gauge(_REPLICAS + suffix, description, value)


def _topics(replicas: ReplicaManager, attribute: str) -> Iterator[Sample]:
    counted = list(replicas.counters.values())  # topics come and go while the page is written
    gone: int = getattr(replicas.deleted_topics, attribute)
    yield {}, gone + sum(getattr(each, attribute) for each in counted)
    for each in counted:
        yield {"topic": each.topic}, getattr(each, attribute)


def _partitions(replicas: ReplicaManager, measure: Callable[[Partition], int]) -> Iterator[Sample]:
    for partition in list(replicas.by_name.values()):
        yield {"topic": partition.topic, "partition": str(partition.index)}, int(measure(partition))


class Coordinator(Protocol):
    """A coordinator, as far as its metrics need it."""

    @property
    def failures(self) -> int: ...


def coordinator_families(*coordinators: Coordinator) -> Iterator[Family]:
    """Shows what goes wrong in the coordinators, for alerts."""
    yield counter(
        "barnabas_coordinator_failures_total",
        "Operations of the coordinators of groups and transactions that failed by our fault",
        sum(coordinator.failures for coordinator in coordinators),
    )
