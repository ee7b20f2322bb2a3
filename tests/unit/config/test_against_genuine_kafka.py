"""Ours and Kafka's own ConfigDef, asked the same questions.

`genuine.jsonl` holds questions and the answers that the classes of Apache Kafka 4.3.1 gave (`ConfigOracle`
asks them). So every run compares with Kafka, and a run with Java also sees that the answers are still true.
To add a question, append a line `[question, null]` and run these tests once with BARNABAS_RECORD=1.

In questions about a broker, `config` and `broker` say only what differs from `ONE_NODE`; null takes a key
away.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from config.broker_config import BrokerConfig
from config.catalogue import BROKER, CLIENT_METRICS, GROUP, TOPIC
from config.definition import Definition
from config.describe import (
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from config.dynamic import validate_broker_config
from config.dynamic_client_metrics import validate_client_metrics
from config.dynamic_groups import validate_group_config
from config.environment import read_environment
from config.errors import ConfigError
from config.loading import layered, load
from config.properties import read_properties
from config.setting import Setting, Source
from config.topic_config import topic_config, validate_topic_config
from config.validators import Items
from config.values import text_of
from tests.support.genuine.kafka_jars import java_command

RECORD: Final = Path(__file__).with_name("genuine.jsonl")
ORACLE: Final = Path(__file__).with_name("ConfigOracle.java")

ONE_NODE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
}

SCOPES: Final = {"broker": BROKER, "topic": TOPIC, "group": GROUP, "client-metrics": CLIENT_METRICS}

OTHERWISE_HERE: Final = {
    # Java classes are names to us: nothing loads them.
    ("value", "principal.builder.class", "no.such.Thing"): "no.such.Thing",
    ("broker", "principal.builder.class", "java.lang.String"): "",
    ("broker", "group.share.assignors", "x"): "",
    ("broker", "group.consumer.assignors", "x"): "group.consumer.assignors: the assignor x is not served",
    # Java 17 prints the smallest double with a digit too many; ours is the shortest that reads back.
    ("value", "log.cleaner.io.buffer.load.factor", "4.9E-324"): "5.0E-324",
    # Kafka meets these with an exception of Java's own; here they have a sentence.
    ("broker", "listener.security.protocol.map", "x"): "x is not NAME:PROTOCOL",
    (
        "broker",
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,,CONTROLLER:PLAINTEXT",
    ): " is not NAME:",
    ("broker", "max.connections.per.ip.overrides", ",127.0.0.1:5"): " is not HOST:LIMIT",
    ("broker", "max.connections.per.ip.overrides", "127.0.0.1:2147483648"): "2147483648 is not a number",
    ("broker", "max.connections.per.ip.overrides", "x"): "x is not HOST:LIMIT",
    ("broker", "max.connections.per.ip.overrides", "127.0.0.1:x"): "x is not a number",
    ("broker", "log.cleaner.threads", "0"): "",
    # Kafka meets a number that is no port when it binds.
    ("broker", "listeners", "PLAINTEXT://:99999,CONTROLLER://:9093"): "is not between 0 and 65535",
    ("broker", "listeners", "PLAINTEXT://:-1,CONTROLLER://:9093"): "is not between 0 and 65535",
    # What asks for security that cannot be given, yet or without a key, is refused.
    ("broker", "authorizer.class.name", "x"): "name org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    (
        "broker",
        "listener.security.protocol.map",
        "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    ): "not served yet",
    (
        "broker",
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
    ): "listener PLAINTEXT asks for TLS and has no key",
    (
        "broker",
        "listeners",
        "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092,CONTROLLER://:9093",
    ): "listener SSL asks for TLS and has no key",
}
"""(kind of question, key, value) → what our answer holds where it is meant to differ; "" is no complaint."""


def recorded() -> list[tuple[dict[str, Any], Any]]:
    pairs = [json.loads(line) for line in RECORD.read_text().splitlines()]
    return [(question, answer) for question, answer in pairs if answer is not None]


PAIRS: Final = recorded()


def questions(*kinds: str) -> list[Any]:
    return [
        pytest.param(question, answer, id=f"{question['ask']}-{number}")
        for number, (question, answer) in enumerate(PAIRS)
        if question["ask"] in kinds
    ]


def whole(difference: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in {**ONE_NODE, **difference}.items() if text is not None}


def broker(question: Mapping[str, Any], key: str = "broker") -> BrokerConfig:
    settings = [
        Setting(name, text, Source.FILE, "file") for name, text in whole(question.get(key, {})).items()
    ]
    return load(layered(settings)).config


def expected(question: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[Any, bool]:
    """Kafka's answer, or ours where it is meant to differ; and whether it only has to be contained."""
    given = question.get("config", {question.get("name"): question.get("value")})
    for name, text in given.items():
        if (question["ask"], name, text) in OTHERWISE_HERE:
            return OTHERWISE_HERE[question["ask"], name, text], True
    if "error" in answer:
        return answer["message"].removeprefix("requirement failed: "), True
    return answer["ok"], False


