"""The transcripts: each prints what it says, and together they show every rule of the index.

BARNABAS_REWRITE_TRANSCRIPTS=1 writes them anew instead; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.by_hand import QuorumByHand, quorum_of
from tests.simulation.rules_index import RULES
from tests.simulation.transcript_file import Command, Transcript, read_transcript, run_transcript

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*.txt"))


class _Stage:
    """Where a transcript is played; `quorum` sets a new scene."""

    def __init__(self) -> None:
        self._quorum: QuorumByHand | None = None

    def __call__(self, command: Command) -> list[str]:
        if command.verb == "quorum":
            self._quorum = quorum_of(command)
            self._quorum.finish_syncs()
            self._quorum.told.take()
            return []
        assert self._quorum is not None, f"line {command.line_number}: first comes a quorum"
        return self._quorum.run_command(command)


def play(transcript: Transcript) -> str:
    return run_transcript(transcript, _Stage())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_happens_as_it_is_written(path: Path) -> None:
    transcript = read_transcript(path)
    played = play(transcript)
    if os.environ.get("BARNABAS_REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == path.read_text()


def test_a_transcript_is_the_same_each_time() -> None:
    transcript = read_transcript(FILES[0])
    assert play(transcript) == play(transcript)


def test_every_rule_is_shown_somewhere() -> None:
    """And no file speaks of a rule that the index does not have."""
    shown = {rule for path in FILES for rule in read_transcript(path).rules}
    assert sorted(set(RULES) - shown) == [], "rules without a transcript"
    assert sorted(shown - set(RULES)) == [], "transcripts of unknown rules"


def test_every_transcript_shows_a_rule_and_prints_something() -> None:
    for path in FILES:
        transcript = read_transcript(path)
        assert transcript.rules, path.name
        assert sum(len(command.expected) for command in transcript.commands) > 5, path.name
