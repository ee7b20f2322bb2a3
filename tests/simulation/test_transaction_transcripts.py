"""The transcripts of transactional ids: our coordinator prints what they say, and so does Apache Kafka's.

BARNABAS_REWRITE_TRANSCRIPTS=1 writes them anew instead; review the diff.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from broker.coordinator.transaction.end_transaction import VERDICTS_1, VERDICTS_2
from tests.simulation.transaction_by_hand import GenuineCoordinator, TransactionsByHand
from tests.simulation.transcript_file import Transcript, read_transcript, run_transcript

FOLDER = Path(__file__).parent / "transactions"
FILES = sorted(FOLDER.glob("*.txt"))
KAFKA_FAILS = 2
"""So many questions, all of `where_kafka_fails.txt`, are answered better here."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_happens_as_it_is_written(path: Path) -> None:
    played = run_transcript(read_transcript(path), TransactionsByHand().run_command)
    if os.environ.get("BARNABAS_REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == path.read_text()


@pytest.mark.java
def test_kafkas_own_coordinator_does_the_same() -> None:
    """All transcripts as one, so that one JVM plays them."""
    whole, failing = Transcript(FOLDER, [], []), 0
    for path in FILES:
        for command in read_transcript(path).commands:
            command.line_number = len(whole.commands)
            whole.commands.append(command)
    kafka = GenuineCoordinator(whole)
    for command in whole.commands:
        answered = kafka.run_command(command)
        if answered[:1] == ["UNKNOWN_SERVER_ERROR"]:
            failing += 1
        else:
            assert (command.line, answered) == (command.line, command.expected)
    assert failing == KAFKA_FAILS


def _shown(path: Path, raises_epoch: bool) -> set[tuple[str, ...]]:
    """State, what is asked, and the epoch's place, of every EndTxn right after a `given`."""
    shown: set[tuple[str, ...]] = set()
    commands = read_transcript(path).commands
    for given, command in pairwise(commands):
        if given.verb == "given" and command.verb == "end":
            below = int(given.options["producer"].split("/")[1]) - int(
                command.options["producer"].split("/")[1]
            )
            epoch = {0: "PRESENT", 1: "EARLIER"}.get(below, "OTHER")
            asked = command.words[1].upper()
            state = given.options["state"]
            shown.add((state, asked, epoch) if raises_epoch else (state, asked))
    return shown


def test_every_line_of_the_tables_of_end_txn_is_shown() -> None:
    lines_1 = {(state.label, asked.name) for state, asked in VERDICTS_1}
    assert lines_1 <= _shown(FOLDER / "end_transaction_1.txt", raises_epoch=False)
    lines_2 = {(state.label, asked.name, epoch.name) for state, asked, epoch in VERDICTS_2}
    assert lines_2 <= _shown(FOLDER / "end_transaction_2.txt", raises_epoch=True)


ONE_ID_TWO_PROTOCOLS = """\
coordinator version=2
----

given t state=CompleteAbort producer=1000/5 previous=1000 client=0 changed=5
----
t CompleteAbort 1000/5, previous id 1000, changed 5

end t abort producer=1000/4 client=2
----
PRODUCER_FENCED
t CompleteAbort 1000/5, previous id 1000, changed 5
"""


def test_nobody_gets_the_epoch_of_a_producer_of_the_other_protocol(tmp_path: Path) -> None:
    """Apache Kafka answers 1000/5, and two producers write with one epoch."""
    path = tmp_path / "one_id.txt"
    path.write_text(ONE_ID_TWO_PROTOCOLS)
    played = run_transcript(read_transcript(path), TransactionsByHand().run_command)
    assert played == ONE_ID_TWO_PROTOCOLS
