"""The calls of tools that act on a cluster: three nodes of ours answer as three of Apache Kafka 4.3.1 did.

Left out: kafka-features and kafka-broker-api-versions, whose answers tell what is served; those of one broker
stand in `test_side_by_side`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import pytest

from tests.side_by_side.recorded_cluster import CASES, ask, cluster_side, recorded
from tests.side_by_side.sides import slowest
from tests.side_by_side.test_side_by_side import README
from tests.support.brokers.cluster import OURS

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Ours, after all calls."""
    expected = recorded()
    with cluster_side(OURS, tmp_path_factory.mktemp("cluster")) as side:
        ask(side, lambda key, answer: answer == expected.get(key))
        print(f"{len(CASES)} calls\n{slowest({'Barnabas': side})}")
        yield side.answers


def test_every_call_has_a_recorded_answer() -> None:
    """python -m tests.side_by_side.recorded_cluster records them."""
    assert list(recorded()) == list(CASES)


def test_the_readme_tells_how_many() -> None:
    assert f"and {len(CASES)} calls of tools to three nodes of each" in " ".join(README.read_text().split())


@pytest.mark.parametrize("key", CASES)
def test_the_same_answer(answers: dict[str, str], key: str) -> None:
    kafka, ours = recorded()[key].splitlines(), answers[key].splitlines()
    assert kafka == ours, "\n".join(
        difflib.unified_diff(kafka, ours, "Apache Kafka", "Barnabas", lineterm="")
    )
