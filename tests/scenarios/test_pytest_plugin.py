"""The fixtures for tests: in this very session, and in a project of somebody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from broker.launcher.embedded import Broker
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT
from tests.support.clients.librdkafka import fill

pytestmark = barnabas_only

DOOR: Final = ROOT / "broker" / "launcher" / "door"

SUITE: Final = """
import os
import pytest

def test_one(barnabas_broker, barnabas_topic):
    assert barnabas_topic.startswith("test_one-")
    with open("seen", "a") as seen:
        seen.write(f"{barnabas_broker.bootstrap_servers} {barnabas_topic}\\n")

@pytest.mark.parametrize("text", ["a/b c", "größe"])
def test_two(barnabas_topic, barnabas_broker, text):
    with open("seen", "a") as seen:
        seen.write(f"{barnabas_broker.bootstrap_servers} {barnabas_topic}\\n")
"""


def run(folder: Path, suite: str, *arguments: str, settings: str = "") -> tuple[int, str]:
    """Exit code and output of pytest in a stranger's folder."""
    (folder / "config.py").write_text("raise RuntimeError('the stranger has his own config.py')\n")
    (folder / "test_suite.py").write_text(suite)
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "barnabas.pytest_plugin", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(DOOR), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def seen(folder: Path) -> list[tuple[str, str]]:
    """(bootstrap servers, topic) of each test."""
    return [(*line.split(),) for line in (folder / "seen").read_text().splitlines()]  # type: ignore[misc]


def test_a_topic_for_this_test(barnabas_broker: Broker, barnabas_topic: str) -> None:
    assert re.fullmatch(r"test_a_topic_for_this_test-[0-9a-f]{8}", barnabas_topic)
    fill(barnabas_broker.bootstrap_servers, barnabas_topic, ["Liftoff"], partition=0)


def test_another_topic_of_the_same_broker(barnabas_broker: Broker, barnabas_topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": barnabas_broker.bootstrap_servers})
    topics = admin.list_topics(timeout=60).topics
    assert barnabas_topic in topics
    assert "test_another_topic" in barnabas_topic


def test_one_broker_for_a_session_and_one_topic_for_a_test(tmp_path: Path) -> None:
    code, output = run(tmp_path, SUITE, "-q")
    assert code == 0, output
    brokers, topics = zip(*seen(tmp_path), strict=True)
    assert len(set(brokers)) == 1
    assert len(set(topics)) == 3
    assert all(re.fullmatch(r"test_(one|two-a-b-c|two-gr-.*)-[0-9a-f]{8}", topic) for topic in topics), topics
    assert not list(tmp_path.glob("barnabas-*")), "the broker's folder was left behind"


def test_a_broker_for_each_worker(tmp_path: Path) -> None:
    code, output = run(tmp_path, SUITE, "-q", "-n", "2", "--dist", "each", settings="barnabas_data = kafka\n")
    assert code == 0, output
    assert len({broker for broker, _ in seen(tmp_path)}) == 2
    assert {path.name for path in (tmp_path / "kafka").iterdir()} == {"gw0", "gw1"}
    assert list((tmp_path / "kafka" / "gw0").glob("test_one-*-0"))


def test_settings_and_data(tmp_path: Path) -> None:
    suite = """
def test_partitions(barnabas_broker, barnabas_topic):
    found = {path.name for path in barnabas_broker.data_directory.iterdir()}
    assert {f"{barnabas_topic}-{n}" for n in range(4)} <= found
    barnabas_broker.create_topic("defaults", -1)
    found = {path.name for path in barnabas_broker.data_directory.iterdir()}
    assert {"defaults-0", "defaults-1", "defaults-2"} <= found
"""
    settings = "barnabas_topic_partitions = 4\nbarnabas_config =\n    num.partitions = 3\n"
    code, output = run(tmp_path, suite, settings=settings)
    assert code == 0, output


LOUD: Final = """
import os
import socket

def test_before(barnabas_broker):
    with socket.create_connection(("127.0.0.1", barnabas_broker.port)) as client:
        client.sendall(b"\\x7f\\xff\\xff\\xff")
        assert client.recv(1) == b""
    assert not os.environ.get("FIRST_FAILS")

def test_after(barnabas_broker):
    assert not "this one fails, and the broker has logged nothing meanwhile"
"""
NONSENSE: Final = "a frame of 2147483647 bytes"


@pytest.mark.parametrize(
    ("option", "fails", "shown"),
    [("failed", True, True), ("failed", False, False), ("never", True, False), ("always", False, True)],
)
def test_a_test_shows_what_the_broker_logged_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, fails: bool, shown: bool
) -> None:
    monkeypatch.setenv("FIRST_FAILS", "yes" if fails else "")
    other = "never" if option == "always" else "always"
    code, output = run(
        tmp_path, LOUD, "-rA", f"--barnabas-log={option}", settings=f"barnabas_log = {other}\n"
    )
    assert code == 1
    parts = re.split(r"^_+ test_(\w+) _+$", output, flags=re.MULTILINE)
    told = {name: text.count(NONSENSE) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    assert told.get("before", 0) == shown, output
    assert told["after"] == 0, "a test shows what belongs to it"


def test_a_broker_that_does_not_start(tmp_path: Path) -> None:
    code, output = run(tmp_path, SUITE, settings="barnabas_config =\n    num.partitions=many\n")
    assert code == 1
    assert "BrokerFailed: the broker did not start (exit code 1)" in output
    assert "num.partitions=many" in output


def test_settings_that_are_wrong(tmp_path: Path) -> None:
    code, output = run(tmp_path, SUITE, settings="barnabas_log = sometimes\n")
    assert code == 4
    assert "barnabas_log must be one of failed, always, never, not 'sometimes'" in output
