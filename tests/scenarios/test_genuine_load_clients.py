"""Genuine clients as the benchmark drives them: what they count is what the broker's logs hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.performance.contenders import Contender
from tests.performance.genuine_programs import CLIENTS, Client, GenuineProgram
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess

pytestmark = [barnabas_only, pytest.mark.slow]

PARTITIONS = 3
CLIENTS_AT_ONCE = 2
ABOVE_THE_BOUND_BYTES = 2_000_000
"""A record that no broker takes by default."""


@pytest.fixture(scope="module")
def contender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contender]:
    running = Contender("Barnabas", BarnabasProcess(tmp_path_factory.mktemp("broker") / "data"))
    yield running
    running.stop()


@pytest.fixture(
    params=[
        pytest.param(each, id=each.title.split()[0], marks=[pytest.mark.java] * each.title.startswith("Java"))
        for each in CLIENTS
    ]
)
def program(request: pytest.FixtureRequest, contender: Contender, tmp_path: Path) -> Iterator[GenuineProgram]:
    client: Client = request.param
    running = GenuineProgram(client, tmp_path, contender)
    yield running
    running.stop()


def test_what_is_sent_is_in_the_log_and_is_read_once(contender: Contender, program: GenuineProgram) -> None:
    topic = contender.make_topic(PARTITIONS)
    sent = program.produce(topic.name, CLIENTS_AT_ONCE, 100, 0.3)
    in_log = contender.count_records(topic)
    assert 0 < sent.records < in_log  # those that were sent before and after are not counted
    assert 0.3 <= sent.seconds < 30
    for consumers in (1, CLIENTS_AT_ONCE):
        read = program.consume(topic.name, consumers, PARTITIONS, in_log)
        assert read.records == in_log
        assert min(read.broker_seconds, read.client_seconds) > 0
    assert contender.count_records(topic) == in_log


def test_a_client_that_fails_ends_the_run(contender: Contender, program: GenuineProgram) -> None:
    topic = contender.make_topic(1)
    with pytest.raises(RuntimeError, match=r"(?is)did not do its job .*too.?large"):
        program.produce(topic.name, 1, ABOVE_THE_BOUND_BYTES, 0.3)
