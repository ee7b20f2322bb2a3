"""Configs."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import i8


@metadata_record(key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    """ConfigRecord."""

    resource_type: i8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""
