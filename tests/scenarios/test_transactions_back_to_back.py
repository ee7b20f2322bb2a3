"""Producers that begin a transaction as soon as the end of their last one is acknowledged: its markers may
still be on their way then."""

from __future__ import annotations

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.conversations import converse
from tests.support.clients.coordinator_talks import TRANSACTION, Producer, find
from tests.support.clients.topics import Topics

PRODUCERS = 10
TRANSACTIONS = 20


@pytest.mark.parametrize("records", [1, 100])
def test_none_of_ten_producers_is_refused(broker: AnyBroker, records: int) -> None:
    topic = Topics(broker.bootstrap_servers).create(f"back-to-back-{records}", PRODUCERS)
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    converse(port, [[find("any", TRANSACTION)]], 60)
    producers = [Producer(topic, index, records, f"producer-{index}") for index in range(PRODUCERS)]
    converse(port, [[each.talk(TRANSACTIONS)] for each in producers], 120)
    assert [each.done for each in producers] == [TRANSACTIONS] * PRODUCERS
