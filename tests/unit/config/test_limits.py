"""The relations between our own limits, and that a broken one is named."""

from __future__ import annotations

import pytest

from config import limits


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
