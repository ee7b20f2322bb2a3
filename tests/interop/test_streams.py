"""Kafka Streams with `exactly_once_v2`: state stores, changelogs and repartition topics through kill -9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import AnyBroker
from tests.support.brokers.streams_under_fire import APPLICATION, BOTH, BROKER, SMALL, StreamsFire
from tests.support.clients.streams_work import COUNTS, PAID, Determined, Record

COUNTED: Final = [Record(COUNTS, 0, "word1.0", str(number), 10 * number) for number in (1, 2, 3)]
JOINED: Final = [Record(PAID, 0, "user1", f"user1:order{number} payment7", 70) for number in (1, 2)]
OUTPUT: Final = [*COUNTED, *JOINED]


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_output_is_that_of_an_undisturbed_run(
    new_broker: Callable[..., AnyBroker], tmp_path: Path
) -> None:
    broker = new_broker(**{name.replace(".", "_"): value for name, value in SMALL.items()})
    outcome = StreamsFire(broker, tmp_path, 16).burn([APPLICATION, BROKER, BOTH])
    print(outcome.line)
    assert outcome.aborted > 0, "no kill has met an open transaction"


def test_only_the_order_of_pairs_is_free() -> None:
    assert Determined.of(OUTPUT).difference(Determined.of([*JOINED[::-1], *COUNTED])) == ""


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (OUTPUT[:-1], "paid of user1"),
        ([*OUTPUT, OUTPUT[-1]], "paid of user1"),
        ([*OUTPUT, OUTPUT[2]], "counts of word1.0"),
        (OUTPUT[1:], "counts of word1.0"),
        ([OUTPUT[1], OUTPUT[0], *OUTPUT[2:]], "counts of word1.0: 3 records and 3 records, at 0: 2 and 1"),
        ([OUTPUT[0]._replace(timestamp_ms=11), *OUTPUT[1:]], "times of word1.0"),
        ([*OUTPUT[:2], OUTPUT[2]._replace(timestamp_ms=31), *JOINED], "last of word1.0"),
    ],
)
def test_what_differs_is_told(output: list[Record], told: str) -> None:
    assert told in Determined.of(output).difference(Determined.of(OUTPUT))
