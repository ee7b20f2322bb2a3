"""Batches that Apache Kafka's own classes built, and its broker's verdicts on good and bad ones.

The files lie in tests/unit/protocol/records/corpus: `java_batches.jsonl` comes out of RecordsOracle.java (and
a test makes it again where there is Java), `verdicts.jsonl` was recorded from an Apache Kafka 4.3.1 broker
that got each batch in a Produce request.
"""

import json
from pathlib import Path
from typing import Any, Final

from protocol.records.builder import SimpleRecord
from protocol.records.reader import Record
from protocol.records.verdict import NO_BOUND_MS, ValidationRules

CORPUS: Final = Path(__file__).resolve().parents[2] / "unit" / "protocol" / "records" / "corpus"
ORACLE: Final = CORPUS / "RecordsOracle.java"
T: Final = 1_700_000_000_000


def java_batches() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / "java_batches.jsonl").read_text().splitlines()]


def verdicts() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / "verdicts.jsonl").read_text().splitlines()]


def as_row(record: Record) -> list[Any]:
    """A record as the corpus writes it."""
    headers = [[name, None if value is None else value.hex()] for name, value in record.headers]
    key = None if record.key is None else record.key.hex()
    value = None if record.value is None else record.value.hex()
    return [record.offset, record.timestamp, key, value, headers]


def mixed_records() -> list[SimpleRecord]:
    """The records of RecordsOracle.mixed()."""
    headers = (("trace", b"a1"), ("trace", None), ("größe", b""))
    return [
        SimpleRecord(b"k0", b"v0", T),
        SimpleRecord(None, b"no key", T + 5),
        SimpleRecord(b"tombstone", None, T + 3),
        SimpleRecord(None, None, T - 70_000),
        SimpleRecord(b"", b"", T + 200_000, headers),
        SimpleRecord(
            b"a key of more than sixty-three bytes, so that its length takes two of them", b"value " * 20, T
        ),
    ]


def many_records() -> list[SimpleRecord]:
    """The records of RecordsOracle.many(), ninety kilobytes."""
    return [
        SimpleRecord(f"key-{i % 7}".encode(), (f"line {i % 13} ").encode() * 40, T + i // 10)
        for i in range(300)
    ]


def rules_of_topic(kind: str) -> ValidationRules:
    """How the topics of the verdicts were configured."""
    return ValidationRules(
        partition_name=f"{kind}-0",
        max_message_bytes=200 if kind == "small" else 1_048_588,
        compacted=kind == "compact",
        log_append_time=kind == "lat",
        before_max_ms=1000 if kind == "before" else NO_BOUND_MS,
        codec=1 if kind == "gz" else None,
    )
