"""A config that is said to be honoured is one that somebody reads.

A broker's config is asked for by its name. A topic's and a group's become fields of an object, by
`TopicConfig` and `LogConfig` and by `GroupTimes`: there it counts who reads the field, not who declares or
copies it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from config.catalogue import BROKER, GROUP, TOPIC
from config.effects import Effect, effect_of
from storage.log_config import LogConfig

ROOT: Final = Path(__file__).resolve().parents[2]
COPIES: Final = "broker/replication/topic_settings.py"
"""Makes the settings of a log of those of its topic, field by field."""

READ_AS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cleanup.policy": ("compacts", "deletes"),
        "internal.segment.bytes": ("segment_bytes",),
        "message.timestamp.type": ("stamps_append_time",),
    }
)
"""Topic configs that are read by what `TopicConfig` makes of them."""

READ_BY_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "follower.replication.throttled.replicas": "broker/metadata/publishers.py",
        "leader.replication.throttled.replicas": "broker/metadata/publishers.py",
        "unclean.leader.election.enable": "controller/subjects/configs.py",
    }
)
"""Topic configs that no log has, and who takes them from the image of the metadata."""


def product_files(*folders: str) -> Iterator[Path]:
    """Without the tables that name every config anyway, and the simulator, which sets them."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            is_table = path.name in {"effects.py", "catalogue.py"} or "definitions" in path.parts
            if not is_table and "simulation" not in path.parts:
                yield path


def reads_of(text: str) -> set[str]:
    """The attributes that the source reads; `times.x` where it reads `x` of something that is called so."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(node.attr)
            if isinstance(node.value, ast.Attribute):
                found.add(f"{node.value.attr}.{node.attr}")
    return found


@cache
def product_reads(without: str = "") -> frozenset[str]:
    """What broker, controller and storage read of any object, but for one file."""
    files = [path for path in product_files("broker", "controller", "storage") if path != ROOT / without]
    return frozenset[str]().union(*(reads_of(path.read_text()) for path in files))


def honoured_topic_configs() -> list[str]:
    return [name for name, definition in TOPIC.items() if effect_of(definition) is Effect.HONOURED]


def test_honoured_broker_configs_are_read() -> None:
    text = "\n".join(path.read_text() for path in product_files("broker", "config", "controller", "storage"))
    by_topics = {synonym for name in honoured_topic_configs() for synonym in TOPIC[name].synonyms}
    unread = [
        name
        for name, definition in BROKER.items()
        if effect_of(definition) is Effect.HONOURED and f'"{name}"' not in text and name not in by_topics
    ]
    assert unread == [], "said to be honoured, but nobody asks for them"


def test_honoured_topic_configs_are_read() -> None:
    fields = {
        name: READ_AS.get(name, (name.replace(".", "_"),))
        for name in honoured_topic_configs()
        if name not in READ_BY_NAME
    }
    unread = [name for name, attributes in fields.items() if not product_reads().issuperset(attributes)]
    assert unread == []
    assert READ_AS.keys() | READ_BY_NAME.keys() <= set(honoured_topic_configs())
    for name, reader in READ_BY_NAME.items():
        assert f'"{name}"' in (ROOT / reader).read_text(), f"{reader} does not read {name}"


def test_the_settings_of_a_log_are_read() -> None:
    assert set(LogConfig.__struct_fields__) - product_reads(COPIES) == set()


def test_honoured_group_configs_are_read() -> None:
    fields = {
        name: "times." + name.removeprefix("consumer.").replace(".", "_")
        for name, definition in GROUP.items()
        if effect_of(definition) is Effect.HONOURED
    }
    assert fields, "some are honoured"
    assert [name for name, read in fields.items() if read not in product_reads()] == []


def test_a_declaration_is_not_read() -> None:
    assert reads_of("class Settings:\n    flush_messages: int = 0\n") == set()
    assert reads_of("made.flush_messages = 1\nmake(flush_messages=2)") == set()
    assert reads_of("group.times.interval_ms") == {"times", "interval_ms", "times.interval_ms"}
