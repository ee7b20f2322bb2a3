"""What a decent client would write into a field, by the name of the field and of the struct that holds it.

A value is a number, a bool, bytes of a string or blob, or None for null. A field without a meaning here gets
zero, nothing, or a small number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from protocol.codec.compiler import encoder
from protocol.codec.schema import Field, Kind
from protocol.messages.envelope import DefaultPrincipalData
from tests.support.fuzz import words
from tests.support.fuzz.knowledge import GROUPS, INSTANCES, MADE_TOPICS, TRANSACTIONAL_IDS, Knowledge

Value = int | float | bool | bytes | None
Meaning = Callable[[random.Random, Knowledge], Value]

TOPIC_CONFIGS: Final = (
    "retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "cleanup.policy", "compression.type",
    "max.message.bytes", "min.insync.replicas", "message.timestamp.type", "flush.messages", "flush.ms",
    "index.interval.bytes", "segment.index.bytes", "preallocate", "unclean.leader.election.enable",
    "delete.retention.ms", "file.delete.delay.ms", "min.compaction.lag.ms", "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio", "leader.replication.throttled.replicas", "local.retention.ms",
    "message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "segment.jitter.ms",
    "follower.replication.throttled.replicas", "remote.storage.enable", "compression.gzip.level",
)  # fmt: skip
BROKER_CONFIGS: Final = (
    "log.retention.ms", "log.cleaner.threads", "log.cleaner.io.max.bytes.per.second", "num.io.threads",
    "num.network.threads", "background.threads", "log.segment.bytes", "num.replica.fetchers",
    "min.insync.replicas", "compression.type", "log.cleanup.policy", "log.flush.interval.messages",
    "log.roll.ms", "log.index.interval.bytes", "log.index.size.max.bytes",
    "follower.replication.throttled.rate", "leader.replication.throttled.rate", "log.preallocate",
    "unclean.leader.election.enable", "metric.reporters", "producer.id.expiration.ms", "no.such.config",
    "log.cleaner.io.buffer.size", "log.cleaner.dedupe.buffer.size", "log.cleaner.backoff.ms",
)  # fmt: skip
_VALUES: Final = (
    b"", b"0", b"1", b"-1", b"2147483647", b"9223372036854775807", b"1048576", b"86400000", b"delete",
    b"compact", b"compact,delete", b"gzip", b"zstd", b"producer", b"LogAppendTime", b"true", b"false",
    b"*", b"0:1,1:1", b"0.5", b"all", b"127.0.0.1:0",
)  # fmt: skip
_LEVELS: Final = (b"INFO", b"WARN", b"ERROR", b"FATAL", b"", b"LOUD")
_FEATURES: Final = (
    b"metadata.version", b"kraft.version", b"group.version", b"transaction.version", b"share.version",
    b"eligible.leader.replicas.version", b"streams.version", b"made.up",
)  # fmt: skip
_STATES: Final = (
    b"Stable",
    b"Empty",
    b"PreparingRebalance",
    b"Dead",
    b"stable",
    b"what",
    b"classic",
    b"consumer",
)


_QUOTA_ENTITIES: Final = (b"user", b"client-id", b"ip")
_QUOTAS: Final = (
    b"producer_byte_rate", b"consumer_byte_rate", b"request_percentage", b"controller_mutation_rate",
    b"connection_creation_rate",
)  # fmt: skip


def _one_of(*values: Value) -> Meaning:
    return lambda random_source, _: random_source.choice(values)


def _topic(random_source: random.Random, world: Knowledge) -> Value:
    return world.topic(random_source).encode()


def _made_topic(random_source: random.Random, _: Knowledge) -> Value:
    """Names that may come and go."""
    return random_source.choice(MADE_TOPICS).encode()


def _made_topic_id(random_source: random.Random, world: Knowledge) -> Value:
    return world.topic_ids.get(random_source.choice(MADE_TOPICS), bytes(16))


def _group(random_source: random.Random, world: Knowledge) -> Value:
    return world.group(random_source).encode()


def _member(random_source: random.Random, world: Knowledge) -> Value:
    return world.member(random_source).member_id.encode()


def _config_name(random_source: random.Random, _: Knowledge) -> Value:
    return random_source.choice((*TOPIC_CONFIGS, *BROKER_CONFIGS)).encode()


def _config_value(random_source: random.Random, _: Knowledge) -> Value:
    return random_source.choice((*_VALUES, *_LEVELS))


def _resource(random_source: random.Random, world: Knowledge) -> Value:
    names = (
        _topic(random_source, world),
        _group(random_source, world),
        b"1",
        b"",
        b"barnabas.dispatch",
        b"root",
    )
    return random_source.choice(names)


def _principal(random_source: random.Random, _: Knowledge) -> Value:
    """What a broker writes into an Envelope for its client."""
    who = DefaultPrincipalData("User", random_source.choice(("alice", "ANONYMOUS", "")), False)
    return b"\0\0" + encoder(DefaultPrincipalData, 0)(who)


_TRANSACTIONAL_IDS: Final = tuple(each.encode() for each in TRANSACTIONAL_IDS)
_PARTITION: Final = _one_of(0, 0, 0, 1, 2, -1)
_EPOCH: Final = _one_of(-1, 0, 0, 1)
_OFFSET: Final = _one_of(0, 0, 1, 3, 10, -1, -2)
_BROKER: Final = _one_of(1, 1, 1, 0, 2, -1)

MEANINGS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "topic": _topic,
        "topic_name": _topic,
        "topics": _topic,
        "topic_names": _made_topic,
        "topic_id": lambda random_source, world: world.topic_id(random_source),
        "CreatableTopic.name": _made_topic,
        "DeleteTopicState.name": _made_topic,
        "DeleteTopicState.topic_id": _made_topic_id,
        "CreatePartitionsTopic.name": _made_topic,
        "group_id": _group,
        "groups": _group,
        "groups_names": _group,
        "coordinator_keys": _group,
        "key": _group,
        "member_id": _member,
        "group_instance_id": _one_of(None, None, *(each.encode() for each in INSTANCES)),
        "instance_id": _one_of(None, *(each.encode() for each in INSTANCES)),
        "generation_id": lambda random_source, world: world.member(random_source).generation,
        "generation_id_or_member_epoch": lambda random_source, world: random_source.choice(
            (-1, world.member(random_source).generation)
        ),
        "session_timeout_ms": _one_of(6_000, 10_000, 1_000),
        "rebalance_timeout_ms": _one_of(0, 0, 1, 50, 500, 5_000),
        "protocol_type": _one_of(b"consumer", b"consumer", b"connect", b""),
        "protocol_name": _one_of(b"range", b"range", b"roundrobin", None),
        "JoinGroupRequestProtocol.name": _one_of(b"range", b"roundrobin", b"sticky"),
        "metadata": lambda random_source, _: words.subscription(random_source),
        "assignment": lambda random_source, _: words.assignment(random_source),
        "partition": _PARTITION,
        "partition_index": _PARTITION,
        "partition_indexes": _PARTITION,
        "index": _PARTITION,
        "partitions": _PARTITION,
        "current_leader_epoch": _EPOCH,
        "leader_epoch": _EPOCH,
        "last_fetched_epoch": _EPOCH,
        "committed_leader_epoch": _EPOCH,
        "fetch_offset": _OFFSET,
        "offset": _OFFSET,
        "committed_offset": _OFFSET,
        "timestamp": _one_of(-1, -2, -3, -4, -5, -6, 0, 1_700_000_000_000),
        "retention_time_ms": _one_of(-1),
        "records": lambda random_source, _: words.records(random_source)[1],
        "acks": _one_of(-1, -1, 1, 0),
        "max_wait_ms": _one_of(0, 0, 1, 50),
        "min_bytes": _one_of(0, 1, 1, 100_000),
        "max_bytes": _one_of(1 << 20, 1, 0),
        "partition_max_bytes": _one_of(1 << 20, 1, 0),
        "isolation_level": _one_of(0, 1),
        "session_id": lambda random_source, world: random_source.choice(world.sessions),
        "session_epoch": _one_of(-1, 0, 0, 1, 2, 3),
        "timeout_ms": _one_of(0, 1, 100, 5_000, 30_000),
        "validate_only": _one_of(False, False, True),
        "num_partitions": _one_of(1, 1, 2, 3, -1),
        "replication_factor": _one_of(1, 1, 1, -1, 2),
        "count": _one_of(2, 3, 4, 8),
        "broker_ids": _BROKER,
        "replicas": _BROKER,
        "broker_id": _BROKER,
        "replica_id": _one_of(-1, -1, -1, 1, 2, -2),
        "voter_id": _BROKER,
        "candidate_id": _BROKER,
        "leader_id": _BROKER,
        "controller_id": _BROKER,
        "preferred_successors": _BROKER,
        "resource_type": _one_of(2, 2, 4, 8, 16, 32),
        "resource_types": _one_of(2, 4, 8, 16, 32),
        "resource_name": _resource,
        "configuration_keys": _config_name,
        "CreatableTopicConfig.name": lambda random_source, _: random_source.choice(TOPIC_CONFIGS).encode(),
        "AlterableConfig.name": _config_name,
        "value": _config_value,
        "EntityData.entity_type": _one_of(*_QUOTA_ENTITIES),
        "EntityData.entity_name": _one_of(None, b"nobody-here", b"10.9.8.7"),
        "ComponentData.entity_type": _one_of(*_QUOTA_ENTITIES),
        "ComponentData.match": _one_of(None, None, b"nobody-here"),
        "match_type": _one_of(0, 1, 2),
        "OpData.key": _one_of(*_QUOTAS),
        "OpData.value": _one_of(1.0, 1024, 0.5, 1e18, 0, -1),
        "config_operation": _one_of(0, 0, 1, 2, 3),
        "election_type": _one_of(0, 1),
        "key_type": _one_of(0, 0, 1, 2),
        "producer_id": lambda random_source, world: world.producer(random_source)[0],
        "producer_epoch": lambda random_source, world: world.producer(random_source)[1],
        "producer_id_filters": lambda random_source, world: world.producer(random_source)[0],
        "v3_and_below_producer_id": lambda random_source, world: world.producer(random_source)[0],
        "v3_and_below_producer_epoch": lambda random_source, world: world.producer(random_source)[1],
        "transactional_id": _one_of(None, None, *_TRANSACTIONAL_IDS),
        "transactional_ids": _one_of(*_TRANSACTIONAL_IDS),
        "v3_and_below_transactional_id": _one_of(*_TRANSACTIONAL_IDS),
        "transactional_id_pattern": _one_of(None, b"", b"tx-.*", b"(tx)+-[0-3]", b"[", b"(a*)*b"),
        "duration_filter": _one_of(-1, 0, 1_000),
        "state_filters": _one_of(b"Ongoing", b"Empty", b"CompleteAbort", b"ongoing"),
        "coordinator_epoch": _one_of(0, 0, 1, -1),
        "transaction_version": _one_of(0, 1, 2, 3),
        "transaction_timeout_ms": _one_of(60_000, 1, 0, -1),
        "path": lambda random_source, world: random_source.choice(world.directories).encode(),
        "cluster_id": lambda random_source, world: random_source.choice(
            (world.cluster_id.encode(), b"other")
        ),
        "feature": _one_of(*_FEATURES),
        "max_version_level": _one_of(0, 1, 2, 30),
        "upgrade_type": _one_of(1, 2, 3),
        "Feature.name": _one_of(*_FEATURES),
        "states_filter": _one_of(*_STATES),
        "types_filter": _one_of(*_STATES),
        "host": _one_of(b"127.0.0.1", b"localhost", b""),
        "port": _one_of(9092, 0, 65_535),
        "Listener.name": _one_of(b"PLAINTEXT", b"CONTROLLER"),
        "LeaderEndpoint.name": _one_of(b"CONTROLLER"),
        "endpoint_type": _one_of(1, 2),
        "response_partition_limit": _one_of(2_000, 1, 10),
        "replica_directory_id": lambda random_source, world: random_source.choice(world.directory_ids),
        "voter_directory_id": lambda random_source, world: random_source.choice(world.directory_ids),
        "candidate_directory_id": lambda random_source, world: random_source.choice(world.directory_ids),
        "log_dirs": lambda random_source, world: random_source.choice(world.directory_ids),
        "DirectoryData.id": lambda random_source, world: random_source.choice(world.directory_ids),
        "replica_epoch": lambda random_source, world: world.quorum_epoch + random_source.randrange(-1, 2),
        "last_offset": _one_of(0, 100, 1_000_000),
        "last_offset_epoch": lambda _, world: world.quorum_epoch,
        "broker_epoch": lambda random_source, _: random_source.randrange(60),
        "max_supported_version": _one_of(0, 1, 30),
        "client_software_name": _one_of(b"fuzz"),
        "client_software_version": _one_of(b"1.0"),
        "request_principal": _principal,
        "client_host_address": _one_of(b"\x7f\0\0\1", bytes(16)),
        "member_epoch": _one_of(0, -1, 1),
        "high_watermark": _one_of(2**63 - 1, 0),
        "log_start_offset": _one_of(-1, 0),
        "end_offset": _one_of(0, 100),
        "epoch": _one_of(0, 1),
        "position": _one_of(0, 10),
        "current_metadata_offset": _one_of(0, 100),
    }
)

NAMES_OF_TOPICS: Final = "Topic"
"""A struct with this word in its name calls its topic `name`."""


def decent(owner: str, field: Field, random_source: random.Random, world: Knowledge) -> Value:
    """A value that the field is made for."""
    meaning = MEANINGS.get(f"{owner}.{field.name}") or MEANINGS.get(field.name)
    if meaning is not None:
        return meaning(random_source, world)
    if field.kind is Kind.STRING and field.name == "name" and NAMES_OF_TOPICS in owner:
        return _topic(random_source, world)
    if field.kind is Kind.FIXED:
        if field.wire.name == "bool":
            return random_source.random() < 0.5
        if field.wire.name == "uuid":
            return words.uuid(random_source)
        return random_source.choice((0, 0, 1, 2))
    return random_source.choice((b"", b"something", GROUPS[0].encode()))
