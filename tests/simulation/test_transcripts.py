"""The transcripts: each prints what it says, and together they show every rule of the index.

BARNABAS_REWRITE_TRANSCRIPTS=1 writes them anew instead; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.by_hand import QuorumByHand, quorum_of
from tests.simulation.rules_index import RULES
from tests.simulation.transcript_file import Command, check_rules, compare_or_rewrite, play, read_transcript

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*.txt"))


def begin(command: Command) -> QuorumByHand:
    quorum = quorum_of(command)
    quorum.finish_syncs()
    quorum.told.take()
    return quorum


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_happens_as_it_is_written(path: Path) -> None:
    compare_or_rewrite(path, "quorum", begin)


def test_a_transcript_is_the_same_each_time() -> None:
    transcript = read_transcript(FILES[0])
    assert play(transcript, "quorum", begin) == play(transcript, "quorum", begin)


def test_every_rule_is_shown_somewhere() -> None:
    check_rules(FILES, RULES)


def test_every_transcript_shows_a_rule_and_prints_something() -> None:
    for path in FILES:
        transcript = read_transcript(path)
        assert transcript.rules, path.name
        assert sum(len(command.expected) for command in transcript.commands) > 5, path.name
