"""The topic settings that a log reads, as plain numbers; names and defaults are Kafka's.

The engine asks no configuration while it appends: the values are taken over once, when the log is opened
or its topic altered (`PartitionLog.update_config`), and hold from the next append on.
"""

from __future__ import annotations

from typing import Final

import msgspec

from config.limits import DECOMPRESSED_BATCH_BYTES
from protocol.records.verdict import NO_BOUND_MS, ValidationRules

UNLIMITED: Final = -1

_MIB: Final = 1024 * 1024
_WEEK_MS: Final = 7 * 24 * 3600 * 1000
_HOUR_MS: Final = 3600 * 1000


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in milliseconds."""

    segment_bytes: int = 1024 * _MIB
    segment_ms: int = _WEEK_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * _MIB
    index_interval_bytes: int = 4096
    max_message_bytes: int = _MIB + 12
    compact: bool = False
    """Whether `cleanup.policy` contains compact, so that every record needs a key."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_BOUND_MS
    delete_retention_ms: int = 24 * _HOUR_MS
    """The time for which tombstones and markers are kept after the first pass of the cleaner that has met
    them."""
    delete: bool = True
    """Whether `cleanup.policy` contains delete, so that retention by time and size applies."""
    retention_ms: int = _WEEK_MS
    """`retention.ms`; -1 keeps records for ever."""
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    log_append_time: bool = False
    """Whether `message.timestamp.type` is LogAppendTime."""
    timestamp_before_max_ms: int = NO_BOUND_MS
    timestamp_after_max_ms: int = _HOUR_MS
    codec: int | None = None
    """`compression.type` as the number of a codec; None keeps the producer's."""
    codec_level: int | None = None
    flush_messages: int = NO_BOUND_MS
    flush_ms: int = NO_BOUND_MS
    sync_full_segments: bool = False
    """Whether a full segment is synced before the next one is created. A power cut can then leave no gap
    between the two, at the price of a wait for the disk on the loop."""
    producer_id_expiration_ms: int = 24 * _HOUR_MS
    """The broker's `producer.id.expiration.ms`."""

    def validation_rules(self, partition_name: str) -> ValidationRules:
        return ValidationRules(
            partition_name,
            self.max_message_bytes,
            compacted=self.compact,
            log_append_time=self.log_append_time,
            before_max_ms=self.timestamp_before_max_ms,
            after_max_ms=self.timestamp_after_max_ms,
            codec=self.codec,
            level=self.codec_level,
            limit_bytes=DECOMPRESSED_BATCH_BYTES,
        )
