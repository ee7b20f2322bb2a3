"""Metadata records of feature levels."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import i8, i16


@metadata_record(key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    """The finalized level of a feature; 0 removes it."""

    name: str = ""
    feature_level: i16 = 0


@metadata_record(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord(Message):
    """How far the migration from ZooKeeper came; only read, from logs that older releases wrote."""

    zk_migration_state: i8 = 0
