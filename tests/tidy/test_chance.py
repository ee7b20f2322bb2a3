"""Every run of the tests draws the same examples, and no busy machine makes a property fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hypothesis import settings

from tests.properties import test_storage_model

TESTS: Final = Path(__file__).resolve().parents[1]


def test_hypothesis_draws_the_same_examples_each_time() -> None:
    for found in (settings(), settings(max_examples=7), test_storage_model.TestLogAgainstModel.settings):
        assert found.derandomize
        assert found.deadline is None
        assert found.database is None


def test_no_test_decides_that_for_itself() -> None:
    own = [
        f"{path.relative_to(TESTS)}:{number}"
        for path in TESTS.rglob("*.py")
        if path.name not in ("conftest.py", Path(__file__).name)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\b(derandomize|database)=|load_profile|@seed\(", line)
    ]
    assert own == [], "tests/conftest.py has the one profile for all"
