"""What the container runs, run as a script: variables, mounts and arguments become a broker.

A folder takes the place of the container's root, and nothing of the tester's environment gets in. Most cases
look at what `docker/run` hands to `barnabas`; two start the broker and ask the health check.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from config.environment import NOT_SETTINGS, read_environment
from config.properties import read_properties
from tests.support.brokers.ports import free_ports
from tests.support.genuine.kafka_jars import ROOT, java_command

RUN: Final = ROOT / "docker" / "run"
ADMIN: Final = "KAFKA_BARNABAS_ADMIN_LISTENER"
DEFAULT_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
SINGLE_NODE: Final = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
}
"""What compose files for the apache/kafka image say of a single node."""


class Started(NamedTuple):
    """How `barnabas` was called."""

    code: int
    arguments: list[str]
    settings: dict[str, str]
    """The KAFKA_ variables that it got."""
    errors: str


class Container:
    """A folder with what a container has: mounts, secrets, a data folder, and `barnabas` on the path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "mnt" / "shared" / "config"
        self.secrets = root / "etc" / "kafka" / "secrets"
        self.data = root / "var" / "lib" / "kafka" / "data"
        self.programs = root / "bin"
        self.temporary = root / "tmp"
        for folder in (self.config, self.secrets, self.data, self.programs, self.temporary):
            folder.mkdir(parents=True)

    def program(self, script: str) -> None:
        path = self.programs / "barnabas"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def command(self, variables: Mapping[str, str], *arguments: str) -> tuple[list[str], dict[str, str]]:
        own = {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "BARNABAS_CONFIG_MOUNT": str(self.config),
            "BARNABAS_SECRETS": str(self.secrets),
            "TMPDIR": str(self.temporary),
        }
        return [str(RUN), *arguments], own | dict(variables)

    def run(self, *arguments: str, **variables: str) -> Started:
        self.program('printf "%s\\n" "$@"; echo --; env')
        command, environment = self.command(variables, *arguments)
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        words, _, listed = done.stdout.partition("\n--\n")
        settings = dict(line.split("=", 1) for line in listed.splitlines() if line.startswith("KAFKA_"))
        return Started(done.returncode, words.splitlines(), settings, done.stderr)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_nothing_said_is_one_node_on_localhost(container: Container) -> None:
    started = container.run()
    assert started.arguments == ["start", "--format", "--cluster-id", DEFAULT_CLUSTER_ID]
    assert started.settings == {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "KAFKA_BARNABAS_ADMIN_LISTENER": "0.0.0.0:9644",
    }


def test_a_word_changes_the_image_s_settings(container: Container) -> None:
    started = container.run(KAFKA_NUM_PARTITIONS="3", KAFKA_LOG_DIRS="/elsewhere")
    assert started.arguments == ["start", "--format", "--cluster-id", DEFAULT_CLUSTER_ID]
    assert started.settings["KAFKA_NUM_PARTITIONS"] == "3"
    assert started.settings["KAFKA_LOG_DIRS"] == "/elsewhere"
    assert started.settings["KAFKA_LISTENERS"] == "PLAINTEXT://0.0.0.0:9092"


def test_who_says_the_roles_says_all(container: Container) -> None:
    started = container.run(**SINGLE_NODE, CLUSTER_ID="Mine")
    assert started.arguments == ["start", "--format", "--cluster-id", "Mine", "/dev/null"]
    assert started.settings == SINGLE_NODE | {"KAFKA_BARNABAS_ADMIN_LISTENER": "0.0.0.0:9644"}


def test_a_mounted_file(container: Container) -> None:
    file = container.config / "server.properties"
    file.write_text("num.partitions=3\n")
    started = container.run("KAFKA_NUM_PARTITIONS=4", KAFKA_PROCESS_ROLES="broker,controller")
    assert started.arguments == ["start", "--format", "--cluster-id", DEFAULT_CLUSTER_ID, str(file)]
    assert started.settings["KAFKA_NUM_PARTITIONS"] == "4"
    assert "KAFKA_LOG_DIRS" not in started.settings


@pytest.mark.parametrize(
    ("advertised", "listeners"),
    [
        ("PLAINTEXT://broker:19092", "PLAINTEXT://0.0.0.0:19092"),
        (
            "PLAINTEXT://broker:19092,HOST://localhost:9092",
            "PLAINTEXT://0.0.0.0:19092,HOST://0.0.0.0:9092",
        ),
        ("PLAINTEXT://[2001:db8::1]:9092", "PLAINTEXT://0.0.0.0:9092"),
        ("PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092"),
    ],
)
def test_listeners_come_from_what_is_advertised(
    container: Container, advertised: str, listeners: str
) -> None:
    assert container.run(KAFKA_ADVERTISED_LISTENERS=advertised).settings["KAFKA_LISTENERS"] == listeners
    chosen = container.run(KAFKA_ADVERTISED_LISTENERS=advertised, KAFKA_LISTENERS="PLAINTEXT://:1")
    assert chosen.settings["KAFKA_LISTENERS"] == "PLAINTEXT://:1"


