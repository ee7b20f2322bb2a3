"""Our declarations say what Kafka's schemas say: every message, struct and field, at every version.

Not declared, because nothing on the wire depends on it: map keys, entity types, zero copy.
"""

from __future__ import annotations

import pytest

from protocol.codec.message import Message, Struct
from protocol.codec.schema import Field, Kind, schema
from protocol.record_types import (
    MetadataRecordType,
    group_log_record,
    metadata_record,
    remote_log_record,
    share_log_record,
    transaction_log_record,
)
from protocol.registry import ApiKey, api
from tests.support.genuine.kafka_schemas import Expected, KafkaMessage, kafka_schemas
from tests.support.samples.messages import all_messages

BY_NAME = {cls.__name__: cls for cls in all_messages()}


def test_every_schema_has_a_class_and_every_class_a_schema() -> None:
    assert sorted(BY_NAME) == sorted(kafka_schemas())


def test_what_the_decorators_say() -> None:
    for name, theirs in kafka_schemas().items():
        ours = BY_NAME[name].declaration
        assert ours.kind == theirs["type"], name
        assert ours.key == theirs.get("apiKey"), name
        assert str(ours.versions) == theirs["validVersions"], name
        assert str(ours.flexible) == theirs.get("flexibleVersions", "none"), name
        assert sorted(ours.listeners) == sorted(theirs.get("listeners", ())), name
        assert ours.latest_version_unstable == theirs.get("latestVersionUnstable", False), name


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_structs_and_fields(cls: type[Message]) -> None:
    kafka = KafkaMessage(kafka_schemas()[cls.__name__])
    nested = {value.__name__: value for value in vars(cls).values() if isinstance(value, type)}
    assert {name for name, value in nested.items() if issubclass(value, Struct)} == set(kafka.structs)
    places: list[tuple[str | None, type[Struct], set[int]]] = [
        (name, nested[name], kafka.struct_versions[name]) for name in kafka.structs
    ]
    first, last = cls.declaration.versions
    places.append((None, cls, set(range(first, last + 1))))
    for name, struct, versions in places:
        for version in sorted(versions):
            assert ours_at(struct, version) == kafka.fields_at(name, version), (struct, version)
        ignorable = {field.name for field in schema(struct) if field.ignorable}
        assert ignorable == kafka.ignorable(name), struct


def ours_at(struct: type[Struct], version: int) -> list[Expected]:
    return [expected(field, version) for field in schema(struct) if field.present.covers(version)]


def expected(field: Field, version: int) -> Expected:
    if field.kind is Kind.FIXED:
        kind = field.wire.name
    elif field.kind is Kind.STRUCT:
        kind = field.struct_class.__name__
    else:
        kind = field.kind.value
    default = type(field.default).__name__ if isinstance(field.default, Struct) else field.default
    return Expected(
        name=field.name,
        type=kind,
        is_array=field.is_array,
        nullable=field.nullable.covers(version),
        tag=field.tag,
        never_compact=field.never_compact,
        default=default,
    )


def test_the_registry_repeats_the_declarations() -> None:
    requests = [cls for cls in all_messages() if cls.declaration.kind == "request"]
    assert sorted(cls.declaration.key or 0 for cls in requests) == sorted(ApiKey)
    for cls in requests:
        declaration = cls.declaration
        entry = api(declaration.key or 0)
        assert entry.request is cls
        assert entry.name + "Request" == cls.__name__
        assert (entry.versions, entry.flexible) == (declaration.versions, declaration.flexible)
        assert entry.listeners == declaration.listeners
        assert entry.latest_version_unstable == declaration.latest_version_unstable
        answer = entry.response.declaration
        assert (answer.kind, answer.key) == ("response", declaration.key)
        assert (answer.versions, answer.flexible) == (declaration.versions, declaration.flexible)


def test_record_types_lead_to_their_classes() -> None:
    seen = set()
    for record_type in MetadataRecordType:
        cls = metadata_record(record_type)
        assert cls.declaration.key == record_type
        seen.add(cls)
    for number in range(4):
        assert remote_log_record(number).declaration.key == number
        seen.add(remote_log_record(number))
    logs = (
        (group_log_record, (*range(9), 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23)),
        (transaction_log_record, (0,)),
        (share_log_record, (0, 1)),
    )
    for find, record_types in logs:
        for number in record_types:
            record = find(number)
            assert (record.key.declaration.kind, record.key.declaration.key) == ("coordinator-key", number)
            assert (record.value.declaration.kind, record.value.declaration.key) == (
                "coordinator-value",
                number,
            )
            seen |= {record.key, record.value}
    kinds = ("metadata", "coordinator-key", "coordinator-value")
    assert seen == {cls for cls in all_messages() if cls.declaration.kind in kinds}
