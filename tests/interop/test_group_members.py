"""Static and cooperative members of Python's libraries, what an admin does to their groups, and an
application of Kafka Streams over the classic protocol."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import MemberToRemove
from kafka.errors import GroupSubscribedToTopicError
from kafka.structs import OffsetAndMetadata

from tests.conftest import AnyBroker
from tests.interop.test_confluent_groups import SESSION_MS, members, shared_among
from tests.interop.test_java_group_tools import describe
from tests.support.clients.librdkafka import commit, create_topic, fill, settings, take, texts, until
from tests.support.genuine.kafka_jars import java_command
from tests.support.genuine.tool_server import Tool, compile_java

Fresh = Callable[[], str]
TIMES: Final = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 300}


def member(broker: AnyBroker, topic: str, group: str, **named: Any) -> Any:
    """A consumer of kafka-python."""
    chosen = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **TIMES, **named}
    return KafkaConsumer(topic, bootstrap_servers=broker.bootstrap_servers, group_id=group, **chosen)


def settled(count: int, *members: Any) -> Callable[[], bool]:
    """Whether these consumers of kafka-python hold all partitions, each of them once; they poll meanwhile."""

    def look() -> bool:
        for each in members:
            each.poll(500)  # kafka-python 3.0 forgets a join that is answered after its poll
        held = [each.assignment() for each in members]
        return all(held) and sum(map(len, held)) == len(set().union(*held)) == count

    return look


@pytest.fixture
def admin(broker: AnyBroker) -> Any:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def test_cooperative_static_members_and_one_that_is_removed(
    broker: AnyBroker, admin: Any, fresh: Fresh
) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh(), 4), fresh()
    chosen = {"partition_assignment_strategy": "cooperative-sticky"}
    with members() as join:
        at = (broker.bootstrap_servers, group, topic)
        one = join(*at, group_instance_id="one", **chosen)
        until(shared_among(4, one), "the first has all")
        two = join(*at, group_instance_id="two", **chosen)
        until(shared_among(4, one, two), "both share")
        # The first member is told of three generations: alone, as it gives up a half, and as the second
        # takes that half. The second may miss the one between, which ends as soon as the first joins again.
        until(lambda: one.assigned >= 3, "the first knows the last generation")
        described = admin.describe_groups([group])[group]
        found = {each["group_instance_id"]: each["member_id"] for each in described["members"]}
        assert found.keys() == {"one", "two"}
        assert all(id_.startswith(f"{name}-") for name, id_ in found.items())
        held, rebalances = two.partitions, one.assigned
        two.leave()
        back = join(*at, group_instance_id="two", **chosen)
        until(shared_among(4, one, back), "it is back")
        assert (back.partitions, one.assigned) == (held, rebalances)
        back.leave()
        admin.remove_group_members(group, [MemberToRemove(group_instance_id="two")])
        until(lambda: one.partitions == set(range(4)), "one has all")


def test_a_static_member_of_aiokafka_comes_back(broker: AnyBroker, tool: Tool, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh(), 2), fresh()

    async def visit() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            group_instance_id="here",
            **TIMES,
        )
        await consumer.start()
        while len(consumer.assignment()) < 2:
            await asyncio.sleep(0.05)
        await consumer.stop()

    asyncio.run(visit())
    (first,) = describe(tool, group, "--members")
    assert first["GROUP-INSTANCE-ID"] == "here"
    asyncio.run(visit())
    (second,) = describe(tool, group, "--members")
    assert second["CONSUMER-ID"] != first["CONSUMER-ID"]
    assert {**second, "CONSUMER-ID": ""} == {**first, "CONSUMER-ID": ""}


def test_an_admin_alters_resets_and_deletes(broker: AnyBroker, admin: Any, fresh: Fresh) -> None:
    topic, group = create_topic(broker.bootstrap_servers, fresh(), 2), fresh()
    fill(broker.bootstrap_servers, topic, range(5), partition=0)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(broker.bootstrap_servers, group, Place(topic, 0, 1))  # waits until there is a coordinator
    admin.alter_group_offsets(
        group, {zero: OffsetAndMetadata(3, "here", -1), one: OffsetAndMetadata(0, "", -1)}
    )
    found = admin.list_group_offsets({group: None})[group]
    assert {place: (each.offset, each.metadata) for place, each in found.items()} == {
        zero: (3, "here"),
        one: (0, ""),
    }
    reader = member(broker, topic, group)
    until(settled(2, reader), "it works")
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    refused = admin.delete_group_offsets(group, [zero])
    assert refused[zero] is GroupSubscribedToTopicError
    reader.close()
    assert not admin.delete_group_offsets(group, [zero])[zero].errno
    assert set(admin.list_group_offsets({group: None})[group]) == {one}
    assert admin.delete_groups([group, "nobody"]) == {group: "OK", "nobody": "GroupIdNotFoundError"}
    assert group not in {each["group_id"] for each in admin.list_groups()}


def test_an_application_of_streams(broker: AnyBroker, tool: Tool, fresh: Fresh, tmp_path: Path) -> None:
    address = broker.bootstrap_servers
    source, sink, group = create_topic(address, fresh(), 4), create_topic(address, fresh(), 1), fresh()
    command = java_command("StreamsTour", address, group, source, sink, str(tmp_path))
    command[command.index("-cp") + 1] = compile_java("StreamsTour", tmp_path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as application:
        if application.stdout is None or application.stdin is None:
            raise RuntimeError("no pipes")
        try:
            assert application.stdout.readline() == "RUNNING\n"
            fill(address, source, ["Start", "start", "Landung", "START"])
            reader = Consumer(settings(address, group_id=fresh(), auto_offset_reset="earliest"))
            reader.subscribe([sink])
            counted = take(reader, 4)
            assert sorted(texts(counted)) == ["1", "1", "2", "3"]
            reader.close()
            found = describe(tool, group, "--members")
            assert {each["GROUP-INSTANCE-ID"] for each in found} == {
                "instance-0-1",
                "instance-1-1",
            }
            until(lambda: describe_state(tool, group) == "Stable", "no task moves any more")
            (state,) = describe(tool, group, "--state")
            assert state["ASSIGNMENT-STRATEGY"] == "stream"
            application.stdin.close()
            assert application.stdout.readline() == "CLOSED\n"
        finally:
            application.kill()
    until(lambda: describe_state(tool, group) == "Empty", "all have left")


def describe_state(tool: Tool, group: str) -> str:
    lines = tool("kafka-consumer-groups", "--describe", "--group", group, "--state").lines
    return lines[-1].split()[-2]
