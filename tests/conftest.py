"""Brokers for tests: ours, as a user starts it, or Apache Kafka itself; and how Hypothesis draws examples.

``BARNABAS_TEST_AGAINST=kafka`` runs the same scenarios against Apache Kafka:
that is how we know that a scenario asks for what Kafka does and not for what we do.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.genuine.tool_server import ToolServer

pytest_plugins = ("broker.launcher.pytest_plugin",)
"""`barnabas_broker` and `barnabas_topic`, as users of the wheel have them."""

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("hunt", deadline=None, print_blob=True)
settings.load_profile("repeatable")
"""Each run of the tests draws the same examples, however busy the machine is: a test that failed fails again.
`.ci/run hunt` draws others (`--hypothesis-profile=hunt`); see `tests/__init__.py`. A test's own `@settings`
are made after this and take from the profile what they do not name."""

for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    # A shell that runs `make test &` in a script has it ignore Ctrl-C, `nohup` has it ignore SIGHUP, and
    # programs inherit that: those which tests end by such a signal would go on for ever.
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

AnyBroker = BarnabasProcess | GenuineKafka

LONG_FILES: Final = (
    "cluster",
    "files_of_kafka",
    "crash",
    "quorum",
    "side_by_side",
    "spark",
    "scenarios",
    "simulation",
)
"""Folders whose files take minutes, most of them with waiting."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the files, they begin with the long ones: a file that began last would
    have one process work and the others wait for it."""
    if hasattr(config, "workerinput"):
        rank = {folder: place for place, folder in enumerate(LONG_FILES)}
        top = Path(__file__).parent
        items.sort(key=lambda item: rank.get(item.path.relative_to(top).parts[0], len(rank)))


def broker_under_test(data: Path, overrides: dict[str, str] | None = None) -> AnyBroker:
    """Barnabas, or Apache Kafka where the tests run against it; not started."""
    if os.environ.get("BARNABAS_TEST_AGAINST") == "kafka":
        genuine = GenuineKafka(data, overrides)
        genuine.features = NO_FEATURES
        return genuine
    return BarnabasProcess(data, overrides)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """One running broker for the tests of a module, with the defaults of one node."""
    with broker_under_test(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[Callable[..., AnyBroker]]:
    """A factory of brokers with a test's own overrides; all are stopped at the end."""
    made: list[AnyBroker] = []

    def make(**overrides: str) -> AnyBroker:
        given = {name.replace("__", ".").replace("_", "."): value for name, value in overrides.items()}
        made.append(broker_under_test(tmp_path / f"data{len(made)}", given))
        return made[-1].start()

    yield make
    for each in made:
        each.stop()


@pytest.fixture(scope="session")
def tool_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """A JVM that runs the command line tools of Apache Kafka one after the other."""
    with ToolServer(tmp_path_factory.mktemp("tools")) as server:
        yield server


@pytest.fixture(autouse=True)
def _java_where_it_is_needed(request: pytest.FixtureRequest) -> None:
    """Tests marked ``java`` skip with one line, or fail on CI, where Java is missing."""
    if request.node.get_closest_marker("java"):
        kafka_jars()