def check(ours: Any, question: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    want, contained = expected(question, answer)
    if contained and want:
        assert want in ours
    else:
        assert ours == want


@pytest.mark.parametrize(("question", "answer"), questions("value"))
def test_a_text_means_what_it_means_to_kafka(question: dict[str, Any], answer: dict[str, Any]) -> None:
    definition = SCOPES[question["scope"]][question["name"]]
    try:
        ours = text_of(definition.parse(question["value"]), definition.type)
    except ConfigError as refused:
        ours = str(refused)
    check(ours, question, answer)


@pytest.mark.parametrize(("question", "answer"), questions("properties"))
def test_properties_are_read_as_java_reads_them(question: dict[str, Any], answer: dict[str, Any]) -> None:
    try:
        ours: Any = {setting.name: setting.text for setting in read_properties(question["text"], "file")}
    except ConfigError as refused:
        ours = str(refused)
    check(ours, question, answer)


@pytest.mark.parametrize(("question", "answer"), questions("env"))
def test_variables_are_decoded_as_the_container_does(
    question: dict[str, Any], answer: dict[str, Any]
) -> None:
    written = read_properties("\n".join(answer["ok"]), "server.properties")
    ours = {setting.name: setting.text for setting in read_environment(question["env"])}
    assert ours == {setting.name: setting.text for setting in written}


@pytest.mark.parametrize(("question", "answer"), questions("broker"))
def test_a_broker_starts_or_is_refused_as_in_kafka(question: dict[str, Any], answer: dict[str, Any]) -> None:
    try:
        broker(question, "config")
        complaint = ""
    except ConfigError as refused:
        complaint = str(refused)
        assert "\n" not in complaint
    check(complaint, question, answer)


@pytest.mark.parametrize(("question", "answer"), questions("topic"))
def test_topics_get_what_kafka_gives_them(question: dict[str, Any], answer: dict[str, Any]) -> None:
    config = broker(question)
    if "error" in answer:
        with pytest.raises(ConfigError) as refused:
            validate_topic_config(question["config"], config)
        assert str(refused.value) == answer["message"]
        return
    validate_topic_config(question["config"], config)
    values = topic_config(config, question["config"])
    public = {name: row for name, row in TOPIC.items() if not row.internal}
    if "internal.segment.bytes" in question["config"]:
        # Kafka keeps both and asks for the internal one first; here one field holds what counts.
        assert values.segment_bytes == int(question["config"]["internal.segment.bytes"])
        del public["segment.bytes"]
    ours = {name: text_of(getattr(values, name.replace(".", "_")), row.type) for name, row in public.items()}
    assert ours == {name: answer["ok"][name] for name in public}


@pytest.mark.parametrize(("question", "answer"), questions("group", "client-metrics", "dynamic"))
def test_changes_are_allowed_or_refused_as_in_kafka(question: dict[str, Any], answer: dict[str, Any]) -> None:
    try:
        if question["ask"] == "group":
            validate_group_config(question["config"], broker(question))
        elif question["ask"] == "client-metrics":
            validate_client_metrics(question["config"])
        else:
            validate_broker_config(question["config"], per_broker=question["per_broker"])
        complaint = ""
    except ConfigError as refused:
        complaint = str(refused)
    check(complaint, question, answer)


def described(question: dict[str, Any]) -> list[DescribedConfig]:
    config = broker(question).with_dynamic(
        question.get("dynamic_broker", {}), question.get("dynamic_default", {})
    )
    assert config.refused == ()
    overrides = question.get("resource", {})
    if question["resource_type"] == 2:
        return describe_topic(config, overrides)
    if question["resource_type"] == 32:
        return describe_group(config, overrides)
    if question["resource_type"] == 16:
        return describe_client_metrics(overrides)
    rows = describe_broker(config) if question["resource_name"] else describe_cluster_default(config)
    return [row for row in rows if not row.name.startswith("barnabas.")]


@pytest.mark.parametrize(("question", "answer"), questions("describe"))
def test_configs_are_described_as_kafka_describes_them(
    question: dict[str, Any], answer: dict[str, Any]
) -> None:
    ours = [
        [
            row.name,
            row.value,
            row.source,
            row.read_only,
            row.sensitive,
            row.type,
            [[synonym.name, synonym.value, synonym.source] for synonym in row.synonyms],
        ]
        for row in described(question)
        if not question.get("only_set") or row.source != 5
    ]
    assert ours == answer["ok"]


def rule(row: Definition) -> str | None:
    """The validator in Kafka's notation, which has no word for a list that only must not be empty."""
    if isinstance(row.validator, Items) and not row.validator.choices:
        return ""
    return None if row.validator is None else row.validator.allowed()


def test_every_definition_is_kafkas() -> None:
    answer = next(answer for question, answer in PAIRS if question["ask"] == "dump")
    genuine = {(row["scope"], row["name"]): row for row in answer["ok"]}
    ours = {}
    for scope, definitions in SCOPES.items():
        for name, row in definitions.items():
            if name.startswith("barnabas.") or row.dynamic_only:
                continue
            ours[scope, name] = {
                "scope": scope,
                "name": name,
                "type": row.type.name.lower(),
                "default": "NO_DEFAULT" if row.required else text_of(row.default, row.type),
                "validator": rule(row),
                "importance": row.importance.value,
                "internal": row.internal,
            }
    assert ours.keys() == genuine.keys()
    for key, described_here in ours.items():
        assert described_here == genuine[key]


@pytest.mark.java
def test_the_recorded_answers_are_still_true() -> None:
    pairs = [json.loads(line) for line in RECORD.read_text().splitlines()]
    asked = []
    for question, _ in pairs:
        merged = dict(question)
        if question["ask"] == "broker":
            merged["config"] = whole(question["config"])
        elif question["ask"] in ("topic", "group", "describe"):
            merged["broker"] = whole(question.get("broker", {}))
        asked.append(json.dumps(merged))
    done = subprocess.run(
        java_command(str(ORACLE)),
        input="\n".join(asked) + "\n",
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]
    assert len(answers) == len(pairs)
    if os.environ.get("BARNABAS_RECORD") == "1":
        lines = [
            json.dumps([question, answer], ensure_ascii=True)
            for (question, _), answer in zip(pairs, answers, strict=True)
        ]
        RECORD.write_text("\n".join(lines) + "\n")
        return
    for (question, before), now in zip(pairs, answers, strict=True):
        assert now == before, question
