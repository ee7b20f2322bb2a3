"""Metadata records of client quotas."""

from protocol.codec.message import Message, Struct, metadata_record
from protocol.primitives import f64


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
