"""DescribeConfigs of every config that there is, field by field, beside Apache Kafka with the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from config.catalogue import BROKER, CLIENT_METRICS, GROUP, TOPIC
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.questions.config_walk import (
    BASE,
    CHANGES,
    FILES,
    OURS,
    RESOURCES,
    Rows,
    genuine,
    key_of,
    recorded,
    walk,
)

KEYS: Final = [
    (file, key_of(file, changed, *each)) for file in FILES for changed in (False, True) for each in RESOURCES
]

COUNTS: Final = {"4 1": 340, "2 set": 33, "32 g": 17, "16 m": 3}
"""Public configs of Kafka 4.3.1 by the resource that shows them all."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Our rows by file; a broker is started for each when it is first asked for."""

    class ByFile(dict[str, Rows]):
        def __missing__(self, file: str) -> Rows:
            data = tmp_path_factory.mktemp("configs") / file
            settings = {"advertised.listeners": "PLAINTEXT://127.0.0.1:0", **BASE, **FILES[file]}
            with BarnabasProcess(data, settings) as broker:
                self[file] = walk(broker.bootstrap_servers, file, data)
            return self[file]

    return ByFile()


@pytest.mark.parametrize(("file", "key"), KEYS, ids=[key for _, key in KEYS])
def test_every_row_is_kafka_s(ours: dict[str, Rows], file: str, key: str) -> None:
    assert difference(ours[file][key], recorded()[key]) == []


def difference(rows: list[Any], expected: list[Any]) -> list[Any]:
    """Rows that differ, theirs and ours side by side: a whole list of 340 says nothing to a reader."""
    by_name = {row[0]: row for row in expected}
    found = {row[0]: row for row in rows}
    names = sorted(by_name.keys() | found.keys())
    return [(by_name.get(each), found.get(each)) for each in names if by_name.get(each) != found.get(each)]


def test_all_definitions_are_walked() -> None:
    rows = recorded()
    for resource, count in COUNTS.items():
        assert len(rows[f"bare, untouched, {resource}"]) == count
    public = {
        "4 1": [row for row in BROKER.values() if not row.dynamic_only and not row.name.startswith(OURS)],
        "2 set": list(TOPIC.values()),
        "32 g": list(GROUP.values()),
        "16 m": list(CLIENT_METRICS.values()),
    }
    for resource, definitions in public.items():
        names = {row.name for row in definitions if not row.internal}
        assert names == {row[0] for row in rows[f"bare, untouched, {resource}"]}


def test_all_sources_are_met() -> None:
    """The files and changes bring every source that a config can have, logger levels apart."""
    sources = {row[2] for rows in recorded().values() for row in rows}
    assert sources == {1, 2, 3, 4, 5, 7, 8}
    assert {kind for kind, _, _ in CHANGES} == {kind for kind, _ in RESOURCES}


@pytest.mark.java
def test_kafka_s_rows_are_still_these(tmp_path: Path) -> None:
    """One file, the one that sets most; `python -m tests.support.questions.config_walk` records all."""
    rows = genuine("many", tmp_path)
    for key, found in rows.items():
        assert difference(found, recorded()[key]) == [], key
