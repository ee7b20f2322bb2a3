"""The metadata quorum, its controller, and what a broker has seen, as Kafka's JMX exporter names them.

Each node has a replica of the metadata log; only a controller has the controller's metrics, only a broker
those of its metadata.

All of it is read when somebody scrapes. Rates are over the time between two scrapes, so the first one has
none. Kafka's controller has a queue of events of its own; here there is one loop, and how late it comes to
its timers (`loop_health`) is the time that an event waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from broker.metrics.families import Collector, Family, Sample, counter, gauge
from config.ports import Clock
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER, TopicImage, TopicsImage
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.raft.quorum_metrics import QuorumMetrics
from protocol.values import ZERO_UUID, uuid_to_text

_RAFT: Final = "kafka_server_raftmetrics_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATISTICS: Final = "kafka_controller_controllerstats_"
_LOADER: Final = "kafka_server_metadataloader_"
_BROKER: Final = "kafka_server_brokermetadatametrics_"
UNKNOWN: Final = -1


class FollowsTheLog(Protocol):
    """A part of the node that replays the metadata log. image: the state that follows from it."""

    @property
    def image(self) -> ClusterImage: ...


class CountedElections(Protocol):
    """How many leaders were elected that may lack acknowledged records, and how many out of the eligible
    ones."""

    @property
    def unclean(self) -> int: ...

    @property
    def from_eligible(self) -> int: ...


class ObservedController(FollowsTheLog, Protocol):
    """The metrics of this node's controller.

    timed_out_heartbeats: brokers that were fenced because they were silent. broker_silences_ms: by broker id,
    how long ago each was heard of; empty where the controller does not lead. elections: those that became
    committed in this life.
    """

    @property
    def is_active(self) -> bool: ...

    @property
    def timed_out_heartbeats(self) -> int: ...

    @property
    def elections(self) -> CountedElections: ...

    def broker_silences_ms(self) -> Mapping[int, int]: ...


class ObservedLoader(FollowsTheLog, Protocol):
    """The progress of this node's broker. offset: that of the last record that it has published, or -1."""

    @property
    def offset(self) -> int: ...


def replica_of_quorum_collector(
    log: ReplicatedMetadataLog, follower: FollowsTheLog, clock: Clock, idle_ratio: Callable[[], float]
) -> Collector:
    """Collects the metrics of this node's replica of the metadata log.

    follower: a role of this node that replays it. idle_ratio: returns the idle ratio of the loop.
    """
    rates = _Rates(clock)

    def collect() -> Iterator[Family]:
        metrics = log.quorum_metrics()
        yield from _raft(metrics)
        yield from rates.families(metrics)
        yield gauge(_RAFT + "poll_idle_ratio_avg", "Share of time in which the loop rested", idle_ratio())
        leader_id = log.leader.leader_id
        yield gauge(_LOADER + "currentcontrollerid", "Who is known to be the active controller", leader_id)
        level = follower.image.features.metadata_version
        yield gauge(_LOADER + "currentmetadataversion", "Feature level of metadata.version", level)

    return collect


def controller_collector(
    log: ReplicatedMetadataLog,
    controller: ObservedController,
    clock: Clock,
    *,
    ignores_static_voters: bool,
) -> Collector:
    """Collects the metrics of a controller.

    ignores_static_voters: whether the config names voters that are ignored, because the log has voters of its
    own.
    """
    counts = PartitionCounts()

    def collect() -> Iterator[Family]:
        yield from _log_of(controller, log.quorum_metrics(), clock)
        yield from _cluster_of(controller)
        yield from _elections(controller.elections)
        yield from _partitions(counts.of(controller.image.topics))
        ignored = int(ignores_static_voters and log.kraft_version > 0)
        yield gauge(_CONTROLLER + "ignoredstaticvoters", "1: controller.quorum.voters has no effect", ignored)

    return collect


