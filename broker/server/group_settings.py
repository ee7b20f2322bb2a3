"""The group coordinator's settings, from the broker's configuration."""

from __future__ import annotations

from broker.coordinator.group.settings import GroupSettings
from config.broker_config import BrokerConfig

MINUTE_MS = 60_000


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        group_min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        group_max_size=config.integer("group.max.size"),
        group_initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        offset_metadata_max_characters=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        offsets_commit_timeout_ms=config.integer("offsets.commit.timeout.ms"),
        offsets_load_buffer_bytes=config.integer("offsets.load.buffer.size"),
        offsets_topic_partition_count=config.integer("offsets.topic.num.partitions"),
    )
