"""Kafka Connect in distributed mode with an exactly-once source, through kill -9 of workers and broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import AnyBroker
from tests.support.brokers.connect_under_fire import AT_SINK, AT_SOURCE, BROKER, ConnectFire
from tests.support.brokers.streams_under_fire import SMALL

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]


def test_each_line_is_carried_once(new_broker: Callable[..., AnyBroker], tmp_path: Path) -> None:
    broker = new_broker(**{name.replace(".", "_"): value for name, value in SMALL.items()})
    outcome = ConnectFire(broker, tmp_path, 16).burn([AT_SOURCE, BROKER, AT_SINK])
    print(outcome.line)
    assert outcome.aborted > 0, "no kill has met an open transaction"