def broker_metadata_collector(
    log: ReplicatedMetadataLog, loader: ObservedLoader, clock: Clock, *, ignores_static_voters: bool
) -> Collector:
    """Collects what a broker has seen of the metadata. ignores_static_voters: see `controller_collector`."""

    def collect() -> Iterator[Family]:
        image = loader.image
        lag_ms = max(0, clock.wall_ms() - image.timestamp_ms)
        yield gauge(_BROKER + "last_applied_record_offset", "Last record published here", loader.offset)
        yield gauge(_BROKER + "last_applied_record_timestamp", "When that was appended", image.timestamp_ms)
        yield gauge(_BROKER + "last_applied_record_lag_ms", "How long ago that was", lag_ms)
        text = "Always 0: an error of metadata ends the process"
        yield gauge(_BROKER + "metadata_load_error_count", text, 0)
        yield gauge(_BROKER + "metadata_apply_error_count", text, 0)
        ignored = int(ignores_static_voters and log.kraft_version > 0)
        yield gauge(_BROKER + "ignored_static_voters", "1: controller.quorum.voters has no effect", ignored)

    return collect


def _raft(metrics: QuorumMetrics) -> Iterator[Family]:
    state = "State of this replica in the quorum, as the label says"
    yield Family(_RAFT + "current_state", "untyped", state, (({"current_state": metrics.state}, 1),))
    voted = metrics.voted
    yield gauge(_RAFT + "current_leader", "Node that leads the quorum, -1: unknown", metrics.leader_id)
    yield gauge(
        _RAFT + "current_vote",
        "Node that has this replica's vote of the epoch, -1: none",
        UNKNOWN if voted is None else voted.id,
    )
    directory = uuid_to_text(ZERO_UUID if voted is None else voted.directory_id)
    yield Family(
        _RAFT + "current_vote_directory_id",
        "gauge",
        "Directory of the node that has the vote, as the label says",
        (({"current_vote_directory_id": directory}, 1),),
    )
    yield gauge(_RAFT + "current_epoch", "Epoch of the quorum", metrics.epoch)
    yield gauge(_RAFT + "high_watermark", "End of what is known to be committed", metrics.high_watermark)
    yield gauge(_RAFT + "log_end_offset", "End of the metadata log here", metrics.log_end_offset)
    yield gauge(_RAFT + "log_end_epoch", "Epoch of the last record here", metrics.log_end_epoch)
    yield gauge(_RAFT + "number_of_voters", "Voters of the quorum", metrics.voters)
    yield gauge(_RAFT + "number_of_observers", "Observers that fetch from this leader", metrics.observers)
    yield gauge(
        _RAFT + "number_unknown_voter_connections",
        "Voters whose address is not known",
        metrics.voters_without_address,
    )
    yield gauge(
        _RAFT + "uncommitted_voter_change",
        "1 while a change of the voters is not committed",
        int(metrics.has_uncommitted_voter_change),
    )
    latencies = (("commit", metrics.commit_latency_ms), ("election", metrics.election_latency_ms))
    for name, (mean, largest) in latencies:
        yield gauge(f"{_RAFT}{name}_latency_avg", f"Mean time of a {name} (milliseconds, a minute)", mean)
        yield gauge(f"{_RAFT}{name}_latency_max", f"Longest {name} (milliseconds, a minute)", largest)


