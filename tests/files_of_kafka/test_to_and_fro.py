"""One directory, used by Apache Kafka and by us in turns: nothing is lost, nobody complains.

Each broker is stopped or killed; the other one opens the directory as it lies there, shows its clients all
that the first one showed, goes on writing, and hands it back. Each leaves a transaction open, with a producer
that lives on: the other one aborts it for the next producer of the same transactional id, and fences the old.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from tests.conftest import AnyBroker
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.brokers.left_files import check_left_files
from tests.support.clients import mixed_load
from tests.support.clients.mixed_load import (
    State,
    check_open_ended,
    check_same,
    look,
    transactions,
    work,
)
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.cleaner.backoff.ms": "300",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "1000",
}
TROUBLE: Final = re.compile(r"\b(WARN|WARNING|ERROR|FATAL|CRITICAL)\b|Exception")
HARMLESS: Final = re.compile(
    r"Performing controller activation"
    r"|Attempting to close NetworkClient that has already been closed"
    r"|disconnected|Connection to node|could not be established"
    r"|storage\.log_disk|appends there go through helper threads"
    r"|Exceptionally slow controller event"
    # Kafka's own race of retention with a topic's cleanup.policy that was altered meanwhile.
    r"|Uncaught exception in scheduled task 'kafka-log-retention'|cannot be resumed since it is not paused"
    # Kafka's controller registers itself before it is active, at times.
    r"|The active controller appears to be node|apiKey=CONTROLLER_REGISTRATION"
    r"|\tat .*(completeExceptionally|handleException|completeWithException)"
    r"|configs that are set but have no effect here|The loop has not come round|barnabas\.watchdog"
)
"""What either says at a start and a stop, on directories of its own too, and on a busy machine."""


class Turn(NamedTuple):
    """What is left of one broker's turn."""

    seen: State
    left_open: Producer
    """With a transaction."""


class Pair(NamedTuple):
    """Two brokers on one directory and one address; never both at a time."""

    kafka: GenuineKafka
    ours: BarnabasProcess
    tools: ToolServer

    def check_files(self) -> None:
        found = check_left_files(self.tools, self.kafka.data, compacted=mixed_load.COMPACTED)
        assert min(found.values()) > 0, f"files of each kind: {found}"
        written = [log for log in self.kafka.data.glob("__transaction_state-*/*.log") if log.stat().st_size]
        assert written, "the log of the transaction coordinator was among them"


@pytest.fixture
def pair(tmp_path: Path, tool_server: ToolServer) -> Iterator[Pair]:
    kafka = GenuineKafka(tmp_path / "data", SETTINGS)
    kafka.features = NO_FEATURES
    kafka.log_file = tmp_path / "kafka.log"
    ours = BarnabasProcess(tmp_path / "data", kafka.properties)
    ours.log_file = tmp_path / "ours.log"
    yield Pair(kafka, ours, tool_server)
    kafka.kill()
    if ours.ready_line:
        ours.kill()


def troubles(log: Path) -> list[str]:
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if TROUBLE.search(line) and not HARMLESS.search(line)]


def console(pair: Pair, broker: AnyBroker, isolation: str) -> int:
    """How many records of the topic with transactions the console consumer reads."""
    read = pair.tools.run(
        "kafka-console-consumer", "--bootstrap-server", broker.bootstrap_servers, "--topic", "ledger",
        "--from-beginning", "--isolation-level", isolation, "--timeout-ms", "15000",
    )  # fmt: skip
    return len(read.lines)


def turn(broker: AnyBroker, before: Turn | None, seed: int, end: str) -> Turn:
    """One broker's turn: it shows what was there, takes more, and ends. What clients saw last."""
    broker.start()
    address = broker.bootstrap_servers
    if before is None:
        mixed_load.make_topics(address)
        mixed_load.alter_configs(address)
    else:
        check_same(before.seen, look(address))
    work(address, seed)
    left_open = transactions(address, seed)
    if before is not None:
        require_fenced(before.left_open)
    after = look(address)
    assert len(after.committed["ledger-1"]) < len(after.uncommitted["ledger-1"])
    if before is not None:
        check_open_ended(before.seen, after)
    (broker.stop if end == "stop" else broker.kill)()
    return Turn(after, left_open)


def require_fenced(producer: Producer) -> None:
    """It has lived through the change of the broker, and its transactional id is another producer's."""
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(60)
    told = refused.value.args[0]
    assert (told.name(), told.fatal()) == ("_FENCED", True)


def test_from_kafka_to_us_and_back(pair: Pair) -> None:
    kafka, ours = pair.kafka, pair.ours
    last = turn(kafka, None, 1, "stop")
    pair.check_files()
    last = turn(ours, last, 2, "kill")
    last = turn(kafka, last, 3, "kill")
    seen = turn(ours, last, 4, "stop").seen
    pair.check_files()
    kafka.start()
    check_same(seen, look(kafka.bootstrap_servers))
    for isolation, records in (("read_uncommitted", seen.uncommitted), ("read_committed", seen.committed)):
        expected = len(records["ledger-0"]) + len(records["ledger-1"])
        assert console(pair, kafka, isolation) == expected
    kafka.stop()
    pair.check_files()
    assert troubles(kafka.log_file) == []
    assert troubles(ours.log_file) == []


def test_from_us_to_kafka_and_back(pair: Pair) -> None:
    kafka, ours = pair.kafka, pair.ours
    last = turn(ours, None, 1, "stop")
    pair.check_files()
    last = turn(kafka, last, 2, "kill")
    last = turn(ours, last, 3, "kill")
    seen = turn(kafka, last, 4, "stop").seen
    pair.check_files()
    ours.start()
    check_same(seen, look(ours.bootstrap_servers))
    for isolation, records in (("read_uncommitted", seen.uncommitted), ("read_committed", seen.committed)):
        expected = len(records["ledger-0"]) + len(records["ledger-1"])
        assert console(pair, ours, isolation) == expected
    ours.stop()
    pair.check_files()
    assert troubles(kafka.log_file) == []
    assert troubles(ours.log_file) == []
