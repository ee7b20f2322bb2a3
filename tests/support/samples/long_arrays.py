"""Requests whose arrays are as long as a frame lets them be, of the smallest elements that there are.

For each array of a request's schema there is one shape: that array is wide, and what stands above it has one
element. What the elements say is one of three: nothing (empty strings, zeros), each something else, or all
the same thing that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from protocol.codec.compiler import encoder
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.framing import encode_request_frame

CORRELATION_ID: Final = 77

Path = tuple[str, ...]
"""The names of the fields that lead to an array, the outermost first."""


class Words(Protocol):
    """What the fields of the nth element of the wide array say."""

    def value(self, field: Field, number: int) -> Any: ...

    inner_elements: int
    """Of arrays beside and below the wide one."""


class Nothing:
    """Empty strings and zeros."""

    inner_elements = 0

    def value(self, field: Field, number: int) -> Any:
        match field.kind:
            case Kind.STRING:
                return ""
            case Kind.BYTES:
                return b""
            case Kind.RECORDS:
                return None
            case _:
                return {"uuid": bytes(16), "bool": False}.get(field.wire.name, 0)


class Distinct(Nothing):
    """Each element has names and numbers of its own."""

    inner_elements = 1

    def value(self, field: Field, number: int) -> Any:
        if field.kind is Kind.STRING:
            return f"{number:x}"
        if field.kind is Kind.FIXED and field.wire.name == "uuid":
            return number.to_bytes(16, "big")
        if field.kind is Kind.FIXED and field.wire.name == "int32":
            return number
        return super().value(field, number)


class Same(Nothing):
    """Each element names the same topic (or group, or resource), and says what the mapping holds."""

    inner_elements = 1

    def __init__(self, name: str, topic_id: bytes, numbers: Mapping[str, int]) -> None:
        self._name = name
        self._topic_id = topic_id
        self._numbers = numbers

    def value(self, field: Field, number: int) -> Any:
        if field.kind is Kind.STRING:
            return self._name
        if field.kind is Kind.FIXED and field.wire.name == "uuid":
            return self._topic_id
        if field.name in self._numbers:
            return self._numbers[field.name]
        return super().value(field, number)


class Sized(NamedTuple):
    frame: bytes
    elements: int


def array_paths(cls: type[Struct], version: int) -> Iterator[Path]:
    """Every array of a request at a version, but those that are tagged: they may not be written."""
    for field in schema(cls):
        if not field.present.covers(version) or field.tag is not None:
            continue
        if field.is_array:
            yield (field.name,)
        if field.kind is Kind.STRUCT:
            for inner in array_paths(field.struct_class, version):
                yield (field.name, *inner)


def long_frame(cls: type[Message], version: int, path: Path, size_bytes: int, words: Words) -> Sized:
    """A frame, with its size in front, of at most about so many bytes."""
    encode = encoder(cls, version)

    def filled(count: int) -> Any:
        return _filled(cls, version, path, count, words, 0)

    few, more = (len(encode(filled(count))) for count in (1, 101))
    elements = max(1, size_bytes * 100 // (more - few))
    last = len(encode(filled(elements)))
    elements = max(1, elements * size_bytes // max(size_bytes, last))
    return Sized(encode_request_frame(filled(elements), version, CORRELATION_ID, "long"), elements)


def _filled(cls: type[Any], version: int, path: Path, count: int, words: Words, number: int) -> Any:
    """An instance in which the arrays along the path are filled: the last with `count`, the others with
    one."""
    values: dict[str, Any] = {}
    struct: type[Struct] = cls
    for field in schema(struct):
        if not field.present.covers(version) or field.tag is not None:
            continue
        follows = bool(path) and field.name == path[0]
        rest = path[1:] if follows else ()
        if field.is_array:
            wanted = (1 if rest else count) if follows else words.inner_elements
            numbers = range(wanted) if follows and not rest else [number] * wanted
            values[field.name] = [_element(field, version, rest, count, words, n) for n in numbers]
        elif field.kind is not Kind.STRUCT or follows or not field.nullable.covers(version):
            values[field.name] = _element(field, version, rest, count, words, number)
    return cls(**values)


def _element(field: Field, version: int, rest: Path, count: int, words: Words, number: int) -> Any:
    if field.kind is Kind.STRUCT:
        return _filled(field.struct_class, version, rest, count, words, number)
    return words.value(field, number)
