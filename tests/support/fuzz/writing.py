"""Requests written straight from the declarations of the messages, each field decent or nasty as dice say.

The house's own encoders refuse what is no request of theirs; this writer does not: strings that are no
UTF-8, null where there is none, tagged fields that nobody knows, a million elements that were written once.
Unless `Body.decodable` says otherwise a decoder can read the result to its end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from struct import pack
from typing import Any, Final

from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.codec.writing import tag_section, uvarint_bytes
from tests.support.fuzz import words
from tests.support.fuzz.knowledge import Knowledge
from tests.support.fuzz.meanings import decent

_DIFFERENT_AT_MOST: Final = 1_500
"""Elements that are drawn one by one; more of them are copies."""
_DEPTH_OF_CROWDS: Final = 3


class Mood(Enum):
    """How a request is written. The number: how likely a field is nasty."""

    DECENT = 0.0
    ONE_WORD = 0.03
    SOME = 0.15
    WILD = 0.6
    CROWD = 0.02
    """Decent elements, but as many as fit the frame."""


class Body:
    """One request body. `bytes_` after `write`; `notes` says what is odd in it; `said` what stands at its
    top."""

    def __init__(
        self, version: int, mood: Mood, random_source: random.Random, world: Knowledge, largest_bytes: int
    ) -> None:
        self.notes: list[str] = []
        self.said: dict[str, Any] = {}
        self.decodable = True
        self._version = version
        self._mood = mood
        self._random_source = random_source
        self._world = world
        self._left = largest_bytes
        self._flexible = False
        self._depth = 0
        self._crowd_wanted = mood is Mood.CROWD

    def write(self, cls: type[Message], given: Mapping[str, Any]) -> bytes:
        """`given`: values of fields that are not left to chance: for an array a list, for a struct a mapping
        of the same kind."""
        self._flexible = cls.declaration.flexible.covers(self._version)
        return self._struct(cls, given)

    def _struct(self, cls: type[Struct], given: Mapping[str, Any]) -> bytes:
        self._depth += 1
        parts = []
        tagged: list[tuple[int, bytes]] = []
        for field in schema(cls):
            if not field.present.covers(self._version):
                continue
            if field.tag is None:
                parts.append(self._field(cls, field, given))
            elif field.name in given or self._nasty() or self._random_source.random() < 0.1:
                tagged.append((field.tag, self._field(cls, field, given)))
        self._depth -= 1
        if self._flexible:
            parts.append(self._tags(tagged))
        return b"".join(parts)

    def _tags(self, tagged: list[tuple[int, bytes]]) -> bytes:
        if self._mood is not Mood.DECENT and self._random_source.random() < 0.01:
            unknown = self._random_source.choice((1, 1, 3, 500))
            size = max(0, min(self._random_source.choice((0, 1, 300, 40_000)), self._left // (2 * unknown)))
            tagged = tagged + [(1000 + number, bytes(size)) for number in range(unknown)]
            self._left -= unknown * size
            self.notes.append(f"{unknown} unknown tags of {size} bytes")
        return tag_section(tagged)

    def _nasty(self) -> bool:
        return self._random_source.random() < self._mood.value

    # One field

    def _field(self, owner: type[Struct], field: Field, given: Mapping[str, Any]) -> bytes:
        if field.name in given:
            return self._given(owner, field, given[field.name])
        nullable = field.nullable.covers(self._version)
        if nullable and self._random_source.random() < 0.06:
            self._say(field, None)
            return self._null(field)
        has_null = field.is_array or field.kind in (Kind.STRING, Kind.BYTES, Kind.RECORDS)
        if has_null and not nullable and self._nasty() and self._random_source.random() < 0.05:
            self.decodable = False
            self.notes.append(f"{field.name} null")
            return self._null(field)
        if field.is_array:
            return self._array(owner, field)
        value = self._scalar(owner, field)
        return b"\1" + value if field.kind is Kind.STRUCT and nullable else value

    def _say(self, field: Field, value: Any) -> None:
        if self._depth == 1:
            self.said[field.name] = value

    def _null(self, field: Field) -> bytes:
        compact = self._flexible and not field.never_compact
        if field.kind is Kind.STRUCT and not field.is_array:
            return b"\xff" if field.tag is None else b"\0"
        if compact:
            return b"\0"
        return b"\xff\xff" if field.kind is Kind.STRING and not field.is_array else b"\xff\xff\xff\xff"

    def _given(self, owner: type[Struct], field: Field, value: Any) -> bytes:
        if value is None and (field.nullable.covers(self._version) or field.absent_is_none):
            self._say(field, None)
            return self._null(field)
        if value is None:
            value = () if field.is_array else b""
        if not field.is_array:
            nullable_struct = field.kind is Kind.STRUCT and field.nullable.covers(self._version)
            return (b"\1" if nullable_struct else b"") + self._element(field, value)
        return self._count(len(value)) + b"".join(self._element(field, each) for each in value)

    def _element(self, field: Field, value: Any) -> bytes:
        if field.kind is Kind.STRUCT:
            return self._struct(field.struct_class, value)
        self._say(field, value)
        return self._plain(field, value.encode() if isinstance(value, str) else value)

    def _plain(self, field: Field, value: Any) -> bytes:
        """A value of no struct, cut to what the wire can carry."""
        if field.kind is Kind.FIXED:
            if field.wire.name == "uuid":
                return bytes(value)
            if field.wire.name in ("bool", "float64"):
                return bytes(pack(">" + field.wire.format, value))
            bits = 8 * field.wire.width
            return (int(value) % (1 << bits)).to_bytes(field.wire.width)
        if value is None:
            return self._null(field)
        compact = self._flexible and not field.never_compact
        if field.kind is Kind.STRING:
            value = value if compact else value[: words.STRING_LIMIT]
            self.decodable &= words.is_text(value)
        if compact:
            return uvarint_bytes(len(value) + 1) + bytes(value)
        return pack(">h" if field.kind is Kind.STRING else ">i", len(value)) + bytes(value)

    def _scalar(self, owner: type[Struct], field: Field) -> bytes:
        if field.kind is Kind.STRUCT:
            return self._struct(field.struct_class, {})
        if not self._nasty():
            value = decent(owner.__name__, field, self._random_source, self._world)
            if value is None and not field.nullable.covers(self._version):
                value = b""
        else:
            value = self._nasty_value(field)
            self.notes.append(f"{field.name}={_short(value)}")
        self._say(field, value)
        written = self._plain(field, value)
        self._left -= len(written)
        return written

    def _nasty_value(self, field: Field) -> Any:
        room = max(0, min(self._left, 40_000))
        match field.kind:
            case Kind.STRING:
                return words.string(self._random_source, largest_bytes=room)
            case Kind.BYTES:
                return words.blob(self._random_source, largest_bytes=room)
            case Kind.RECORDS:
                name, data = words.records(self._random_source)
                self.notes.append(f"records {name}")
                return data
        if field.wire.name == "bool":
            return self._random_source.random() < 0.5
        if field.wire.name == "uuid":
            return words.uuid(self._random_source)
        if field.wire.name == "float64":
            return self._random_source.choice(words.FLOATS)
        if field.name.endswith("_ms") and self._random_source.random() < 0.6:
            return self._random_source.choice(words.TIMES)
        return words.number(
            self._random_source, 8 * field.wire.width, signed=not field.wire.name.startswith("u")
        )

    # Arrays

    def _count(self, count: int) -> bytes:
        return uvarint_bytes(count + 1) if self._flexible else pack(">i", count)

    def _array(self, owner: type[Struct], field: Field) -> bytes:
        random_source = self._random_source
        if self._crowd_wanted and self._depth <= _DEPTH_OF_CROWDS and random_source.random() < 0.6:
            self._crowd_wanted = False
            return self._crowd(owner, field)
        if self._nasty():
            if random_source.random() < 0.4:
                self.notes.append(f"{field.name} empty")
                return self._count(0)
            if random_source.random() < 0.5:
                return self._crowd(owner, field)
        count = random_source.choice((1, 1, 1, 2, 3)) if self._depth < 4 else 1
        return self._count(count) + b"".join(self._scalar(owner, field) for _ in range(count))

    def _crowd(self, owner: type[Struct], field: Field) -> bytes:
        """Many elements: equal ones, a few kinds in turn, or all drawn anew."""
        random_source = self._random_source
        kinds = random_source.choice((1, 1, 3, 100, _DIFFERENT_AT_MOST))
        elements = []
        before = self._left
        for _ in range(kinds):
            elements.append(self._tiny(field) if random_source.random() < 0.3 else self._scalar(owner, field))
            if self._left <= before // 2:
                break
        written = b"".join(elements)
        copies = max(1, self._left // max(1, len(written)))
        if random_source.random() < 0.3:
            copies = min(copies, random_source.choice((10, 1_000)))
        self._left -= len(written) * (copies - 1)
        self.notes.append(f"{field.name}={copies * len(elements)}x({len(elements)} kinds)")
        return self._count(copies * len(elements)) + written * copies

    def _tiny(self, field: Field) -> bytes:
        """The shortest element there is."""
        if field.kind is Kind.STRUCT:
            empty = _emptiness(field.struct_class, self._version)
            return self._struct(field.struct_class, empty)
        return self._plain(
            field, (bytes(16) if field.wire.name == "uuid" else 0) if field.kind is Kind.FIXED else b""
        )


def _emptiness(cls: type[Struct], version: int) -> dict[str, Any]:
    """Every field of a struct with nothing in it."""
    empty: dict[str, Any] = {}
    for field in schema(cls):
        if not field.present.covers(version) or field.tag is not None:
            continue
        if field.is_array:
            empty[field.name] = ()
        elif field.kind is Kind.STRUCT:
            empty[field.name] = (
                None if field.nullable.covers(version) else _emptiness(field.struct_class, version)
            )
        elif field.kind is Kind.FIXED:
            empty[field.name] = bytes(16) if field.wire.name == "uuid" else 0
        else:
            empty[field.name] = b""
    return empty


def _short(value: Any) -> str:
    if isinstance(value, bytes) and len(value) > 24:
        return f"{value[:8]!r}..{value[-4:]!r}[{len(value)}]"
    return repr(value)
