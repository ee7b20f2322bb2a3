"""kafka-python's own integration tests, as its source distribution holds them, against our broker.

``BARNABAS_TEST_AGAINST=kafka`` runs them against Apache Kafka: the measure. What does not pass is named in
kafka_python_own.tsv with its reason; an entry that passes must go.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.support.brokers.against import AGAINST_KAFKA
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.fetched import fetch_with, fetched
from tests.support.genuine.genuine_kafka import GenuineKafka

pytestmark = pytest.mark.timeout(900)

VERSION: Final = importlib.metadata.version("kafka-python")
NAMED: Final = Path(__file__).with_name("kafka_python_own.tsv")
COUNT: Final = 67
TOLD_OF_A_LOG: Final = 12_000
"""Characters from either end of what a client has logged in a test that fails."""
SETTINGS: Final = {"node.id": "0", "num.partitions": "4", "group.min.session.timeout.ms": "1000"}
"""What kafka-python's own broker templates say, as far as its tests rely on it."""
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SERVICE: Final = '''
"""The sdist lacks this module of its tests: here a broker is given from outside, and none is started."""

class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def stop(self):
        pass

class SpawnedService:
    pass
'''


class Outcome(NamedTuple):
    passed: bool
    told: str


def fetch(folder: Path) -> None:
    name = f"kafka-python=={VERSION}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    fetch_with([*pip, "--no-binary", "kafka-python", name], folder)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    (extracted,) = folder.glob("*/test")
    extracted.rename(folder / "test")
    (folder / "test/__init__.py").touch()
    (folder / "test/service.py").write_text(SERVICE)


def ends_of(log: str) -> str:
    """What a client that did not get its records has asked for in the beginning and in the end."""
    return log if len(log) <= 2 * TOLD_OF_A_LOG else f"{log[:TOLD_OF_A_LOG]}\n[...]\n{log[-TOLD_OF_A_LOG:]}"


@pytest.fixture(scope="module")
def given_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("own") / "data"
    genuine = GenuineKafka(data, SETTINGS | AUTHORIZER)
    ours = BarnabasProcess(data, genuine.properties)
    with genuine if AGAINST_KAFKA else ours as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def outcomes(given_broker: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    sources = fetched(f"kafka-python-{VERSION}-tests", fetch)
    report = tmp_path_factory.mktemp("report") / "own.xml"
    environment = os.environ | {
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_URI": f"kafka://{given_broker}",
        "KAFKA_ROOT": str(sources),
        "PYTHONPATH": str(sources),
    }
    quiet = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--log-level=DEBUG",
        "-o",
        "junit_logging=log",
        "-o",
        "junit_log_passing_tests=false",
        "-p",
        "no:warnings",
        "--timeout=120",
        "-o",
        "addopts=",
    ]
    subprocess.run(
        [sys.executable, "-m", "pytest", "test/integration", *quiet, f"--junitxml={report}"],
        cwd=sources, env=environment, capture_output=True, timeout=840, check=False,
    )  # fmt: skip
    found = {}
    for case in ET.parse(report).iter("testcase"):
        *_, module = case.attrib["classname"].partition("test.integration.")
        problems = [each for each in case if each.tag in {"failure", "error", "skipped"}]
        told = "\n".join(
            f"{each.tag}: {each.get('message')}\n{(each.text or '')[-1500:]}" for each in problems
        )
        told += "".join(ends_of(each.text or "") for each in case if each.tag.startswith("system-"))
        name = (
            f"{module.replace('.', '.py::', 1) if '.' in module else module + '.py'}::{case.attrib['name']}"
        )
        found[name] = Outcome(not problems, told)
    return found


def named() -> dict[str, tuple[str, str]]:
    lines = [line for line in NAMED.read_text().splitlines() if not line.startswith("#")]
    return {name: (kind, reason) for kind, name, reason in (line.split("\t") for line in lines)}


def expected_to_pass(name: str) -> bool:
    kind, _ = named().get(name, ("", ""))
    return kind != "run" and (AGAINST_KAFKA or kind != "later")


def test_all_pass_but_those_that_are_named(outcomes: dict[str, Outcome]) -> None:
    failed = {
        name: outcome for name, outcome in outcomes.items() if not outcome.passed and expected_to_pass(name)
    }
    assert not failed, "\n".join(f"{name}\n{each.told}" for name, each in failed.items())


def test_those_that_are_named_do_not_pass(outcomes: dict[str, Outcome]) -> None:
    assert set(named()) <= set(outcomes), "named, but not there"
    passed = [name for name in named() if outcomes[name].passed and not expected_to_pass(name)]
    assert not passed, f"these pass now and may leave {NAMED.name}: {passed}"


def test_the_counts(outcomes: dict[str, Outcome]) -> None:
    kinds = Counter(named().get(name, ("passed", ""))[0] for name in outcomes)
    print(f"kafka-python {VERSION}: {dict(kinds)}")
    assert sum(kinds.values()) == COUNT
    assert kinds == {"passed": 55, "run": 12}
