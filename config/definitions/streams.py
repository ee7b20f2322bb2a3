"""The configs of Streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Final

from config.definition import CLUSTER_WIDE, INT, INT_MAX, MEDIUM, READ_ONLY, Definition
from config.validators import at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("group.streams.session.timeout.ms", INT, 45000, at_least(1), MEDIUM, READ_ONLY,
        "Time without a heartbeat after which a streams group member is removed."),
    Definition("group.streams.min.session.timeout.ms", INT, 45000, at_least(1), MEDIUM, READ_ONLY,
        "Smallest session timeout that a streams group may be given."),
    Definition("group.streams.max.session.timeout.ms", INT, 60000, at_least(1), MEDIUM, READ_ONLY,
        "Largest session timeout that a streams group may be given."),
    Definition("group.streams.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "How often streams group members are told to send heartbeats."),
    Definition("group.streams.min.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "Smallest heartbeat interval that a streams group may be given."),
    Definition("group.streams.max.heartbeat.interval.ms", INT, 15000, at_least(1), MEDIUM, READ_ONLY,
        "Largest heartbeat interval that a streams group may be given."),
    Definition("group.streams.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Least time between two computed assignments of a streams group."),
    Definition("group.streams.min.assignment.interval.ms", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "Smallest assignment interval that a streams group may be given."),
    Definition("group.streams.max.assignment.interval.ms", INT, 15000, at_least(0), MEDIUM, READ_ONLY,
        "Largest assignment interval that a streams group may be given."),
    Definition("group.streams.initial.rebalance.delay.ms", INT, 3000, at_least(0), MEDIUM, READ_ONLY,
        "How long the first assignment of an empty streams group waits for more members."),
    Definition("group.streams.max.size", INT, INT_MAX, at_least(1), MEDIUM, READ_ONLY,
        "Most members of a streams group."),
    Definition("group.streams.num.standby.replicas", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "Standby copies of each stateful task."),
    Definition("group.streams.max.standby.replicas", INT, 2, at_least(0), MEDIUM, READ_ONLY,
        "Most standby copies that a streams group may be given."),
)
# fmt: on
