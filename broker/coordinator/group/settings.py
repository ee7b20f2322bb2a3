"""What the group coordinator is told by the broker's configuration."""

from __future__ import annotations

import msgspec


class GroupSettings(msgspec.Struct, frozen=True):
    """Kafka's configs of the same names (dots for underscores) with Kafka's defaults; times in ms."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_characters: int = 4_096
    """`offset.metadata.max.bytes`, which counts characters of Java: UTF-16 code units."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    """`offsets.retention.minutes` in milliseconds."""
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_bytes: int = 5 * 1024 * 1024
    offsets_topic_partition_count: int = 50
    new_member_join_timeout_ms: int = 300_000
    """How long a member that nobody knows yet may sit in a join phase. Not configurable, as in Kafka."""
