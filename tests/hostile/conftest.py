"""The brokers under attack, and what is asked after each: is everybody else still served?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.brokers.against import AGAINST_KAFKA
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.raw_connection import serves_others
from tests.support.genuine.genuine_kafka import GenuineKafka

AnyBroker = BarnabasProcess | GenuineKafka


@pytest.fixture
def victim(broker: AnyBroker) -> Iterator[AnyBroker]:
    """A module's broker; whatever the test did to it, it must serve the next client."""
    before = broker.pid
    yield broker
    serves_others(broker.bootstrap_servers)
    assert broker.pid == before


@pytest.fixture(params=["broker", "controller"])
def listener(request: pytest.FixtureRequest, victim: AnyBroker) -> Iterator[str]:
    """The address of each listener of the victim in turn."""
    address = victim.bootstrap_servers if request.param == "broker" else victim.bootstrap_controllers
    yield address
    serves_others(address)


@pytest.fixture(scope="module")
def make_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., AnyBroker]]:
    """Brokers with a module's own settings, started, stopped at the module's end."""
    made: list[AnyBroker] = []

    def make(overrides: dict[str, str]) -> AnyBroker:
        data = tmp_path_factory.mktemp("broker") / "data"
        made.append(GenuineKafka(data, overrides) if AGAINST_KAFKA else BarnabasProcess(data, overrides))
        return made[-1].start()

    yield make
    for each in made:
        each.stop()
