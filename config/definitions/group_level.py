"""Configs of single groups; what a group does not set comes from the broker config named as synonym."""

from __future__ import annotations

from typing import Final

from config.definition import BOOLEAN, GROUP, INT, MEDIUM, STRING, Definition
from config.validators import OneOf, ShareOffsetReset, at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("consumer.session.timeout.ms", INT, 45000, at_least(1), MEDIUM, GROUP,
        "Time without a heartbeat after which a member of this consumer group is removed.",
        synonyms=("group.consumer.session.timeout.ms",)),
    Definition("consumer.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, GROUP,
        "How often members of this consumer group are told to send heartbeats.",
        synonyms=("group.consumer.heartbeat.interval.ms",)),
    Definition("consumer.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, GROUP,
        "Least time between two computed assignments of this consumer group.",
        synonyms=("group.consumer.assignment.interval.ms",)),
    Definition("share.session.timeout.ms", INT, 45000, at_least(1), MEDIUM, GROUP,
        "Time without a heartbeat after which a member of this share group is removed.",
        synonyms=("group.share.session.timeout.ms",)),
    Definition("share.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, GROUP,
        "How often members of this share group are told to send heartbeats.",
        synonyms=("group.share.heartbeat.interval.ms",)),
    Definition("share.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, GROUP,
        "Least time between two computed assignments of this share group.",
        synonyms=("group.share.assignment.interval.ms",)),
    Definition("share.record.lock.duration.ms", INT, 30000, at_least(1000), MEDIUM, GROUP,
        "How long a delivered record is locked for its consumer.",
        synonyms=("group.share.record.lock.duration.ms",)),
    Definition("share.delivery.count.limit", INT, 5, at_least(2), MEDIUM, GROUP,
        "Deliveries after which a record is given up.", synonyms=("group.share.delivery.count.limit",)),
    Definition("share.partition.max.record.locks", INT, 2000, at_least(100), MEDIUM, GROUP,
        "Records of one share partition that may be in flight.",
        synonyms=("group.share.partition.max.record.locks",)),
    Definition("share.auto.offset.reset", STRING, "latest", ShareOffsetReset(), MEDIUM, GROUP,
        "Where a share group starts on a new partition: earliest, latest, or by_duration "
        "with an ISO duration."),
    Definition("share.isolation.level", STRING,
        "read_uncommitted", OneOf(("read_committed", "read_uncommitted")), MEDIUM, GROUP,
        "Whether a share group sees only committed records."),
    Definition("share.renew.acknowledge.enable", BOOLEAN, True, None, MEDIUM, GROUP,
        "Whether consumers may renew the lock of a record that they still work on."),
    Definition("streams.session.timeout.ms", INT, 45000, at_least(1), MEDIUM, GROUP,
        "Time without a heartbeat after which a member of this streams group is removed.",
        synonyms=("group.streams.session.timeout.ms",)),
    Definition("streams.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, GROUP,
        "How often members of this streams group are told to send heartbeats.",
        synonyms=("group.streams.heartbeat.interval.ms",)),
    Definition("streams.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, GROUP,
        "Least time between two computed assignments of this streams group.",
        synonyms=("group.streams.assignment.interval.ms",)),
    Definition("streams.initial.rebalance.delay.ms", INT, 3000, at_least(0), MEDIUM, GROUP,
        "How long the first assignment of this empty streams group waits for more members.",
        synonyms=("group.streams.initial.rebalance.delay.ms",)),
    Definition("streams.num.standby.replicas", INT, 0, at_least(0), MEDIUM, GROUP,
        "Standby copies of each stateful task of this streams group.",
        synonyms=("group.streams.num.standby.replicas",)),
)
# fmt: on
