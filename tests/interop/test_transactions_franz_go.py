"""franz-go's transactions: a session that hands records on exactly once, and a producer that is fenced."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.brokers.transactional import transactional_broker
from tests.support.clients.isolation import committed, uncommitted
from tests.support.clients.librdkafka import create_topic, fill
from tests.support.genuine.go_programs import go_program

pytestmark = pytest.mark.slow

TOLD = """\
10 records, committed true
10 records, committed false
10 records, committed true
10 records, committed true
10 records, committed false
10 records, committed true
produce INVALID_PRODUCER_EPOCH
commit PRODUCER_FENCED
"""


@pytest.fixture(scope="module")
def program() -> str:
    return go_program("transactions")


def test_a_session_hands_records_on_exactly_once_and_a_second_one_fences_it(
    program: str, tmp_path: Path
) -> None:
    with transactional_broker(tmp_path / "data") as broker:
        address = broker.bootstrap_servers
        source, sink = create_topic(address, "source"), create_topic(address, "sink")
        fill(address, source, range(40), partition=0)
        done = subprocess.run(
            [program, address, source, sink, "group", "id", "40"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout == TOLD, done.stderr[-3000:]
        values = [str(number) for number in range(40)]
        assert committed(address, sink) == [[*values, "of the second"]]
        twice = [*values[:20], *values[10:], *values[30:]]
        assert uncommitted(address, sink) == [[*twice, "of the first", "of the second"]]
