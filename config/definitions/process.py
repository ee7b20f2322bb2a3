"""The configs that identify a node, and those of its part in the metadata quorum."""

from __future__ import annotations

from typing import Final

from config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    Definition,
)
from config.validators import BootstrapServers, Items, QuorumVoters, at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("node.id", INT, None, at_least(0), HIGH, READ_ONLY,
        "Number of this node, unique in the cluster for brokers and controllers together; written into "
        "meta.properties when the directory is formatted.", required=True),
    Definition("broker.id", INT, -1, None, HIGH, READ_ONLY,
        "Older name of node.id: read when node.id is absent, and must equal it when both are set."),
    Definition("process.roles", LIST,
        None, Items(("broker", "controller"), may_be_empty=False), HIGH, READ_ONLY,
        "What this process is: `broker`, `controller`, or both in one.", required=True),
    Definition("broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "Name of the place where this broker stands (rack, zone); shown in Metadata and used for placing "
        "replicas and for reading from a near replica."),
    Definition("broker.heartbeat.interval.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "How often the broker tells the controller that it lives."),
    Definition("broker.session.timeout.ms", INT, 9000, None, MEDIUM, READ_ONLY,
        "Time without a heartbeat after which the controller fences the broker."),
    Definition("initial.broker.registration.timeout.ms", INT, 60000, None, MEDIUM, READ_ONLY,
        "How long a starting broker tries to register with the controller before it gives up and ends."),
    Definition("server.max.startup.time.ms", LONG, LONG_MAX, at_least(0), MEDIUM, READ_ONLY,
        "Upper bound for the whole start; reaching it ends the process.", internal=True),
    Definition("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether a stopping broker first asks the controller to move its leaderships elsewhere."),
    Definition("controller.listener.names", LIST, None, Items(may_be_empty=False), HIGH, READ_ONLY,
        "Listeners that belong to the controller; the first one is used for talking to the quorum. They "
        "are never advertised to clients.", required=True),
    Definition("controller.quorum.voters", LIST, (), QuorumVoters(), HIGH, READ_ONLY,
        "The fixed voters of the metadata quorum as `id@host:port`; left empty, the voters come from the "
        "metadata log (dynamic quorum)."),
    Definition("controller.quorum.bootstrap.servers", LIST, (), BootstrapServers(), HIGH, READ_ONLY,
        "Addresses at which a node finds the metadata quorum when the voters are kept in "
        "the metadata log."),
    Definition("controller.quorum.auto.join.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a new controller adds itself to the voters once it has caught up."),
    Definition("controller.quorum.election.timeout.ms", INT, 1000, at_least(0), HIGH, READ_ONLY,
        "Longest time in which a voter without a leader starts an election; each voter "
        "draws its own within it."),
    Definition("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0), HIGH, READ_ONLY,
        "Longest pause before a candidate whose election failed tries again."),
    Definition("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0), HIGH, READ_ONLY,
        "Time without a successful fetch from the quorum's leader after which a voter stands for "
        "election; also after which the leader resigns without a majority."),
    Definition("controller.quorum.fetch.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "Most bytes of metadata log that one fetch of the quorum returns."),
    Definition("controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "Most bytes of a metadata snapshot that one FetchSnapshot returns."),
    Definition("controller.quorum.append.linger.ms", INT, 25, at_least(0), MEDIUM, READ_ONLY,
        "How long the quorum's leader collects records before it writes and syncs them as one batch."),
    Definition("controller.quorum.request.timeout.ms", INT, 2000, at_least(0), MEDIUM, READ_ONLY,
        "Time after which a request between quorum members counts as lost."),
    Definition("controller.quorum.retry.backoff.ms", INT, 20, at_least(0), LOW, READ_ONLY,
        "Pause before a failed request between quorum members is sent again."),
    Definition("controller.performance.sample.period.ms", LONG, 60000, at_least(100), MEDIUM, READ_ONLY,
        "Period of the summary of slow controller events.", internal=True),
    Definition("controller.performance.always.log.threshold.ms", LONG, 2000, at_least(0), MEDIUM, READ_ONLY,
        "A controller event that takes longer is logged by itself.", internal=True),
    Definition("metadata.log.dir", STRING, None, None, HIGH, READ_ONLY,
        "Directory of `__cluster_metadata-0`; by default the first log directory."),
    Definition("metadata.log.segment.bytes", INT, 1_073_741_824, at_least(8_388_608), HIGH, READ_ONLY,
        "Size at which a segment of the metadata log is rolled."),
    Definition("metadata.log.segment.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "Age at which a segment of the metadata log is rolled."),
    Definition("metadata.log.max.record.bytes.between.snapshots", LONG,
        20_971_520, at_least(1), HIGH, READ_ONLY,
        "Bytes of metadata records after which a new snapshot is written."),
    Definition("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0), HIGH, READ_ONLY,
        "Age of the newest snapshot after which another is written if anything has "
        "changed; 0 means by size only."),
    Definition("metadata.max.idle.interval.ms", INT, 500, at_least(0), LOW, READ_ONLY,
        "An idle active controller writes a no-op record this often, so that followers see the high "
        "watermark move; 0 switches it off."),
    Definition("metadata.max.retention.bytes", LONG, 104_857_600, None, HIGH, READ_ONLY,
        "Bytes of metadata log and snapshots beyond which old ones that a newer snapshot "
        "covers are removed."),
    Definition("metadata.max.retention.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "Age beyond which metadata segments and snapshots that a newer snapshot covers are removed."),
    Definition("internal.metadata.log.segment.bytes", INT, None, None, LOW, READ_ONLY,
        "Test hook of Kafka: a metadata segment size below the public minimum.", internal=True),
    Definition("internal.metadata.max.batch.size.in.bytes", INT, 8_388_608, None, LOW, READ_ONLY,
        "Test hook of Kafka: largest batch of metadata records.", internal=True),
    Definition("internal.metadata.delete.delay.millis", LONG, 60000, None, LOW, READ_ONLY,
        "Test hook of Kafka: delay between renaming and removing a metadata segment.", internal=True),
    Definition("unstable.api.versions.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether request versions still in development are offered to clients.", internal=True),
    Definition("unstable.feature.versions.enable", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether feature levels still in development may be set.", internal=True),
    Definition("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "How often the controller looks for partitions that are not led by their preferred replica."),
    Definition("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether the controller gives leadership back to preferred replicas by itself."),
    Definition("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "How often the controller retries elections that only an unclean replica can win.", internal=True),
    Definition("max.request.partition.size.limit", INT, 2000, at_least(1), MEDIUM, READ_ONLY,
        "Most partitions that one answer to DescribeTopicPartitions holds; the client "
        "asks for the rest with a cursor."),
    Definition("config.providers", LIST, (), Items(), LOW, CLUSTER_WIDE,
        "Names of providers whose `${name:path:key}` references in values are replaced at the start."),
)
# fmt: on
