"""Apache Kafka's own classes read our bytes: the same fields, and the same bytes back, at every version.

Every message is asked about in several shapes: with its defaults, and with seeded random values that reach
the borders of the encodings. The answer is checked twice: byte by byte, and field by field through Kafka's
JSON (equal bytes would hide two neighbouring fields of one type that changed places).
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from protocol.codec.compiler import decode, encode
from protocol.codec.decoding import holds_records
from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.values import uuid_from_text
from tests.support.genuine.java_oracle.message_oracle import Verdict, ask_java
from tests.support.genuine.kafka_schemas import snake_case
from tests.support.samples.messages import RandomChoice, build, message_versions

RANDOM_SHAPES = 6


def corpus() -> list[tuple[Message, int]]:
    """(message, version) for every version of every message, in several shapes."""
    questions: list[tuple[Message, int]] = []
    for cls, version in message_versions():
        questions.append((cls(), version))
        seeds = [(cls.__name__, version, shape) for shape in range(RANDOM_SHAPES)]
        questions += [(build(cls, version, RandomChoice(seed)), version) for seed in seeds]
    return questions


@pytest.fixture(scope="module")
def verdicts() -> list[tuple[Message, int, bytes, Verdict]]:
    questions = [(message, version, encode(message, version)) for message, version in corpus()]
    answers = ask_java((type(message).__name__, version, raw) for message, version, raw in questions)
    return [(*question, answer) for question, answer in zip(questions, answers, strict=True)]


@pytest.mark.java
def test_java_gives_back_the_same_bytes(verdicts: list[tuple[Message, int, bytes, Verdict]]) -> None:
    wrong = []
    for message, version, raw, verdict in verdicts:
        if verdict.error or verdict.bytes_left or verdict.encoded != raw:
            wrong.append((type(message).__name__, version, verdict.error))
        elif verdict.json is None or holds_records(type(message), version):
            pass  # Kafka has no JSON of the one, and leaves the record bytes out of the other.
        elif verdict.encoded_from_json != raw:
            wrong.append((type(message).__name__, version, "JSON"))
        assert decode(type(message), version, raw) == message
    assert wrong == []


@pytest.mark.java
def test_java_reads_the_same_fields(verdicts: list[tuple[Message, int, bytes, Verdict]]) -> None:
    compared = 0
    for message, version, _, verdict in verdicts:
        if verdict.json is not None:
            assert fields_of(message, version) == fields_of_json(type(message), version, verdict.json), (
                type(message).__name__,
                version,
            )
            compared += 1
    assert compared > 5 * len(message_versions())


def fields_of(message: Struct, version: int) -> dict[str, Any]:
    """The fields of an instance that its version has, as plain values; record bytes left out."""
    return {
        field.name: plain(getattr(message, field.name), version)
        for field in schema(type(message))
        if field.present.covers(version) and field.kind is not Kind.RECORDS
    }


def plain(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return fields_of(value, version)
    return [plain(each, version) for each in value] if isinstance(value, list) else value


def fields_of_json(cls: type[Struct], version: int, node: dict[str, Any]) -> dict[str, Any]:
    """The same from Kafka's JSON, which leaves out tagged fields that have their default."""
    given = {snake_case(key): value for key, value in node.items()}
    present = [
        field for field in schema(cls) if field.present.covers(version) and field.kind is not Kind.RECORDS
    ]
    unknown = set(given) - {field.name for field in schema(cls)} - {"records", "records_size_in_bytes"}
    assert not unknown, f"{cls.__qualname__} has no {unknown}"
    return {
        field.name: from_json(field, version, given[field.name])
        if field.name in given
        else plain(field.default, version)
        for field in present
    }


def from_json(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array and not isinstance(value, (str, bytes)):
        return [scalar_from_json(field, version, each) for each in value]
    return scalar_from_json(field, version, value)


def scalar_from_json(field: Field, version: int, value: Any) -> Any:
    if field.kind is Kind.STRUCT:
        return fields_of_json(field.struct_class, version, value)
    if field.kind is Kind.BYTES:
        return b64decode(value)
    if field.kind is Kind.FIXED and field.wire.name == "uuid":
        return uuid_from_text(value)
    return value
