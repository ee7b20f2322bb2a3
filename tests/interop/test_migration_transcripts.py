"""Groups change their protocol with Apache Kafka as the transcripts tell it, word for word; and with us."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.simulation.transcript_file import read_transcript, run_transcript
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, until
from tests.support.clients.members import described
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.rigs.migration_player import GROUP, MigrationPlayer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

FOLDER: Final = Path(__file__).parents[1] / "unit/broker/coordinator/consumer/transcripts"
TRANSCRIPTS: Final = sorted(FOLDER.glob("migration*.txt"))
SETTINGS: Final = {"group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1"}


class WireCoordinator:
    """A broker in a process of its own; each request has a connection of its own."""

    def __init__(self, address: str, threads: ThreadPoolExecutor) -> None:
        self._address = address
        self._threads = threads

    def make_topic(self, name: str, partitions: int) -> None:
        create_topic(self._address, name, partitions)
        until(self._is_ready, "there is a coordinator")

    def _is_ready(self) -> bool:
        with WireClient(self._address) as client:
            client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
        return described(self._address, GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    def send(self, request: Message, version: int) -> Future[Message]:
        def asked() -> Message:
            with WireClient(self._address) as client:
                return client.ask(request, version)

        return self._threads.submit(asked)


@pytest.fixture(params=["barnabas", "kafka"])
def coordinator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WireCoordinator]:
    genuine = GenuineKafka(tmp_path / "data", SETTINGS)
    ours = BarnabasProcess(tmp_path / "data", genuine.properties)
    with ours if request.param == "barnabas" else genuine as broker, ThreadPoolExecutor(4) as threads:
        yield WireCoordinator(broker.bootstrap_servers, threads)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(coordinator: WireCoordinator, path: Path) -> None:
    assert run_transcript(read_transcript(path), MigrationPlayer(coordinator).run) == path.read_text()
