"""The rows of `config/definitions` against Kafka's published lists, and what this release says of each."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import pytest

from config import effects
from config.catalogue import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    PLUGINS,
    TOPIC,
    broker_definition,
    broker_synonyms,
)
from config.definition import Definition
from config.effects import Effect, documentation, effect_of
from config.values import text_of

KAFKAS_LIST: Final = Path(__file__).with_name("kafka_configs.tsv")
"""What the ConfigDefs of Apache Kafka 4.3 declare, a row a config."""
EVERY: Final = [*BROKER.values(), *TOPIC.values(), *GROUP.values(), *CLIENT_METRICS.values()]


def kafkas_rows() -> dict[tuple[str, str], dict[str, str]]:
    with open(KAFKAS_LIST, encoding="utf-8") as file:
        return {(row["scope"], row["name"]): row for row in csv.DictReader(file, delimiter="\t")}


def ours() -> dict[tuple[str, str], Definition]:
    rows = {
        ("broker-dynamic-only" if row.dynamic_only else "broker", name): row
        for name, row in BROKER.items()
        if not name.startswith("barnabas.")
    }
    for scope, definitions in (("topic", TOPIC), ("group", GROUP), ("client-metrics", CLIENT_METRICS)):
        rows |= {(scope, name): row for name, row in definitions.items()}
    return rows


def shown_default(row: Definition) -> str:
    if row.required:
        return "NO_DEFAULT"
    text = text_of(row.default, row.type)
    return "null" if text is None else text


def test_names_types_defaults_modes_and_synonyms_are_kafkas() -> None:
    genuine = kafkas_rows()
    mine = ours()
    assert mine.keys() == genuine.keys()
    for key, row in mine.items():
        listed = genuine[key]
        assert row.type.name.lower() == listed["type"], key
        # The list shows the constant's name for group.consumer.migration.policy, the config is lower case.
        assert shown_default(row).lower() == listed["default"].lower(), key
        assert row.importance.value == listed["importance"], key
        assert row.update_mode.value == listed["update_mode"], key
        assert row.internal == (listed["visibility"] == "internal"), key
        assert "|".join(row.synonyms) == (listed["broker_synonym(s)"] or ""), key


def test_the_counts_are_those_of_the_release() -> None:
    kafkas = [row for name, row in BROKER.items() if not name.startswith("barnabas.")]
    static = [row for row in kafkas if not row.dynamic_only]
    public = [row for row in static if not row.internal]
    assert (len(public), len(static) - len(public), len(kafkas) - len(static)) == (340, 20, 3)
    assert len([row for row in TOPIC.values() if not row.internal]) == 33
    assert (len(GROUP), len(CLIENT_METRICS)) == (17, 3)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in EVERY if not row.required])
def test_a_default_is_a_valid_value_of_its_type(row: Definition) -> None:
    text = row.default if row.sensitive else text_of(row.default, row.type)
    if text is None:
        return
    assert isinstance(text, str)
    assert row.parse(text) == row.default


def test_every_row_says_what_it_does() -> None:
    for row in EVERY:
        assert row.text.endswith((".", "?")), row.name
        assert row.text[0].isupper() or row.text.startswith(("`", "min.insync", "SO_")), row.name
        assert "  " not in row.text, row.name


def test_the_effects_name_configs_that_exist_once() -> None:
    assert sorted(effects.HONOURED - BROKER.keys()) == []
    assert sorted(effects.HONOURED_BY_TOPICS - TOPIC.keys()) == []
    assert sorted(effects.HONOURED_BY_GROUPS - GROUP.keys()) == []
    assert sorted(effects.HONOURED_BY_CLIENT_METRICS - CLIENT_METRICS.keys()) == []
    assert sorted(effects.HONOURED_FOR_PLUGINS - PLUGINS.keys()) == []
    assert sorted(effects.REASONS_IGNORED.keys() - BROKER.keys() - PLUGINS.keys()) == []
    assert sorted(BROKER.keys() & PLUGINS.keys()) == []
    assert sorted(effects.HONOURED & effects.REASONS_IGNORED.keys()) == []


def test_documentation_owns_up() -> None:
    assert effect_of(BROKER["listeners"]) is Effect.HONOURED
    assert documentation(BROKER["listeners"]) == BROKER["listeners"].text
    assert effect_of(BROKER["transaction.two.phase.commit.enable"]) is Effect.NOT_USED_YET
    assert documentation(BROKER["transaction.two.phase.commit.enable"]).endswith(" Not used yet.")
    assert effect_of(BROKER["num.io.threads"]) is Effect.IGNORED
    assert "Ignored: one event loop" in documentation(BROKER["num.io.threads"])


def test_a_topic_config_is_honoured_only_with_the_broker_config_behind_it() -> None:
    for row in TOPIC.values():
        if effect_of(row) is Effect.HONOURED:
            for synonym in row.synonyms:
                assert effect_of(BROKER[synonym]) is Effect.HONOURED, (row.name, synonym)


def test_names_that_stand_for_one_another() -> None:
    assert broker_synonyms("log.retention.hours")[0] == "log.retention.ms"
    assert broker_synonyms("num.partitions") == ("num.partitions",)
    prefixed = "listener.name.internal.ssl.keystore.password"
    assert broker_synonyms(prefixed) == (prefixed, "ssl.keystore.password")
    mechanism = "listener.name.internal.scram-sha-256.sasl.jaas.config"
    assert broker_synonyms(mechanism) == (mechanism, "sasl.jaas.config")
    secret = broker_definition(mechanism)
    assert secret is not None
    assert secret.sensitive
    assert broker_definition("listener.name.internal.no.such.key") is None
    hours = broker_definition("log.retention.hours")
    assert hours is not None
    assert hours.name == "log.retention.hours"
