"""What a topic gets when its creator does not say, and what may be created or removed."""

from __future__ import annotations

from typing import Final

from config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    Definition,
)
from config.validators import GzipLevel, OneOf, at_least, between

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether a topic is created when a client asks for one that does not exist and allows it."),
    Definition("num.partitions", INT, 1, at_least(1), MEDIUM, READ_ONLY,
        "Partitions of a topic that is created without a number."),
    Definition("default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "Replicas of a topic that is created without a number, automatically created ones included."),
    Definition("min.insync.replicas", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Replicas that must be in sync for a write with acks=all to be accepted."),
    Definition("message.max.bytes", INT, 1_048_588, at_least(0), HIGH, CLUSTER_WIDE,
        "Largest record batch that is stored; a larger one is refused."),
    Definition("compression.type", STRING,
        "producer", OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), HIGH, CLUSTER_WIDE,
        "Codec in which batches are stored; `producer` keeps the producer's own."),
    Definition("compression.gzip.level", INT, -1, GzipLevel(), MEDIUM, CLUSTER_WIDE,
        "Level for batches that the broker compresses with gzip; -1 is zlib's default."),
    Definition("compression.lz4.level", INT, 9, between(1, 17), MEDIUM, CLUSTER_WIDE,
        "Level for batches that the broker compresses with lz4."),
    Definition("compression.zstd.level", INT, 3, between(-131_072, 22), MEDIUM, CLUSTER_WIDE,
        "Level for batches that the broker compresses with zstd."),
    Definition("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics may be deleted; without it DeleteTopics answers TOPIC_DELETION_DISABLED."),
    Definition("create.topic.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "A class that may refuse new topics: package.module:Class, or an entry point of "
        "barnabas.policies."),
    Definition("alter.config.policy.class.name", CLASS, None, None, LOW, READ_ONLY,
        "A class that may refuse changed configs: package.module:Class, or an entry point of "
        "barnabas.policies."),
    Definition("unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Whether a replica that is not in sync may become leader when no other lives, at "
        "the price of lost records."),
)
# fmt: on
