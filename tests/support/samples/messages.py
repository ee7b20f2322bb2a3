"""Every message class of the house, and instances of them: random ones, and whatever Hypothesis draws.

`build` makes an instance that one version can carry: fields that the version lacks keep their defaults. Where
the values come from is a `Choice`, of which there are two sides.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

import protocol
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema

M = TypeVar("M", bound=Struct)

TEXTS = ("", "a", "topic-1", "Käfka", "日本", "x" * 126, "y" * 127, "z" * 300)


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Every declared message, by module and then as the module declares them."""
    return tuple(_find_messages())


def _find_messages() -> Iterator[type[Message]]:
    for module in pkgutil.walk_packages(protocol.__path__, "protocol."):
        if module.name.startswith(("protocol.records", "protocol.serving")):
            continue
        loaded = importlib.import_module(module.name)
        for value in vars(loaded).values():
            ours = inspect.isclass(value) and value.__module__ == module.name
            if ours and issubclass(value, Message) and value is not Message:
                yield value


def message_versions() -> list[tuple[type[Message], int]]:
    """Every (class, version) pair that can travel."""
    return [
        (cls, version)
        for cls in all_messages()
        for version in range(cls.declaration.versions.first, cls.declaration.versions.last + 1)
    ]


class Choice(Protocol):
    def integer(self, low: int, high: int) -> int: ...

    def boolean(self) -> bool: ...

    def number(self) -> float: ...

    def text(self) -> str: ...

    def blob(self, size: int | None = None) -> bytes: ...

    def length(self) -> int: ...


class RandomChoice:
    """Values from a seeded generator: short ones mostly, the borders of the encodings often enough."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))

    def integer(self, low: int, high: int) -> int:
        return self._random.choice((low, high, 0, 1, self._random.randint(low, high)))

    def boolean(self) -> bool:
        return self._random.random() < 0.5

    def number(self) -> float:
        return self._random.choice((0.0, 1.5, -2.25e10, self._random.random()))

    def text(self) -> str:
        return self._random.choice(TEXTS)

    def blob(self, size: int | None = None) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 5, 126, 127, 200)) if size is None else size)

    def length(self) -> int:
        return self._random.choice((0, 1, 1, 2, 3))


class DrawnChoice:
    """Values that Hypothesis draws and shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def boolean(self) -> bool:
        return self._draw(st.booleans())

    def number(self) -> float:
        return self._draw(st.floats(allow_nan=False, allow_infinity=False))

    def text(self) -> str:
        return self._draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=140))

    def blob(self, size: int | None = None) -> bytes:
        low, high = (0, 140) if size is None else (size, size)
        return self._draw(st.binary(min_size=low, max_size=high))

    def length(self) -> int:
        return self._draw(st.integers(0, 3))


@st.composite
def messages(draw: st.DrawFn, cls: type[Message], version: int) -> Message:
    """Instances of a class that a version can carry."""
    return build(cls, version, DrawnChoice(draw))


def build(cls: type[M], version: int, choice: Choice) -> M:
    values = {
        field.name: _value(field, version, choice) for field in schema(cls) if field.present.covers(version)
    }
    return cls(**values)


def _value(field: Field, version: int, choice: Choice) -> Any:
    if field.nullable.covers(version) and choice.integer(0, 3) == 0:
        return None
    if field.is_array:
        return [_scalar(field, version, choice) for _ in range(choice.length())]
    if field.absent_is_none:
        value = _scalar(field, version, choice)
        return value if value != field.struct_class() and choice.boolean() else None
    return _scalar(field, version, choice)


def _scalar(field: Field, version: int, choice: Choice) -> Any:
    match field.kind:
        case Kind.STRUCT:
            return build(field.struct_class, version, choice)
        case Kind.STRING:
            return choice.text()
        case Kind.BYTES | Kind.RECORDS:
            return choice.blob()
        case Kind.FIXED:
            return _fixed(field, choice)


def _fixed(field: Field, choice: Choice) -> Any:
    bits = field.wire.width * 8
    match field.wire.name:
        case "bool":
            return choice.boolean()
        case "uuid":
            return choice.blob(16)
        case "float64":
            return choice.number()
        case name if name.startswith("uint"):
            return choice.integer(0, (1 << bits) - 1)
        case _:
            return choice.integer(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
