"""The relations between our own limits, and that a broken one is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from config import limits

ROOT: Final = Path(__file__).resolve().parents[3]


def test_every_limit_limits_something() -> None:
    own = {name for name in vars(limits) if name.isupper()}
    used: set[str] = set()
    for package in ("broker", "config", "controller", "protocol", "storage"):
        for path in (ROOT / package).rglob("*.py"):
            if path != ROOT / "config" / "limits.py":
                used |= own.intersection(re.findall(r"[A-Z][A-Z_]+", path.read_text(encoding="utf-8")))
    assert own - used == set()


def test_all_relations_hold() -> None:
    assert limits.broken_relations() == []


@pytest.mark.parametrize(
    ("limit", "value", "relation"),
    [
        ("OUTPUT_QUEUE_RESUME_BYTES", limits.OUTPUT_QUEUE_PAUSE_BYTES, "reading resumes below"),
        ("TURN_MS", limits.SLOW_TURN_MS, "an ordinary turn is not a slow one"),
        ("WAITING_PRODUCE_PER_CONNECTION", limits.TURN_REQUESTS + 1, "produce window"),
        ("ADMIN_CONNECTIONS", limits.RESERVED_DESCRIPTORS, "admin connections fit"),
    ],
)
def test_a_broken_relation_is_named(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, relation: str
) -> None:
    monkeypatch.setattr(limits, limit, value)
    assert [sentence for sentence in limits.broken_relations() if relation in sentence]
