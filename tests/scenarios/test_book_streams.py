"""The book's Streams application (4.1.2.2): a filter from one topic of keyed records into another.

Same book as in ``test_book_first_steps``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.book import FLIGHT, KEYED, WITH_KEY, by_key, consume, create, ends, produce
from tests.support.genuine.java_program import JavaProgram
from tests.support.genuine.kafka_jars import java_command
from tests.support.genuine.tool_server import Tool, compile_java

pytestmark = pytest.mark.java

INPUT: Final = "flugdaten_mit_keys"
OUTPUT: Final = "erfolgreiche_fluege"
ROCKETS: Final = [f"rakete{number}" for number in range(1, 9)]
"""Eight keys: whatever the hash does, both partitions get some."""


def test_only_successful_flights_pass(broker: AnyBroker, tool: Tool, tmp_path: Path) -> None:
    create(tool, INPUT, 2)
    create(tool, OUTPUT, 2)
    produce(tool, INPUT, [f"{rocket}:{line}" for rocket in ROCKETS[:4] for line in FLIGHT], *KEYED)
    command = java_command("StreamsFilter", broker.bootstrap_servers, "filter", str(tmp_path / "state"))
    command[command.index("-cp") + 1] = compile_java("StreamsFilter", tmp_path)
    application = JavaProgram(command, tmp_path / "application.log").begin()
    try:
        application.await_line("RUNNING")
        produce(tool, INPUT, [f"{rocket}:{line}" for rocket in ROCKETS[4:] for line in FLIGHT], *KEYED)
        # A flight ends with its landing: when all have landed, all their other lines were read before.
        count = ("--max-messages", str(len(ROCKETS)))
        landed = consume(tool, OUTPUT, "--from-beginning", *WITH_KEY, *count, seconds=60).lines
        application.leave("CLOSED")
    finally:
        application.kill()
    assert by_key(landed) == {rocket: ["Landung erfolgreich"] for rocket in ROCKETS}
    written = [int(line.rpartition(":")[2]) for line in ends(tool, OUTPUT)]
    assert sum(written) == len(ROCKETS), "and nothing else was written"
    assert all(written), "each partition by itself"
