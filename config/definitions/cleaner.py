"""The configs of compaction: when a partition is cleaned, and what the cleaner may use."""

from __future__ import annotations

from typing import Final

from config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LONG,
    LONG_MAX,
    MEDIUM,
    READ_ONLY,
    Definition,
)
from config.validators import at_least, between

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether compacted topics are cleaned at all; without it they grow for ever."),
    Definition("log.cleaner.threads", INT, 1, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Partitions that are cleaned side by side."),
    Definition("log.cleaner.backoff.ms", LONG, 15000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Pause when there is nothing to clean."),
    Definition("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, between(0, 1), MEDIUM, CLUSTER_WIDE,
        "Share of uncleaned bytes in a log at which it is cleaned."),
    Definition("log.cleaner.min.compaction.lag.ms", LONG, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Time for which a record is safe from compaction."),
    Definition("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Time after which a record must have been compacted, whatever the ratio says."),
    Definition("log.cleaner.delete.retention.ms", LONG, 86_400_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long tombstones and transaction markers stay readable in a compacted topic."),
    Definition("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "Memory for the key table of all cleaner threads together."),
    Definition("log.cleaner.io.buffer.size", INT, 524_288, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Memory for reading and writing segments of all cleaner threads together."),
    Definition("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, None, MEDIUM, CLUSTER_WIDE,
        "How full the key table of the cleaner may become."),
    Definition("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, None, MEDIUM, CLUSTER_WIDE,
        "Bytes a second that cleaning may read and write."),
)
# fmt: on
