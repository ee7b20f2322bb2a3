"""What the tests with genuine clients share: fresh topic names, and the Java tools on one broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import pytest

from tests.support.genuine.tool_fixtures import tool

__all__ = ["fresh", "tool"]

NUMBERS: Final = count(1)


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names for topics and groups that nobody else uses."""
    stem = "".join(each if each.isascii() and each.isalnum() else "-" for each in request.node.name)
    return lambda: f"{stem[:60]}-{next(NUMBERS)}"
