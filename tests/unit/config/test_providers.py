"""Placeholders in values, and what Kafka's three config providers make of them.

What is taken here and what it means was asked of Apache Kafka 4.3.1; where it leaves a placeholder as it is
written, the start is refused here.
"""

from __future__ import annotations

from typing import Final

import pytest

from broker.cli.configuration import load_configuration
from config.errors import ConfigError
from config.loading import file_settings, layered
from config.providers import resolved
from storage.memory_files import MemoryFiles

CLASSES: Final = "org.apache.kafka.common.config.provider"
PROVIDERS: Final = f"""\
config.providers=env,file,dir
config.providers.env.class={CLASSES}.EnvVarConfigProvider
config.providers.file.class={CLASSES}.FileConfigProvider
config.providers.dir.class={CLASSES}.DirectoryConfigProvider
"""
ENVIRONMENT: Final = {"DATA": "/srv/kafka", "EMPTY": ""}


def files() -> MemoryFiles:
    there = MemoryFiles()
    there.makedirs("/etc/secrets.d/inner")
    there.write_atomically("/etc/secrets", "rack = a\\u0041 é\nnone=\n".encode())
    there.write_atomically("/etc/secrets.d/rack", b"five\n")
    return there


def value(text: str, others: str = "") -> str:
    lines = f"{PROVIDERS}{others}\nbroker.rack={text}\n"
    settings = layered(file_settings("s.properties", lines.encode("iso-8859-1")))
    return resolved(settings, ENVIRONMENT, files())["broker.rack"].text


@pytest.mark.parametrize(
    ("text", "others", "means"),
    [
        ("plain", "", "plain"),
        ("${env:DATA}", "", "/srv/kafka"),
        ("${env::DATA}", "", "/srv/kafka"),
        ("1${env:DATA}/${env:DATA}0", "", "1/srv/kafka//srv/kafka0"),
        ("$${env:EMPTY}", "", "$"),
        ("${env:DATA}", "config.providers.env.param.allowlist.pattern=D.*", "/srv/kafka"),
        ("${file:/etc/secrets:rack}", "", "aA é"),
        ("${file:/etc/secrets:none}", "", ""),
        (
            "${file:/etc/secrets:rack}",
            "config.providers.file.param.allowed.paths=/etc/secrets.d,/etc",
            "aA é",
        ),
        ("${dir:/etc/secrets.d:rack}", "", "five\n"),
        ("${dir:/etc/secrets.d:rack}", "config.providers.dir.param.allowed.paths=/etc/secrets.d", "five\n"),
        ("${other:DATA}", "", "${other:DATA}"),
        ("${DATA}", "", "${DATA}"),
        ("${env:DATA}", "config.providers=", "${env:DATA}"),
        ("${env:DATA}", "config.providers=file, env", "/srv/kafka"),
        ("x", "config.providers=env,vault", "x"),
    ],
)
def test_a_placeholder_means_what_its_provider_says(text: str, others: str, means: str) -> None:
    assert value(text, others) == means


@pytest.mark.parametrize(
    ("text", "others", "problem"),
    [
        ("${env:NOPE}", "", "there is no such environment variable: set it, or write the value itself"),
        ("${env:p:DATA}", "", "Path is not supported for EnvVarConfigProvider, invalid value 'p'"),
        ("${env:DATA}", "config.providers.env.param.allowlist.pattern=AT", "does not allow the variable"),
        ("${file:/etc/secrets:nope}", "", "the file has no such key: add it, or write the value itself"),
        ("${file:/etc/nope:rack}", "", "Could not read properties from file /etc/nope: "),
        ("${file:rack}", "", "it names no path: write ${PROVIDER:PATH:KEY}"),
        (
            "${file:/etc/a/../secrets:rack}",
            "config.providers.file.param.allowed.paths=/etc/secrets.d",
            "The path /etc/a/../secrets is not allowed to be accessed: add it to param.allowed.paths",
        ),
        ("${dir:/etc/secrets.d:nope}", "", "the directory has no such file: add it, or write the value"),
        ("${dir:/etc/secrets.d:inner}", "", "Could not read file inner in /etc/secrets.d: "),
        ("${dir:/etc/nope:rack}", "", "Could not read file rack in /etc/nope: "),
        ("${vault:x}", "config.providers=vault", "config.providers.vault.class is not set: set it, for"),
    ],
)
def test_a_placeholder_without_a_value_stops_the_start(text: str, others: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        value(text, others)
    assert str(refused.value).startswith(f"s.properties line 6: broker.rack: {text}: ")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (
            "config.providers.env.class=com.example.Vault",
            "Invalid value com.example.Vault for configuration config.providers.env.class: Could not load",
        ),
        ("config.providers.env.param.allowlist.pattern=(", "not a regular expression"),
        ("config.providers.file.param.allowed.paths=etc", "Path etc is not absolute"),
        ("config.providers.dir.param.allowed.paths=/etc,/nope", "Path /nope does not exist"),
    ],
)
def test_a_provider_that_cannot_be_had_stops_the_start(setting: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        value("x", setting)
    assert problem in str(refused.value)
    assert str(refused.value).startswith("s.properties line 5: ")


def test_placeholders_of_every_layer_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CONFIG_PROVIDERS", "env")
    monkeypatch.setenv("DATA", "/srv/kafka")
    class_ = f"config.providers.env.class={CLASSES}.EnvVarConfigProvider"
    config = load_configuration(None, [class_, "log.dirs=${env:DATA}"]).config
    assert config.log_directories == ("/srv/kafka",)
