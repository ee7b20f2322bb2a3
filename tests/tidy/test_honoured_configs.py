"""A config that is said to be honoured is one that somebody reads."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from config.catalogue import BROKER, TOPIC
from config.effects import Effect, effect_of

ROOT: Final = Path(__file__).resolve().parents[2]


def product_text() -> str:
    """All product code but the tables that name every config anyway."""
    tables = {"effects.py", "catalogue.py"}
    files = (
        path
        for folder in ("broker", "config", "controller", "storage")
        for path in (ROOT / folder).rglob("*.py")
    )
    return "\n".join(
        path.read_text() for path in files if path.name not in tables and "definitions" not in path.parts
    )


def test_honoured_broker_configs_are_read() -> None:
    text = product_text()
    by_topics = {
        synonym
        for definition in TOPIC.values()
        if effect_of(definition) is Effect.HONOURED
        for synonym in definition.synonyms
    }
    unread = [
        name
        for name, definition in BROKER.items()
        if effect_of(definition) is Effect.HONOURED and f'"{name}"' not in text and name not in by_topics
    ]
    assert unread == [], "said to be honoured, but nobody asks for them"


def test_honoured_topic_configs_reach_the_log() -> None:
    text = (ROOT / "config" / "topic_config.py").read_text()
    unread = [
        name
        for name, definition in TOPIC.items()
        if effect_of(definition) is Effect.HONOURED
        and f'"{name}"' not in text
        and f"{name.replace('.', '_')}" not in text
    ]
    assert unread == []
