"""A message as JSON, in the shape that Kafka's own tools print: for dumps that people and scripts read.

Names are Kafka's camel case, bytes and records are base64, UUIDs the 22 characters that Kafka shows. A field
that the version does not have is left out, and so is a tagged field that has its default.
"""

from __future__ import annotations

import base64
from typing import Any

from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.values import uuid_to_text

JsonValue = None | bool | int | float | str | list[Any] | dict[str, Any]


def json_form(message: Message, version: int) -> dict[str, JsonValue]:
    """The message as a value for `json.dumps`, with its fields in the order of their declaration."""
    return _struct(message, version)


def camel_case(name: str) -> str:
    """The name in Kafka's camel case: `topicId` for `topic_id`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _struct(value: Struct, version: int) -> dict[str, JsonValue]:
    form: dict[str, JsonValue] = {}
    for field in schema(type(value)):
        if not field.present.covers(version):
            continue
        content = getattr(value, field.name)
        if field.tag is not None and (content == field.default or (content is None and field.absent_is_none)):
            continue
        form[camel_case(field.name)] = _value(field, content, version)
    return form


def _value(field: Field, content: Any, version: int) -> JsonValue:
    if content is None:
        return None
    if field.is_array:
        return [_element(field, each, version) for each in content]
    return _element(field, content, version)


def _element(field: Field, content: Any, version: int) -> JsonValue:
    if field.kind is Kind.STRUCT:
        return _struct(content, version)
    if isinstance(content, bytes | bytearray | memoryview):
        if field.kind is Kind.FIXED:
            return uuid_to_text(bytes(content))
        return base64.b64encode(content).decode()
    plain: JsonValue = content
    return plain
