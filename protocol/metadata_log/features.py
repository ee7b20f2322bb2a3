"""Features."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import i8, i16


@metadata_record(key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    """FeatureLevelRecord."""

    name: str = ""
    feature_level: i16 = 0


@metadata_record(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord(Message):
    """ZkMigrationStateRecord."""

    zk_migration_state: i8 = 0
