"""What each level of `metadata.version` (KIP-778) means for the records that we write.

A cluster of mixed or older releases finalizes a lower level, and until it is raised nobody writes what the
oldest of them could not read. Readers take every version; writers follow this table::

    level  name      since then
      7    3.3-IV3   the lowest that Kafka 4 and we support
     12    3.6-IV0   a smaller ISR raises the leader epoch no more
     13    3.6-IV1   metadata transactions (KIP-868)
     15    3.7-IV0   controllers register (KIP-919)
     17    3.7-IV2   log directories of brokers and replicas (KIP-858)
     22    4.0-IV0   a new cluster begins with the consumer groups of KIP-848
     23    4.0-IV1   eligible leader replicas in partition records (KIP-966)
     24    4.0-IV2   a new cluster begins with the transactions of KIP-890
     26    4.1-IV0   a new cluster begins with eligible leader replicas
     30    4.3-IV0   cordoned log directories (KIP-1066)

The levels between change what brokers say to each other, or what a new cluster begins with.

A level can be lowered only as far as no level above the target added anything to the records: what was
written could not be read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import NO_LEADER_CHANGE
from protocol.codec.message import Message
from protocol.metadata_log.registrations import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from protocol.metadata_log.topics import PartitionChangeRecord, PartitionRecord

__all__ = [
    "CONTROLLER_REGISTRATION_LEVEL",
    "CORDONED_LEVEL",
    "DEFAULT_ELIGIBLE_LEADERS_LEVEL",
    "DEFAULT_GROUP_VERSION_LEVEL",
    "DEFAULT_TRANSACTION_VERSION_LEVEL",
    "DIRECTORIES_LEVEL",
    "ELIGIBLE_LEADERS_LEVEL",
    "LATEST_METADATA_VERSION",
    "LOWEST_METADATA_VERSION",
    "METADATA_VERSION_NAMES",
    "SCRAM_LEVEL",
    "TRANSACTIONS_LEVEL",
    "at_level",
    "loses_metadata",
    "record_version",
]

LOWEST_METADATA_VERSION: Final = 7
LATEST_METADATA_VERSION: Final = 30

MIGRATION_LEVEL: Final = 8
SCRAM_LEVEL: Final = 11
STEADY_EPOCH_LEVEL: Final = 12
TRANSACTIONS_LEVEL: Final = 13
CONTROLLER_REGISTRATION_LEVEL: Final = 15
DIRECTORIES_LEVEL: Final = 17
DEFAULT_GROUP_VERSION_LEVEL: Final = 22
ELIGIBLE_LEADERS_LEVEL: Final = 23
DEFAULT_TRANSACTION_VERSION_LEVEL: Final = 24
DEFAULT_ELIGIBLE_LEADERS_LEVEL: Final = 26
CORDONED_LEVEL: Final = 30

_NAMES: Final = (
    "3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 "
    "3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0"
)

METADATA_VERSION_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    dict(enumerate(_NAMES.split(), LOWEST_METADATA_VERSION))
)
"""The names that Kafka has for the levels that can be finalized here."""

_CHANGED_METADATA: Final = (7, 8, 11, 13, 14, 15, 17, 23, 30)
"""Levels that brought records, or fields of records, that no earlier release can read."""


def loses_metadata(level: int, target: int) -> bool:
    """Whether lowering the level to the target could lose what is in the log."""
    return any(target < changed <= level for changed in _CHANGED_METADATA)


def record_version(record: Message, level: int = LATEST_METADATA_VERSION) -> int:
    """The version in which a record is written. A change of a registration takes the least that can carry
    it, as in Kafka."""
    if isinstance(record, (PartitionRecord, PartitionChangeRecord)):
        if level >= ELIGIBLE_LEADERS_LEVEL:
            return 2
        return 1 if level >= DIRECTORIES_LEVEL else 0
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    if isinstance(record, RegisterBrokerRecord):
        if level >= CORDONED_LEVEL:
            return 4
        if level >= DIRECTORIES_LEVEL:
            return 3
        return 2 if level >= MIGRATION_LEVEL else 1
    return 0


def at_level(image: ClusterImage, records: Iterable[Message]) -> Iterator[Message]:
    """The records in the form that the image's metadata version can hold, each when it is asked for: fields
    that it does not know are left out."""
    level = image.features.metadata_version
    if level >= LATEST_METADATA_VERSION or not level:
        return iter(records)
    return (_fitted(image, record, level) for record in records)


def _fitted(image: ClusterImage, record: Message, level: int) -> Message:
    changes: dict[str, object] = {}
    if isinstance(record, RegisterBrokerRecord | BrokerRegistrationChangeRecord):
        if level < CORDONED_LEVEL:
            changes["cordoned_log_dirs"] = None
        if level < DIRECTORIES_LEVEL:
            changes["log_dirs"] = []
    elif isinstance(record, PartitionRecord | PartitionChangeRecord):
        if level < ELIGIBLE_LEADERS_LEVEL:
            changes |= {"eligible_leader_replicas": None, "last_known_elr": None}
        if level < DIRECTORIES_LEVEL:
            changes["directories"] = [] if isinstance(record, PartitionRecord) else None
        if level < STEADY_EPOCH_LEVEL and isinstance(record, PartitionChangeRecord):
            changes |= _raised_epoch(image, record)
    return msgspec.structs.replace(record, **changes) if changes else record


def _raised_epoch(image: ClusterImage, record: PartitionChangeRecord) -> dict[str, object]:
    """Names a leader that stays again when the ISR shrinks, because this raises its leader epoch."""
    topic = image.topics.by_id.get(record.topic_id)
    partition = None if topic is None else topic.partitions.get(record.partition_id)
    if partition is None or record.isr is None or record.leader != NO_LEADER_CHANGE:
        return {}
    shrinks = any(replica not in record.isr for replica in partition.isr)
    return {"leader": partition.leader} if shrinks else {}
