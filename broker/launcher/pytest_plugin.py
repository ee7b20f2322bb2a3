"""Fixtures for tests that need a Kafka broker.

    def test_flights(barnabas_broker, barnabas_topic):
        producer = Producer({"bootstrap.servers": barnabas_broker.bootstrap_servers})
        producer.produce(barnabas_topic, b"Liftoff")

``barnabas_broker`` is one `Broker` for the session (with pytest-xdist: one for each worker); it starts with
the first test that asks for it, and is gone at the end. ``barnabas_topic`` is the name of a topic made for
this test alone, after whose name it is called.

A test that fails shows what the broker logged meanwhile, as pytest shows captured output.

    --barnabas-log=failed|always|never   for which tests the broker's log is shown (default: failed)
    barnabas_log = failed                the same in pytest.ini or pyproject.toml
    barnabas_config = num.partitions=3   the broker's properties, one in each line
    barnabas_port = 9092                 where it listens; 0, the default, takes a free port. Worker gw1 of
                                         pytest-xdist takes the next one, and so on
    barnabas_data = .kafka               a folder that keeps its data, from the rootdir; none by default. The
                                         workers of pytest-xdist have each a folder in it
    barnabas_topic_partitions = 1        of a topic of ``barnabas_topic``
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from .embedded import Broker

SHOWN: Final = ("failed", "always", "never")
TOPIC_STEM_LENGTH: Final = 100
LOG_SECTION_BYTES: Final = 100_000
"""The number of bytes at the end of what was logged during a test that are shown."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("barnabas", "a Kafka broker for tests")
    group.addoption(
        "--barnabas-log", choices=SHOWN, default=None, help="for which tests the broker's log is shown"
    )
    parser.addini("barnabas_log", "as --barnabas-log: failed, always or never", default="failed")
    parser.addini("barnabas_config", "properties of the broker, name=value in each line", type="linelist")
    parser.addini("barnabas_port", "where the broker listens; 0 takes a free port", default="0")
    parser.addini("barnabas_data", "a folder that keeps the broker's data", default="")
    parser.addini("barnabas_topic_partitions", "partitions of a topic of barnabas_topic", default="1")


def pytest_configure(config: pytest.Config) -> None:
    session = config.stash[SESSION] = BarnabasSession(config)
    config.pluginmanager.register(session, "barnabas-session")


class BarnabasSession:
    """The broker of a test session, and how far its log was shown."""

    def __init__(self, config: pytest.Config) -> None:
        self.broker: Broker | None = None
        self._shown = config.getoption("--barnabas-log") or str(config.getini("barnabas_log"))
        if self._shown not in SHOWN:
            raise pytest.UsageError(f"barnabas_log must be one of {', '.join(SHOWN)}, not {self._shown!r}")
        self._seen_bytes = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Notes the size of the log before a test, because what was logged earlier belongs to other tests."""
        self._seen_bytes = self._log_size()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        wanted = self._shown == "always" or (self._shown == "failed" and report.failed)
        if wanted and "barnabas_broker" in getattr(item, "fixturenames", ()):
            logged = self._logged()
            if logged:
                report.sections.append((f"Barnabas log {report.when}", logged))
            self._seen_bytes = self._log_size()
        return report

    def _log_size(self) -> int:
        if self.broker is None or not self.broker.log_file.exists():
            return 0
        return self.broker.log_file.stat().st_size

    def _logged(self) -> str:
        size = self._log_size()
        if self.broker is None or size <= self._seen_bytes:
            return ""
        with open(self.broker.log_file, "rb") as log:
            log.seek(max(self._seen_bytes, size - LOG_SECTION_BYTES))
            return log.read().decode(errors="replace")


SESSION: Final = pytest.StashKey[BarnabasSession]()


@pytest.fixture(scope="session")
def barnabas_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A Kafka-compatible broker for the session: ``barnabas_broker.bootstrap_servers``."""
    from .embedded import Broker

    config = request.config
    worker = str(getattr(config, "workerinput", {}).get("workerid", ""))
    number = int(re.sub(r"\D", "", worker) or 0)
    port = int(config.getini("barnabas_port"))
    data = config.getini("barnabas_data")
    session: BarnabasSession = config.stash[SESSION]
    broker = Broker(
        dict(_property(line) for line in config.getini("barnabas_config")),
        port=port + number if port else 0,
        data=config.rootpath / data / worker if data else None,
    )
    with broker:
        session.broker = broker
        yield broker
        session.broker = None


def _property(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        raise pytest.UsageError(f"barnabas_config: expected name=value, not {line!r}")
    return name.strip(), value.strip()


@pytest.fixture
def barnabas_topic(request: pytest.FixtureRequest, barnabas_broker: Broker) -> str:
    """The name of a new topic that is made for this test alone."""
    stem = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name)[:TOPIC_STEM_LENGTH].strip("-")
    partitions = int(request.config.getini("barnabas_topic_partitions"))
    return barnabas_broker.create_topic(f"{stem or 'test'}-{uuid.uuid4().hex[:8]}", partitions)