def test_arguments_are_variables(container: Container) -> None:
    started = container.run("KAFKA_NUM_PARTITIONS=5", "CLUSTER_ID=Other id", KAFKA_NUM_PARTITIONS="3")
    assert started.settings["KAFKA_NUM_PARTITIONS"] == "5"
    assert started.arguments[-1] == "Other id"
    refused = container.run("--help")
    assert refused.code == 1
    assert refused.errors == "barnabas: --help: expected NAME=value\n"


def test_secrets(container: Container) -> None:
    (container.secrets / "store.p12").write_text("…")
    (container.secrets / "words").write_text("open sesame\n")
    started = container.run(
        KAFKA_SSL_KEYSTORE_FILENAME="store.p12",
        KAFKA_SSL_KEYSTORE_CREDENTIALS="words",
        KAFKA_SSL_KEY_CREDENTIALS="words",
        KAFKA_SSL_TRUSTSTORE_FILENAME="store.p12",
        KAFKA_SSL_TRUSTSTORE_CREDENTIALS="words",
    )
    assert {name: value for name, value in started.settings.items() if "_SSL_" in name} == {
        "KAFKA_SSL_KEYSTORE_LOCATION": str(container.secrets / "store.p12"),
        "KAFKA_SSL_KEYSTORE_PASSWORD": "open sesame",
        "KAFKA_SSL_KEY_PASSWORD": "open sesame",
        "KAFKA_SSL_TRUSTSTORE_LOCATION": str(container.secrets / "store.p12"),
        "KAFKA_SSL_TRUSTSTORE_PASSWORD": "open sesame",
    }


@pytest.mark.parametrize("variable", ["KAFKA_SSL_KEYSTORE_FILENAME", "KAFKA_SSL_KEY_CREDENTIALS"])
def test_a_secret_that_is_not_there(container: Container, variable: str) -> None:
    refused = container.run(**{variable: "none"})
    assert refused.code == 1
    assert refused.errors == f"barnabas: {variable}: there is no readable file {container.secrets}/none\n"


def healthy(container: Container, **variables: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-I", str(ROOT / "docker" / "healthy")]
    environment = {"TMPDIR": str(container.temporary)} | variables
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("file", "arguments", "variables", "exported", "asked"),
    [
        (None, [], {}, "0.0.0.0:9644", "127.0.0.1:9644"),
        ("num.partitions=3\n", [], {}, "0.0.0.0:9644", "127.0.0.1:9644"),
        (
            "barnabas.admin.listener=127.0.0.1:9\nbarnabas.admin.listener = [\\:\\:1]\\:8\r\n",
            [],
            {},
            None,
            "::1:8",
        ),
        ("#barnabas.admin.listener=127.0.0.1:9\n", [], {}, "0.0.0.0:9644", "127.0.0.1:9644"),
        ("barnabas.admin.listener=127.0.0.1:9\n", [], {ADMIN: "127.0.0.1:7"}, "127.0.0.1:7", "127.0.0.1:7"),
        (None, [f"{ADMIN}=127.0.0.1:6"], {}, "127.0.0.1:6", "127.0.0.1:6"),
        (None, [], {ADMIN: ""}, "", None),
        ("barnabas.admin.listener:\n", [], {}, None, None),
    ],
)
def test_the_admin_port_is_where_it_was_told_to_be_and_is_asked_there(
    container: Container,
    file: str | None,
    arguments: list[str],
    variables: dict[str, str],
    exported: str | None,
    asked: str | None,
) -> None:
    if file is not None:
        (container.config / "server.properties").write_bytes(file.encode())
    assert container.run(*arguments, **variables).settings.get(ADMIN) == exported
    answer = healthy(container, **variables)
    if asked is None:
        assert (answer.returncode, answer.stdout) == (0, "the admin port is off: nobody to ask\n")
    else:
        assert answer.returncode == 1
        assert answer.stderr.startswith(f"no answer at {asked}: ")


def test_without_a_place_to_write_it_down_the_variable_is_asked(container: Container) -> None:
    container.temporary.rmdir()
    started = container.run(**{ADMIN: "127.0.0.1:7"})
    assert (started.code, started.errors) == (0, "")
    answer = healthy(container, **{ADMIN: "127.0.0.1:7"})
    assert answer.stderr.startswith("no answer at 127.0.0.1:7: ")


