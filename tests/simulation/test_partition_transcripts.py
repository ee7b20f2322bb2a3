"""The transcripts of a partition at its leader: each prints what it says; together they show every rule.

BARNABAS_REWRITE_TRANSCRIPTS=1 writes them anew instead; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.partition_by_hand import PartitionByHand
from tests.simulation.partition_rules import PARTITION_RULES
from tests.simulation.transcript_file import check_rules, compare_or_rewrite, read_transcript

FOLDER = Path(__file__).parent / "partitions"
FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_happens_as_it_is_written(path: Path) -> None:
    compare_or_rewrite(path, "partition", PartitionByHand)


def test_every_rule_is_shown_somewhere() -> None:
    check_rules(FILES, PARTITION_RULES)


def test_every_transcript_prints_something() -> None:
    for path in FILES:
        assert sum(len(command.expected) for command in read_transcript(path).commands) > 5, path.name
