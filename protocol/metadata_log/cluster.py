"""Metadata records of the whole cluster: configs, client quotas, feature levels, blocks of producer ids, and
those that group other records into a transaction (KIP-868).
"""

from typing import Annotated

from protocol.codec.message import Message, Struct, Tag, metadata_record
from protocol.primitives import f64, i8, i16, i32, i64


@metadata_record(key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    """One config of a resource; a null value removes it."""

    resource_type: i8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""


@metadata_record(key=14, versions="0", flexible="0+")
class ClientQuotaRecord(Message):
    """One quota of an entity, set or removed."""

    class EntityData(Struct):
        """One part of the entity: a user, a client id or an address; a null name is the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    entity: list[EntityData] = []
    key: str = ""
    value: f64 = 0.0
    remove: bool = False


@metadata_record(key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    """The finalized level of a feature; 0 removes it."""

    name: str = ""
    feature_level: i16 = 0


@metadata_record(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord(Message):
    """Says how far the migration from ZooKeeper came; only read, from logs that older releases wrote."""

    zk_migration_state: i8 = 0


@metadata_record(key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    """The first producer id that is not handed out yet, and to which broker the last block went."""

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    next_producer_id: i64 = 0


@metadata_record(key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    """Begins a metadata transaction: the records that follow take effect only with its end (KIP-868)."""

    name: Annotated[str | None, Tag(0)] = None


@metadata_record(key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    """Ends a metadata transaction: the records since its begin take effect."""


@metadata_record(key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    """Aborts a metadata transaction: the records since its begin have no effect."""

    reason: Annotated[str | None, Tag(0)] = None


@metadata_record(key=20, versions="0", flexible="0+")
class NoOpRecord(Message):
    """Changes nothing. It moves the log's end on, so that lag can be measured (KIP-835)."""
