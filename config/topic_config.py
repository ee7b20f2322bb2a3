"""What a topic's log is told: the topic's own settings over those of the broker, typed and ready.

`TopicConfig` holds one field for each topic config, named after it. A topic that sets nothing gets the
broker's value of the synonym (`retention.ms` ← `log.retention.ms`, `.minutes`, `.hours`), and so follows a
dynamic change of the broker's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from config.broker_config import BrokerConfig
from config.catalogue import TOPIC
from config.definition import Definition
from config.errors import InvalidValue, java_text, some_of
from config.java_order import hash_order
from config.validators import Range
from config.values import Value, parse_value


class TopicConfig(Struct, frozen=True, gc=False, kw_only=True):
    """Times in milliseconds, -1 for no limit where Kafka has it, LONG's largest number for never."""

    cleanup_policy: tuple[str, ...]
    compression_type: str
    """The codec of stored batches, or `producer` (as they came), or `uncompressed`."""
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    leader_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    """Whose time a record gets: `CreateTime` or `LogAppendTime`."""
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    """The value of internal.segment.bytes where it is set, else of segment.bytes."""
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    faults: tuple[str, ...] = ()
    """A sentence on each setting of the topic that is not valid, with the value that is used instead."""

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def stamps_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


_INTERNAL_SEGMENT: Final = "internal.segment.bytes"

_KEEPS_ALL: Final[Mapping[str, Value]] = MappingProxyType(
    {"cleanup.policy": (), "retention.bytes": -1, "retention.ms": -1}
)
"""The configs that say what is deleted, each with the value by which nothing is."""


def inherited_value(broker: BrokerConfig, name: str) -> Value:
    """The value of a topic that does not set this config itself."""
    if name == "retention.ms":
        return broker.retention_ms
    if name == "segment.ms":
        return broker.roll_ms
    if name == "segment.jitter.ms":
        return broker.roll_jitter_ms
    if name == "flush.ms":
        return broker.flush_interval_ms
    definition = TOPIC[name]
    return broker.value(definition.synonyms[0]) if definition.synonyms else definition.default


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """The config in force for a topic with these settings of its own.

    Settings that this release does not know are passed over (a newer one may have stored them). One whose
    value is not valid here (an older release may have allowed it) is named in `faults`, and leaves the
    others as they are.
    """
    fields: dict[str, Any] = {}
    faults = []
    for name, definition in TOPIC.items():
        text = overrides.get(name)
        try:
            value = inherited_value(broker, name) if text is None else definition.parse(text)
        except InvalidValue as problem:
            value = _nearest_value(broker, definition, text)
            faults.append(f"{problem}; {java_text(value)} is used instead")
        fields[name.replace(".", "_")] = value
    internal = fields.pop(_INTERNAL_SEGMENT.replace(".", "_"))
    if internal is not None:
        fields["segment_bytes"] = internal
    return TopicConfig(**fields, faults=tuple(faults))


def _nearest_value(broker: BrokerConfig, definition: Definition, text: str | None) -> Value:
    """What is used for a value that is not valid: for a number out of its range the nearest bound, else what
    the topic would inherit. A text that cannot be read lets nothing be deleted."""
    rule = definition.validator
    try:
        number = parse_value(definition.name, text, definition.type)
    except InvalidValue:
        number = None
    if isinstance(rule, Range) and isinstance(number, (int, float)):
        is_below = rule.minimum is not None and number < rule.minimum
        return rule.minimum if is_below else rule.maximum
    if definition.name in _KEEPS_ALL:
        return _KEEPS_ALL[definition.name]
    return inherited_value(broker, definition.name)


def validate_topic_config(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Checks the configs of a topic for CreateTopics and for later changes. Raises `InvalidValue`
    (INVALID_CONFIG).

    `overrides` are all settings that the topic would have afterwards.
    """
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise InvalidValue(f"Null value not supported for topic configs: {some_of(nulls)}")
    for name in hash_order(overrides):
        if name not in TOPIC:
            raise InvalidValue(f"Unknown topic config name: {name}")
    values = {name: row.parse(overrides[name]) for name, row in TOPIC.items() if name in overrides}

    def in_force(name: str) -> Value:
        return values[name] if name in values else inherited_value(broker, name)

    least, most = in_force("min.compaction.lag.ms"), in_force("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise InvalidValue(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if in_force("remote.storage.enable") and not broker.flag("remote.log.storage.system.enable"):
        raise InvalidValue(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
