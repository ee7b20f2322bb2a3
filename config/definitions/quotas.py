"""The configs of quotas: on clients, on replication, and on moves between directories."""

from __future__ import annotations

from typing import Final

from config.definition import CLASS, CLUSTER_WIDE, INT, LONG, LONG_MAX, LOW, MEDIUM, READ_ONLY, Definition
from config.validators import at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept for client quotas."),
    Definition("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample for client quotas."),
    Definition("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept for replication quotas."),
    Definition("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample for replication quotas."),
    Definition("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept for the quota on moves between directories."),
    Definition("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample for the quota on moves between directories."),
    Definition("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept for quotas on controller mutations."),
    Definition("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample for quotas on controller mutations."),
    Definition("client.quota.callback.class", CLASS, None, None, LOW, READ_ONLY,
        "In Kafka a Java class that computes client quotas."),
    Definition("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second that this broker sends to followers of throttled replicas.", dynamic_only=True),
    Definition("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second that this broker copies as follower of throttled replicas.", dynamic_only=True),
    Definition("replica.alter.log.dirs.io.max.bytes.per.second", LONG,
        LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second for moves between directories of this broker.", dynamic_only=True),
)
# fmt: on