class _Rates:
    """Records since the last scrape: appended by this replica as the leader, or fetched as a follower."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_ns: int | None = None
        self._end_offset = 0
        self._led = False

    def families(self, metrics: QuorumMetrics) -> Iterator[Family]:
        now_ns = self._clock.monotonic_ns()
        leads = metrics.state == "leader"
        rate = 0.0
        if self._looked_ns is not None and now_ns > self._looked_ns and leads == self._led:
            records = max(0, metrics.log_end_offset - self._end_offset)
            rate = records * 1e9 / (now_ns - self._looked_ns)
        self._looked_ns, self._end_offset, self._led = now_ns, metrics.log_end_offset, leads
        appended, fetched = (rate, 0.0) if leads else (0.0, rate)
        yield gauge(_RAFT + "append_records_rate", "Records a second, appended by this leader", appended)
        yield gauge(_RAFT + "fetch_records_rate", "Records a second, fetched from the leader", fetched)


def _log_of(controller: ObservedController, metrics: QuorumMetrics, clock: Clock) -> Iterator[Family]:
    image = controller.image
    active = int(controller.is_active)
    lag_ms = 0 if active else max(0, clock.wall_ms() - image.timestamp_ms)
    yield gauge(_CONTROLLER + "activecontrollercount", "1 at the active controller", active)
    yield gauge(_CONTROLLER + "lastappliedrecordoffset", "Last record applied here", image.offset)
    yield gauge(_CONTROLLER + "lastappliedrecordtimestamp", "When that was appended", image.timestamp_ms)
    yield gauge(
        _CONTROLLER + "lastappliedrecordlagms", "How long ago that was; 0 at the active controller", lag_ms
    )
    yield gauge(
        _CONTROLLER + "lastcommittedrecordoffset", "Last record committed", metrics.high_watermark - 1
    )
    yield gauge(
        _CONTROLLER + "newactivecontrollerscount",
        "How often an active controller became known in this life",
        metrics.elected_leaders,
    )
    yield gauge(_CONTROLLER + "metadataerrorcount", "Always 0: an error of metadata ends the process", 0)
    yield gauge(
        _CONTROLLER + "timedoutbrokerheartbeatcount",
        "Brokers that this controller fenced because they fell silent",
        controller.timed_out_heartbeats,
    )


def _cluster_of(controller: ObservedController) -> Iterator[Family]:
    brokers = controller.image.brokers.by_id.values()
    fenced = sum(1 for each in brokers if each.fenced)
    leaving = sum(1 for each in brokers if not each.fenced and each.in_controlled_shutdown)
    unfenced = len(brokers) - fenced
    yield gauge(_CONTROLLER + "activebrokercount", "Registered brokers that are not fenced", unfenced)
    yield gauge(_CONTROLLER + "fencedbrokercount", "Registered brokers that are fenced", fenced)
    yield gauge(_CONTROLLER + "controlledshutdownbrokercount", "Brokers that are shutting down", leaving)

    def silences() -> Iterator[Sample]:
        for broker_id, silence_ms in controller.broker_silences_ms().items():
            yield {"broker": str(broker_id)}, silence_ms

    yield Family(
        _CONTROLLER + "timesincelastheartbeatreceivedms",
        "gauge",
        "How long ago the active controller heard of a broker",
        silences(),
    )


def _elections(elections: CountedElections) -> Iterator[Family]:
    yield counter(
        _STATISTICS + "uncleanleaderelections_total",
        "Elections of leaders that may lack acknowledged records",
        elections.unclean,
    )
    yield counter(
        _STATISTICS + "electionfromeligibleleaderreplicas_total",
        "Elections of eligible leader replicas",
        elections.from_eligible,
    )


class _TopicCounts(NamedTuple):
    topic: TopicImage
    partitions: int
    offline: int
    imbalanced: int


class PartitionCounts:
    """Counts over all partitions. A topic that has not changed since the last time is not counted again."""

    def __init__(self) -> None:
        self._topics: TopicsImage | None = None
        self._known: dict[bytes, _TopicCounts] = {}
        self._sums = (0, 0, 0, 0)

    def of(self, topics: TopicsImage) -> tuple[int, int, int, int]:
        """(topics, partitions, partitions without a leader, partitions led by another than the preferred
        leader)."""
        if topics is self._topics:
            return self._sums
        known: dict[bytes, _TopicCounts] = {}
        partitions = offline = imbalanced = 0
        for topic_id, topic in topics.by_id.items():
            counted = self._known.get(topic_id)
            if counted is None or counted.topic is not topic:
                counted = _counted(topic)
            known[topic_id] = counted
            partitions += counted.partitions
            offline += counted.offline
            imbalanced += counted.imbalanced
        self._topics, self._known = topics, known
        self._sums = (len(known), partitions, offline, imbalanced)
        return self._sums


def _counted(topic: TopicImage) -> _TopicCounts:
    offline = imbalanced = 0
    for partition in topic.partitions.values():
        offline += partition.leader == NO_LEADER
        imbalanced += partition.leader != partition.preferred_leader
    return _TopicCounts(topic, len(topic.partitions), offline, imbalanced)


def _partitions(sums: tuple[int, int, int, int]) -> Iterator[Family]:
    topics, partitions, offline, imbalanced = sums
    yield gauge(_CONTROLLER + "globaltopiccount", "Topics of the cluster", topics)
    yield gauge(_CONTROLLER + "globalpartitioncount", "Partitions of the cluster", partitions)
    yield gauge(_CONTROLLER + "offlinepartitionscount", "Partitions that nobody leads", offline)
    yield gauge(
        _CONTROLLER + "preferredreplicaimbalancecount",
        "Partitions that another than the preferred leader leads",
        imbalanced,
    )
