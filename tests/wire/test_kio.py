"""kio, an independent Python implementation of Kafka's schemas, reads our bytes and writes the same.

kio knows requests, responses, headers and the records of KRaft and of the consumer protocol. It turns error
codes into an enum and times into dates, so the values stay within what those can hold.
"""

from __future__ import annotations

import importlib
import io
from typing import Any

import kio.serial as kio_serial

from protocol.codec.compiler import encode
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Kind, schema
from tests.support.genuine.kafka_schemas import snake_case
from tests.support.samples.messages import RandomChoice, build, message_versions

SHAPES = 3


class TameChoice(RandomChoice):
    """Small numbers: codes that exist, times that are dates."""

    def integer(self, low: int, high: int) -> int:
        return self._random.choice((0, 1, min(high, 77), min(high, 100)))


def kio_class(cls: type[Message], version: int) -> Any:
    """kio's class for one version of a message, or None."""
    name, kind = cls.__name__, cls.declaration.kind
    if kind in ("request", "response"):
        module, file = snake_case(name.removesuffix("Request").removesuffix("Response")), kind
    else:
        module, file = snake_case(name), "header" if kind == "header" else "data"
    try:
        return getattr(importlib.import_module(f"kio.schema.{module}.v{version}.{file}"), name)
    except ModuleNotFoundError:
        return None


def differences(ours: Struct, theirs: Any, version: int) -> list[str]:
    """The fields of plain type that both name alike and read differently."""
    found = []
    for field in schema(type(ours)):
        mine, other = getattr(ours, field.name), getattr(theirs, field.name, None)
        if not field.present.covers(version) or other is None or mine is None:
            continue
        if field.kind is Kind.STRUCT:
            pairs = zip(mine, other, strict=True) if field.is_array else [(mine, other)]
            found += [each for a, b in pairs for each in differences(a, b, version)]
        elif isinstance(mine, (int, str, bytes)) and isinstance(other, type(mine)) and mine != other:
            found.append(f"{type(ours).__qualname__}.{field.name}: {mine!r} {other!r}")
    return found


def test_kio_reads_and_writes_the_same() -> None:
    compared = 0
    for cls, version in message_versions():
        theirs = kio_class(cls, version)
        if theirs is None:
            continue
        read, write = kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)
        seeds = [(cls.__name__, version, shape) for shape in range(SHAPES)]
        for message in (cls(), *(build(cls, version, TameChoice(seed)) for seed in seeds)):
            raw = encode(message, version)
            entity, size = read(raw, 0)
            again = io.BytesIO()
            write(again, entity)
            assert (size, again.getvalue()) == (len(raw), raw), (cls.__name__, version)
            assert differences(message, entity, version) == [], (cls.__name__, version)
            compared += 1
    assert compared >= 2400
