"""Where partitions are kept, and how their files are rolled, indexed, synced and aged."""

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
    PER_BROKER,
    READ_ONLY,
    STRING,
    Definition,
)
from config.validators import Items, OneOf, at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("log.dirs", LIST, None, Items(may_be_empty=False, may_be_null=True), HIGH, READ_ONLY,
        "Data directories, separated by commas; falls back to log.dir."),
    Definition("log.dir", LIST, ("/tmp/kafka-logs",), Items(may_be_empty=False), HIGH, READ_ONLY,
        "Data directory, used when log.dirs is not set."),
    Definition("cordoned.log.dirs", LIST, (), Items(may_be_null=True), MEDIUM, PER_BROKER,
        "Directories that get no new partitions, or `*` for all of them."),
    Definition("log.dir.failure.timeout.ms", LONG, 30000, at_least(1), LOW, READ_ONLY,
        "A broker that cannot tell the controller of a failed directory within this time ends itself."),
    Definition("log.segment.bytes", INT, 1_073_741_824, at_least(1_048_576), HIGH, CLUSTER_WIDE,
        "Size at which a partition's active segment is rolled; `segment.bytes` of a topic overrides it."),
    Definition("log.roll.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "Age (by record time) at which a segment is rolled, in milliseconds; comes before log.roll.hours."),
    Definition("log.roll.hours", INT, 168, at_least(1), HIGH, READ_ONLY,
        "Age (by record time) at which a segment is rolled, in hours."),
    Definition("log.roll.jitter.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "Random time taken off the age of rolling, so that many segments do not roll at "
        "once; comes before the hours."),
    Definition("log.roll.jitter.hours", INT, 0, at_least(0), HIGH, READ_ONLY,
        "Random time taken off the age of rolling, in hours."),
    Definition("log.index.size.max.bytes", INT, 10_485_760, at_least(4), MEDIUM, CLUSTER_WIDE,
        "Size of an offset index at which its segment is rolled."),
    Definition("log.index.interval.bytes", INT, 4096, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes of records between two entries of the offset index; smaller means faster "
        "look-ups and larger indexes."),
    Definition("log.flush.interval.messages", LONG, LONG_MAX, at_least(1), HIGH, CLUSTER_WIDE,
        "Records after which a partition is synced to disk without being asked."),
    Definition("log.flush.interval.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "Time after which a partition is synced to disk; by default log.flush.scheduler.interval.ms."),
    Definition("log.flush.scheduler.interval.ms", LONG, LONG_MAX, None, HIGH, READ_ONLY,
        "How often the broker looks for partitions that are due for a sync."),
    Definition("log.flush.offset.checkpoint.interval.ms", INT, 60000, at_least(0), HIGH, READ_ONLY,
        "How often recovery-point-offset-checkpoint is written."),
    Definition("log.flush.start.offset.checkpoint.interval.ms", INT, 60000, at_least(0), HIGH, READ_ONLY,
        "How often log-start-offset-checkpoint is written."),
    Definition("log.retention.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "How long records are kept, in milliseconds; comes before the minutes and hours. "
        "-1 keeps them for ever."),
    Definition("log.retention.minutes", INT, None, None, HIGH, READ_ONLY,
        "How long records are kept, in minutes; comes before the hours."),
    Definition("log.retention.hours", INT, 168, None, HIGH, READ_ONLY,
        "How long records are kept, in hours."),
    Definition("log.retention.bytes", LONG, -1, None, HIGH, CLUSTER_WIDE,
        "Size of a partition beyond which its oldest segments are removed; -1 sets no limit."),
    Definition("log.retention.check.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "How often the broker looks for segments that may go."),
    Definition("log.cleanup.policy", LIST, ("delete",), Items(("compact", "delete")), MEDIUM, CLUSTER_WIDE,
        "What happens to old records: `delete`, `compact`, both, or nothing when empty."),
    Definition("log.segment.delete.delay.ms", LONG, 60000, at_least(0), HIGH, CLUSTER_WIDE,
        "Time between renaming a removed file to `.deleted` and unlinking it, so that readers finish."),
    Definition("log.preallocate", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Whether a new segment is given its full size at once."),
    Definition("log.message.timestamp.type", STRING,
        "CreateTime", OneOf(("CreateTime", "LogAppendTime")), MEDIUM, CLUSTER_WIDE,
        "Whether records keep the producer's time (CreateTime) or get the broker's (LogAppendTime)."),
    Definition("log.message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How far a record's time may lie before the broker's; older records are refused."),
    Definition("log.message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How far a record's time may lie after the broker's; later records are refused."),
    Definition("log.initial.task.delay.ms", LONG, 30000, at_least(0), LOW, READ_ONLY,
        "Delay of the periodic log work after the start.", internal=True),
    Definition("log.local.retention.ms", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "With tiered storage: how long segments stay on local disk after they were copied "
        "away; -2 means as log.retention.ms."),
    Definition("log.local.retention.bytes", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "With tiered storage: local size of a partition beyond which copied segments go; "
        "-2 means as log.retention.bytes."),
    Definition("num.recovery.threads.per.data.dir", INT, 2, at_least(1), HIGH, CLUSTER_WIDE,
        "Directories' partitions that are recovered side by side at the start."),
)
# fmt: on
