"""Kafka's own message schemas, read as `protocol.codec.schema` reads our classes.

They are JSON files that may have comments, one a message, in the jars of Apache Kafka (`kafka_jars`).
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from protocol.codec.message import Versions
from tests.support.genuine.kafka_jars import KAFKA_VERSION, kafka_jars

WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
PRIMITIVES = (
    "bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid",
    "string", "bytes", "records",
)  # fmt: skip

SCHEMA_FILE: Final = re.compile(r"(common/)?(message|metadata)/\w+\.json")
"""The name of a schema in a jar: kafka-storage and kafka-metadata have folders of their own."""
TEXT: Final = r'("(?:[^"\\]|\\.)*")'
NO_JSON: Final = (re.compile(rf"{TEXT}|//[^\n]*|(?s:/\*.*?\*/)"), re.compile(rf"{TEXT}|,(?=\s*[\]}}])"))
"""Comments, and commas behind the last element, which Kafka's own reader takes; texts stay as they are."""


def snake_case(name: str) -> str:
    return WORD_BORDER.sub("_", name).lower()


@cache
def kafka_schemas() -> dict[str, dict[str, Any]]:
    """By message name. Skips or fails the test without Kafka's jars, by the rule of `kafka_jars.missing`."""
    jars = sorted(kafka_jars().glob(f"kafka*-{KAFKA_VERSION}.jar"))
    loaded = [schema for jar in jars for schema in _schemas_in(jar)]
    return {schema["name"]: schema for schema in loaded}


def _schemas_in(jar: Path) -> list[dict[str, Any]]:
    with ZipFile(jar) as files:
        texts = [files.read(name).decode() for name in files.namelist() if SCHEMA_FILE.fullmatch(name)]
    for pattern in NO_JSON:
        texts = [pattern.sub(lambda found: found[1] or "", text) for text in texts]
    return [json.loads(text) for text in texts]


class Expected(NamedTuple):
    """What one field must be at one version."""

    name: str
    type: str
    is_array: bool
    nullable: bool
    tag: int | None
    never_compact: bool
    default: Any


class KafkaMessage:
    """One schema with its structs found and their versions worked out."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.name: str = schema["name"]
        self.versions = Versions.parse(schema["validVersions"])
        self._common = {each["name"]: each for each in schema.get("commonStructs", ())}
        self.structs: dict[str, list[dict[str, Any]]] = {}
        self.struct_versions: dict[str, set[int]] = {}
        self._walk(schema.get("fields", ()), set(range(self.versions.first, self.versions.last + 1)))

    def _walk(self, fields: Any, versions: set[int]) -> None:
        for field in fields:
            name = element_type(field)
            if name in PRIMITIVES:
                continue
            inside = field.get("fields") or self._common[name]["fields"]
            present = {version for version in versions if present_versions(field).covers(version)}
            self.structs[name] = inside
            self.struct_versions[name] = self.struct_versions.get(name, set()) | present
            self._walk(inside, present)

    def fields_at(self, struct: str | None, version: int) -> list[Expected]:
        """The fields of a struct, or of the message itself, that a version has, in order."""
        fields = self.schema.get("fields", ()) if struct is None else self.structs[struct]
        return [self._expected(field, version) for field in fields if present_versions(field).covers(version)]

    def ignorable(self, struct: str | None) -> set[str]:
        """The fields for which it matters that they are ignorable: a version with the struct lacks them."""
        if struct is None:
            fields = self.schema.get("fields", ())
            versions = set(range(self.versions.first, self.versions.last + 1))
        else:
            fields, versions = self.structs[struct], self.struct_versions[struct]
        return {
            snake_case(field["name"])
            for field in fields
            if field.get("ignorable") and not all(present_versions(field).covers(each) for each in versions)
        }

    def _expected(self, field: dict[str, Any], version: int) -> Expected:
        tagged = versions_of(field, "taggedVersions").covers(version)
        nullable = versions_of(field, "nullableVersions").covers(version)
        return Expected(
            name=snake_case(field["name"]),
            type=element_type(field),
            is_array=field["type"].startswith("[]"),
            nullable=nullable,
            tag=field["tag"] if tagged else None,
            never_compact=field.get("flexibleVersions") == "none",
            default=self._default(field),
        )

    def _default(self, field: dict[str, Any]) -> Any:
        """Kafka's default; of a tagged struct that cannot be null, ours: None, which says absent."""
        text, name = field.get("default"), element_type(field)
        text = str(text).lower() if isinstance(text, (bool, int)) else text
        nullable = versions_of(field, "nullableVersions").last >= 0
        if text == "null":
            return None
        if field["type"].startswith("[]"):
            return []
        if name not in PRIMITIVES:
            return None if "tag" in field and not nullable else name
        if name == "records":
            return (
                None
                if nullable and versions_of(field, "nullableVersions").covers(self.versions.last)
                else b""
            )
        simple = {"string": "", "bytes": b"", "uuid": bytes(16), "bool": text == "true"}
        if name in simple:
            return simple[name]
        return float(text or 0) if name == "float64" else int(text or "0", 0)


def element_type(field: dict[str, Any]) -> str:
    return str(field["type"]).removeprefix("[]")


def versions_of(field: dict[str, Any], key: str) -> Versions:
    return Versions.parse(field.get(key) or "none")


def present_versions(field: dict[str, Any]) -> Versions:
    """A field without versions of its own has those in which it is tagged."""
    return Versions.parse(field.get("versions") or field["taggedVersions"])
