"""A third of many genuine consumers is replaced every second: nobody has what is another one's, and when it
is over everybody has a share. The large version is `tests.support.clients.replaced_consumers`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers.against import AGAINST_KAFKA
from tests.support.clients.ownership import (
    BORN,
    CLOSES,
    ENDS,
    GIVES,
    HAS,
    LOST,
    Word,
    judged,
    stable_since_ns,
    word,
)
from tests.support.clients.replaced_consumers import churn, new_broker

REPLACED_A_SECOND = 8


@pytest.mark.timeout(240)
def test_no_partition_is_owned_twice(tmp_path: Path) -> None:
    with new_broker("kafka" if AGAINST_KAFKA else "barnabas", tmp_path) as broker:
        outcome = churn(
            broker.bootstrap_servers, consumers=24, processes=2, seconds=6, handed=REPLACED_A_SECOND
        )
    verdict = outcome.verdict
    assert verdict.violations == []
    assert outcome.to_stable_seconds is not None, "not everybody has a share"
    assert verdict.replaced >= 2 * REPLACED_A_SECOND
    assert verdict.handed > REPLACED_A_SECOND


def test_the_judge_sees_who_has_what_is_anothers() -> None:
    words = [
        Word(1, HAS, "g", "a", (0, 1)),
        Word(2, GIVES, "g", "a", (0,)),
        Word(2, HAS, "g", "b", (0,)),
        Word(3, HAS, "other", "b", (1,)),
        Word(4, LOST, "g", "a", (1,)),
        Word(5, ENDS, "g", "a"),
    ]
    assert judged(reversed(words)) == ([], 1, 1, 1)
    assert judged([*words, Word(3, HAS, "g", "b", (1,))]).violations == ["3: g-1 of b is a's"]
    assert [word(each.line()) for each in words] == words


def test_rest_is_an_even_share_for_all_who_live() -> None:
    words = [Word(1, BORN, "g", "a"), Word(2, BORN, "g", "b"), Word(3, HAS, "g", "a", (0, 1, 2))]
    assert stable_since_ns(words, {"g": 3}) is None
    shared = [*words, Word(4, GIVES, "g", "a", (1,)), Word(5, HAS, "g", "b", (1,))]
    assert stable_since_ns(shared, {"g": 3}) == 5
    assert stable_since_ns(shared, {"g": 4}) is None
    assert stable_since_ns([*shared, Word(6, CLOSES, "g", "b")], {"g": 3}) is None
    assert stable_since_ns([*words, Word(6, CLOSES, "g", "b")], {"g": 3}) == 6
