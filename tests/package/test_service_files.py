"""What runs the broker on a server: Dockerfile, compose file and systemd unit, seen by the tools that know
them, and by what the files of this checkout say."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.genuine.kafka_jars import ROOT
from tests.support.genuine.linters import complaints

DOCKER: Final = ROOT / "docker"
EXPOSURE_LIMIT: Final = 20
"""Tenths: systemd calls up to 2.0 very safe, and 9 and more unsafe."""


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their continuation lines joined."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word]


def of_kind(kind: str) -> list[str]:
    return [rest for word, rest in instructions() if word == kind]


def compose() -> Any:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DOCKER / "barnabas.service")
    return parser["Service"]


def test_the_dockerfile_is_well_made() -> None:
    assert complaints("hadolint", "docker/Dockerfile") == ""


def test_the_shell_scripts_are_well_made() -> None:
    scripts = ["docker/run", *sorted(str(path) for path in (ROOT / ".ci").iterdir() if path.is_file())]
    assert complaints("shellcheck", *scripts) == ""


def test_the_compose_file_is_well_made() -> None:
    rules = "{extends: default, rules: {line-length: {max: 110}, document-start: disable}}"
    assert complaints("yamllint", "--strict", "-d", rules, "docker/compose.yaml") == ""
    told = complaints("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker/compose.yaml")
    assert told == "ok -- validation done"


def test_the_image_holds_all_that_the_wheel_needs() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = [words.split() for words in of_kind("COPY") if not words.startswith("--from")]
    sources = {word for words in copied for word in words[:-1] if not word.startswith("--")}
    assert set(wheel["only-include"]) <= sources
    assert {"pyproject.toml", "requirements.lock", "LICENSE", "README.md"} <= sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    lock = (ROOT / "requirements.lock").read_text().split()
    pinned = re.findall(r"[a-z]+==[\d.]+", " ".join(of_kind("RUN")))
    assert pinned != []
    assert set(pinned) <= set(lock)


def test_the_container_is_nobody_in_particular_and_is_looked_after() -> None:
    assert of_kind("USER")[-1] == "1000:1000"
    assert of_kind("CMD") == ['["/etc/kafka/docker/run"]']
    (check,) = of_kind("HEALTHCHECK")
    assert check.endswith('CMD ["/etc/kafka/docker/healthy"]')
    assert any(words.endswith("docker/run docker/healthy /etc/kafka/docker/") for words in of_kind("COPY"))
    for name in ("run", "healthy"):
        assert (DOCKER / name).stat().st_mode & 0o111, f"docker/{name} is no program"
    assert of_kind("VOLUME") == ['["/var/lib/kafka/data", "/etc/kafka/secrets", "/mnt/shared/config"]']


def test_the_compose_file_knows_the_image() -> None:
    broker = compose()["services"]["broker"]
    assert (DOCKER / broker["build"]["context"] / broker["build"]["dockerfile"]).samefile(
        DOCKER / "Dockerfile"
    )
    assert broker["volumes"] == ["data:/var/lib/kafka/data"]
    named = re.findall(r"(\w+)://", broker["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    mapped = broker["environment"]["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]
    assert named == ["PLAINTEXT", "HOST"]
    assert all(f"{name}:PLAINTEXT" in mapped for name in (*named, "CONTROLLER"))
    clients = [name for name, service in compose()["services"].items() if "depends_on" in service]
    assert sorted(clients) == ["console", "kcat", "tools"]


def verifiable(tmp_path: Path) -> Path:
    """The unit with a program that is there: `verify` looks for it."""
    text = (DOCKER / "barnabas.service").read_text()
    assert "ExecStart=/opt/barnabas/bin/barnabas start" in text
    copy = tmp_path / "barnabas.service"
    copy.write_text(text.replace("/opt/barnabas/bin/barnabas", "/bin/true"))
    return copy


def test_the_unit_is_well_made(tmp_path: Path) -> None:
    assert complaints("systemd-analyze", "verify", verifiable(tmp_path)) == ""


def test_the_unit_lets_the_broker_do_little(tmp_path: Path) -> None:
    limit = f"--threshold={EXPOSURE_LIMIT}"
    told = complaints(
        "systemd-analyze", "security", "--offline=yes", "--no-pager", limit, verifiable(tmp_path)
    )
    found = re.search(r"Overall exposure level for barnabas\.service: ([\d.]+)", told)
    assert found, told
    assert float(found[1]) * 10 <= EXPOSURE_LIMIT


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("TimeoutStartSec", "infinity"),
        ("WatchdogSignal", "SIGQUIT"),
        ("KillMode", "mixed"),
        ("Restart", "on-failure"),
        ("User", "barnabas"),
    ],
)
def test_the_unit_fits_the_program(setting: str, value: str) -> None:
    assert unit()[setting] == value


def test_the_unit_s_limits() -> None:
    assert int(unit()["LimitNOFILE"]) >= 100_000
    assert int(unit()["WatchdogSec"]) >= 10
    assert unit()["ExecStart"].split()[1:] == ["start", "--format", "/etc/barnabas/server.properties"]
