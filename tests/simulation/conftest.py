"""What tests of single rules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.simulation.verdict import without_logs
from tests.simulation.traffic import Traffic


@pytest.fixture
def traffic() -> Iterator[Traffic]:
    with without_logs():
        found = Traffic(1)
        found.write(3)
        yield found
