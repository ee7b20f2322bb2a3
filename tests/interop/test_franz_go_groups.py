"""franz-go's consumer groups on a broker that has never seen a group.

By default its members join as every classic member does. A client that takes the newer protocol where it is
offered gets it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.brokers.against import AGAINST_KAFKA
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.topics import Topics
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.genuine.go_programs import go_program

pytestmark = pytest.mark.slow
CONFIG = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def program() -> str:
    return go_program("group")


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[str]:
    """A broker without any group."""
    broker = (
        GenuineKafka(tmp_path / "data", CONFIG)
        if AGAINST_KAFKA
        else BarnabasProcess(tmp_path / "data", CONFIG)
    )
    if isinstance(broker, GenuineKafka):
        broker.features = NO_FEATURES
    with broker.start():
        topics = Topics(broker.bootstrap_servers)
        topics.create("t")
        topics.produce("t", ["hello"])
        yield broker.bootstrap_servers


def consume(program: str, *arguments: str) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout + done.stderr


def types_of_groups(address: str) -> dict[str, str]:
    with closing(WireClient(address)) as client:
        listed = client.ask_for(ListGroupsResponse, ListGroupsRequest(), 5)
        return {group.group_id: group.group_type for group in listed.groups}


def test_the_first_group_of_a_broker_and_one_that_asks_for_the_newer_protocol(
    program: str, fresh_broker: str
) -> None:
    assert "read hello" in consume(program, fresh_broker, "t", "first")
    told = consume(program, fresh_broker, "t", "second", "next")
    assert "falling back to standard consumer group management" not in told
    assert "read hello" in told
    assert types_of_groups(fresh_broker) == {"first": "classic", "second": "consumer"}
