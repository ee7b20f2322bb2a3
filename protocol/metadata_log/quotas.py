"""Quotas."""

from protocol.codec.message import Message, Struct, metadata_record
from protocol.primitives import f64


@metadata_record(key=14, versions="0", flexible="0+")
class ClientQuotaRecord(Message):
    """ClientQuotaRecord."""

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""

    entity: list[EntityData] = []
    key: str = ""
    value: f64 = 0.0
    remove: bool = False
