"""Apache Kafka's own Java client: admin, idempotent producer, consumer, cooperative groups (ClientTour)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import AnyBroker
from tests.support.brokers.against import barnabas_only
from tests.support.genuine.kafka_jars import java_command
from tests.support.genuine.tool_server import compile_java

pytestmark = pytest.mark.java

Tour = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory, broker: AnyBroker) -> Tour:
    classpath = compile_java("ClientTour", tmp_path_factory.mktemp("tour"))

    def go(*stations: str) -> dict[str, str]:
        command = java_command("ClientTour", broker.bootstrap_servers, *stations)
        command[command.index("-cp") + 1] = classpath
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = (line.partition("\t") for line in done.stdout.splitlines())
        return {name: value for name, _, value in lines}

    return go


@pytest.fixture(scope="module")
def found(tour: Tour) -> dict[str, str]:
    return tour("admin", "producer", "consumer", "groups")


def test_the_admin(found: dict[str, str]) -> None:
    assert (found["cluster id length"], found["nodes"], found["controller"], found["voters"]) == (
        "22",
        "1",
        "1",
        "1",
    )
    assert (found["partitions"], found["leader"], found["latest"]) == ("3", "1", "0")
    assert found["topic by id"] == "java-admin"
    assert found["create twice"] == "TopicExistsException: Topic 'java-admin' already exists."
    assert found["delete twice"] == (
        "UnknownTopicOrPartitionException: This server does not host this topic-partition."
    )


@barnabas_only
def test_what_is_not_served_says_so_at_once(found: dict[str, str]) -> None:
    assert found["not served"].startswith(
        "UnsupportedVersionException: The node does not support DESCRIBE_DELEGATION_TOKEN"
    )
    assert int(found["not served ms"]) < 30_000, "a client gives up after 60 s"


def test_the_idempotent_producer(found: dict[str, str]) -> None:
    assert (found["in order"], found["after it"]) == ("5000", "5000")
    assert found["too large"] == (
        "RecordTooLargeException: The request included a message larger than the max message size the server "
        "will accept."
    )
    assert found["bad name"] == "InvalidTopicException: Invalid topics: [nicht/erlaubt]"


def test_the_consumer(found: dict[str, str]) -> None:
    assert (found["good records"], found["last"]) == ("5000", "last")
    assert (found["beginning"], found["end"], found["sought"]) == ("0", "5001", "4321")
    assert found["by time"] == "1234 at 1700000001234 epoch 0"
    assert found["after all"] == "null"
    assert found["out of range"] == "0"
    assert found["committed"].startswith("OffsetAndMetadata{offset=4711, ")
    assert "metadata='bis hier'" in found["committed"]
    assert found["by the admin"].startswith("{java-producer-0=OffsetAndMetadata{offset=4711")


def test_a_cooperative_group(found: dict[str, str]) -> None:
    assert (found["assignor"], found["members"]) == ("cooperative-sticky", "2")
    assert found["revoked"] == "2", "only what moved"
    assert found["seen"] == "400 of 400"
    assert found["committed in all"] == "400"
    assert (found["lost"], found["stays"]) == ("0", "true")


def test_transactions(tour: Tour) -> None:
    told = tour("transactions")
    assert told["committed"] == "[1, 3]"
    assert told["offset"] == "4"
    assert told["zombie"].startswith("InvalidProducerEpochException")


def test_members_of_the_newer_protocol_share_and_take_over(tour: Tour) -> None:
    told = tour("new-protocol")
    assert (told["alone"], told["shared"]) == ("4", "2+2")
    assert (told["seen"], told["committed"]) == ("40 of 40", "40")
    assert told["taken over"] == "4"
    assert told["described"] == "CONSUMER Stable uniform"
