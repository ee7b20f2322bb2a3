"""The configs of replication between brokers."""

from __future__ import annotations

from typing import Final

from config.definition import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LONG, MEDIUM, READ_ONLY, STRING, Definition
from config.validators import at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Connections to each leader over which this broker copies partitions."),
    Definition("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
        "Record bytes of one partition that a follower asks for at once."),
    Definition("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Bytes for which a leader lets a follower's fetch wait."),
    Definition("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
        "Record bytes of a whole answer that a follower asks for."),
    Definition("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "Longest wait of a follower's fetch at the leader."),
    Definition("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "Pause of a follower after a partition failed."),
    Definition("replica.lag.time.max.ms", LONG, 30000, None, HIGH, READ_ONLY,
        "Time without having caught up after which a follower leaves the in-sync replicas."),
    Definition("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often replication-offset-checkpoint is written."),
    Definition("replica.socket.timeout.ms", INT, 30000, None, HIGH, READ_ONLY,
        "Time after which a follower's request to its leader counts as lost."),
    Definition("replica.socket.receive.buffer.bytes", INT, 65536, None, HIGH, READ_ONLY,
        "SO_RCVBUF of a follower's connections to leaders."),
    Definition("replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "From which replica consumers read: org.apache.kafka.common.replica.RackAwareReplicaSelector for one "
        "in their rack; the leader without it."),
    Definition("controller.socket.timeout.ms", INT, 30000, None, MEDIUM, READ_ONLY,
        "Time after which a broker's request to the controller counts as lost."),
    Definition("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, READ_ONLY,
        "Partitions that are moved between directories of this broker side by side."),
    Definition("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether a new follower of a tiered topic starts at the last copied offset "
        "instead of the local start."),
)
# fmt: on
