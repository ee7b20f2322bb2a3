"""What the partitions of a topic share on this broker: its configuration, in the form in which they and their
logs need it, and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from config.broker_config import BrokerConfig
from config.topic_config import TopicConfig, topic_config
from protocol.records.compression import NONE, codec_named
from storage.log_config import LogConfig

_AS_IT_COMES: Final = "producer"
_NOT_COMPRESSED: Final = "uncompressed"


class TopicSettings(NamedTuple):
    """log: the settings for the logs. min_insync_replicas: the setting for the partitions. faults: a sentence
    on each stored setting that is not valid."""

    log: LogConfig
    min_insync_replicas: int
    faults: tuple[str, ...]


def topic_settings(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicSettings:
    """The settings in force for a topic that sets `overrides`."""
    topic = topic_config(broker, overrides)
    codec, level = _codec_and_level(topic)
    log = LogConfig(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic.segment_ms,
        segment_jitter_ms=topic.segment_jitter_ms,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        max_message_bytes=topic.max_message_bytes,
        compact=topic.compacts,
        delete=topic.deletes,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        delete_retention_ms=topic.delete_retention_ms,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        log_append_time=topic.stamps_append_time,
        timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        codec=codec,
        codec_level=level,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        producer_id_expiration_ms=broker.integer("producer.id.expiration.ms"),
    )
    return TopicSettings(log, topic.min_insync_replicas, topic.faults)


def loading_config(broker: BrokerConfig) -> LogConfig:
    """The settings of logs that a start opens, as long as their topics' settings are not known: what is
    needed to open them, and to delete them if their topic is gone. Nothing else may be done to a log by
    settings that may not be its own."""
    return LogConfig(
        index_interval_bytes=broker.integer("log.index.interval.bytes"),
        file_delete_delay_ms=broker.integer("log.segment.delete.delay.ms"),
    )


def _codec_and_level(topic: TopicConfig) -> tuple[int | None, int | None]:
    """The codec in which batches are stored, None for the producer's, and its level."""
    name = topic.compression_type
    if name == _AS_IT_COMES:
        return None, None
    if name == _NOT_COMPRESSED:
        return NONE, None
    levels = {
        "gzip": topic.compression_gzip_level,
        "lz4": topic.compression_lz4_level,
        "zstd": topic.compression_zstd_level,
    }
    return codec_named(name).number, levels.get(name)


class TopicCounters:
    """Counts what has happened to one topic on this broker since its start. The counters are plain integers,
    which metrics read."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "messages_in",
        "topic",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.total_produce_requests = 0
        self.total_fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0

    def add(self, other: TopicCounters) -> None:
        """Adds all counters of the other topic."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.messages_in += other.messages_in
        self.total_produce_requests += other.total_produce_requests
        self.total_fetch_requests += other.total_fetch_requests
        self.failed_produce_requests += other.failed_produce_requests
        self.failed_fetch_requests += other.failed_fetch_requests
