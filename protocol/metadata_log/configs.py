"""Metadata records of configs."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import i8


@metadata_record(key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    """One config of a resource; a null value removes it."""

    resource_type: i8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""
