"""The same calls of tools and admin clients to Barnabas and to Apache Kafka 4.3.1: the same answers.

What is called stands in the tables of `of_*.py`, what is taken away from the answers in `normalising.py`, and
what remains different, with its reason, in `differences.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import TopicPartition

from tests.side_by_side.brokers import BARNABAS, KAFKA, new_broker
from tests.side_by_side.consoles import CONSOLES, asked
from tests.side_by_side.differences import DIFFERENCES, beyond
from tests.side_by_side.showing import NO_ANSWER
from tests.side_by_side.sides import Side, ask_both, slowest
from tests.side_by_side.table import SUBJECTS
from tests.support.clients.librdkafka import commit
from tests.support.genuine.tool_server import ToolServer, compile_java

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

README: Final = Path(__file__).resolve().parents[2] / "README.md"
KEYS: Final = [f"{subject}: {case.name}" for subject, cases in SUBJECTS.items() for case in cases]
STAYS: Final = {difference.case: difference for difference in DIFFERENCES}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Both brokers after all calls. Each has a JVM of its own for the tools: both are asked at once."""
    classpath = compile_java("ToolServer", tmp_path_factory.mktemp("java"), "AdminCall")
    with ExitStack() as stack:
        made = {}
        for which in (KAFKA, BARNABAS):
            folder = tmp_path_factory.mktemp("side-by-side")
            (folder / "files").mkdir()
            broker = new_broker(which, folder / "data").start()
            stack.callback(broker.kill)
            tools = stack.enter_context(ToolServer(folder, classpath))
            made[which] = Side(broker, tools, folder / "files")
            stack.callback(made[which].close)
        ask_both(made[KAFKA], made[BARNABAS], SUBJECTS, frozenset(STAYS))
        print(f"{len(KEYS)} calls\n{slowest(made)}")
        yield made


def differing(sides: dict[str, Side], key: str) -> list[str]:
    """What Apache Kafka said (-) and Barnabas said (+), a diff without its head; empty if it is the same."""
    kafka, ours = (sides[which].answers[key].splitlines() for which in (KAFKA, BARNABAS))
    lines = difflib.unified_diff(kafka, ours, lineterm="", n=1)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize("key", KEYS)
def test_the_same_answer(sides: dict[str, Side], key: str) -> None:
    silent = [which for which in (KAFKA, BARNABAS) if NO_ANSWER in sides[which].answers[key]]
    assert not silent, f"{key}: {NO_ANSWER}"
    lines = differing(sides, key)
    changed = [line for line in lines if line[0] in "+-"]
    if key not in STAYS:
        assert not changed, f"{key}\n-: {KAFKA}\n+: {BARNABAS}\n" + "\n".join(lines)
        return
    unexplained = beyond(STAYS[key], changed)
    assert changed, f"{key}: no longer different, so its entry in differences.py may go"
    assert not unexplained, f"{key}: more differs than '{STAYS[key].reason}'\n" + "\n".join(unexplained)


@pytest.fixture(scope="module")
def watched(sides: dict[str, Side]) -> dict[str, Side]:
    """Both brokers with a group that a console can show."""
    for side in sides.values():
        commit(side.address, "watched", TopicPartition("flights", 0, 8), TopicPartition("flights", 2, 1))
    return sides


@pytest.mark.parametrize("console", CONSOLES)
def test_the_same_for_a_console(watched: dict[str, Side], console: str) -> None:
    command = CONSOLES[console]()
    with ThreadPoolExecutor(2) as threads:
        calls = {which: threads.submit(asked, command(side.address)) for which, side in watched.items()}
        answers = {which: watched[which].without_randomness(call.result()) for which, call in calls.items()}
    lines = difflib.unified_diff(
        answers[KAFKA].splitlines(), answers[BARNABAS].splitlines(), lineterm="", n=0
    )
    assert answers[KAFKA] == answers[BARNABAS], f"{console}\n" + "\n".join(lines)
    assert answers[KAFKA].startswith("exit 0\n")
    assert answers[KAFKA].count("\n") >= 5


def test_the_readme_tells_the_differences() -> None:
    """Word for word, in a row of its table; the table also has what no call here shows."""
    section = README.read_text().partition("### Where Barnabas answers otherwise")[2].partition("\n## ")[0]
    told = [line.strip("| ").split(" | ")[-1] for line in section.splitlines() if line.startswith("| ")]
    assert {difference.reason for difference in DIFFERENCES} <= set(told)
    assert f"The same {len(KEYS)} calls" in section


def test_the_tables() -> None:
    """Names tell cases apart, there are many of them, and every difference has a case."""
    assert len(set(KEYS)) == len(KEYS) >= 150
    assert set(STAYS) <= set(KEYS)
    assert len(STAYS) == len(DIFFERENCES)
    for difference in DIFFERENCES:
        for line in ("-", "+", "-nobody says this", "+nobody says this", "-exit 1", "+exit 0"):
            assert beyond(difference, [line]), f"'{difference.case}' may differ in any way"