# With a real broker

Start = Callable[..., str]


@pytest.fixture
def start(container: Container) -> Iterator[Start]:
    """Starts the container's command; its first line on standard output. All end with SIGTERM and 0."""
    started: list[subprocess.Popen[str]] = []
    container.program(f'cd "{ROOT}" && exec "{sys.executable}" -m broker "$@"')

    def run(**variables: str) -> str:
        command, environment = container.command(variables)
        with open(container.root / "log", "ab") as log:
            process = subprocess.Popen(
                command, cwd=container.root, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline() or (container.root / "log").read_text()

    yield run
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, (container.root / "log").read_text()


def test_it_serves_and_is_healthy(container: Container, start: Start) -> None:
    port, admin_port = free_ports(2)
    admin = f"127.0.0.1:{admin_port}"
    before = healthy(container, KAFKA_BARNABAS_ADMIN_LISTENER=admin)
    assert before.returncode == 1
    assert before.stderr.startswith(f"no answer at {admin}: ")
    line = start(
        KAFKA_ADVERTISED_LISTENERS=f"PLAINTEXT://localhost:{port}",
        KAFKA_LOG_DIRS=str(container.data),
        KAFKA_BARNABAS_ADMIN_LISTENER=admin,
    )
    assert f"PLAINTEXT://localhost:{port}" in line
    assert healthy(container, KAFKA_BARNABAS_ADMIN_LISTENER=admin).returncode == 0
    properties = (container.data / "meta.properties").read_text()
    assert f"cluster.id={DEFAULT_CLUSTER_ID}" in properties


def test_a_compose_file_s_single_node(container: Container, start: Start) -> None:
    (port,) = free_ports(1)
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"
    variables = SINGLE_NODE | {
        "KAFKA_LISTENERS": listeners,
        "KAFKA_LOG_DIRS": str(container.data),
        "KAFKA_BARNABAS_ADMIN_LISTENER": "127.0.0.1:0",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "DEBUG",
        "CLUSTER_ID": "bWVhc3VyZW9mYWxsdGhpbg",
    }
    assert f"PLAINTEXT://127.0.0.1:{port}" in start(**variables)
    assert "cluster.id=bWVhc3VyZW9mYWxsdGhpbg" in (container.data / "meta.properties").read_text()


# Beside the genuine image's own program

VARIABLES: Final = {
    "KAFKA_LOG_RETENTION_MS": "7",
    "KAFKA_LISTENER_NAME_A___B_SSL_KEY": "x",
    "KAFKA_PATH__WITH_ONE": "y",
    "KAFKA_A____B": "four",
    "KAFKA_A_____B": "five",
    "KAFKA__LEADING": "q",
    "KAFKA_ESCAPES": r"one\ttwo\\three A",
    "KAFKA_TWO_LINES": "first\nsecond.line=here",
    "KAFKA_BLANKS": "  lead and trail ",
    "KAFKA_NOTHING": "",
    "KAFKA_EQUALS": "a=b=c",
    "KAFKA_Mixed_Case": "Value",
    "KAFKA_KAFKA_TWICE": "3",
    "KAFKA_JMX_PORT": "1",
    "KAFKA_CLUSTER_ID": "a",
    "KAFKA_HOME": "/x",
    "Kafka_low": "no",
    "OTHER": "no",
} | dict.fromkeys(sorted(NOT_SETTINGS), "no setting")


@pytest.mark.java
def test_variables_mean_what_they_mean_to_apache_kafka(tmp_path: Path) -> None:
    """Its wrapper writes a properties file (and then fails to format for want of roles)."""
    for name in ("default", "mounted", "final"):
        (tmp_path / name).mkdir()
    final = tmp_path / "final" / "server.properties"
    final.touch()
    for name in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        (tmp_path / "default" / name).touch()
    folders = [f"--{name}-configs-dir={tmp_path / name}" for name in ("default", "mounted", "final")]
    command = java_command("kafka.docker.KafkaDockerWrapper", "setup", *folders)
    plain = {name: value for name, value in VARIABLES.items() if "LOGLEVEL" not in name}
    plain.pop("KAFKA_LOG4J_LOGGERS")  # of another form, and read for another file
    environment = {"PATH": os.environ["PATH"], "CLUSTER_ID": DEFAULT_CLUSTER_ID} | plain
    subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    theirs = {each.name: each.text for each in read_properties(final.read_text(), "theirs")}
    ours = {each.name: each.text for each in read_environment(VARIABLES)}
    assert len(theirs) >= 15
    assert ours == theirs
