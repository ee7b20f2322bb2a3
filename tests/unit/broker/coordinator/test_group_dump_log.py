"""The genuine kafka-dump-log reads what the group coordinator writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinator.group_coordinator import GROUP_TOPIC
from broker.handlers import offset_commit
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.values import uuid_to_text
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.group_world import GroupWorld, now

pytestmark = pytest.mark.java

RECORD = re.compile(r"^\| offset: (\d+) .* key: (\{.*\}) payload: (.*)$", re.MULTILINE)


def dumped(world: GroupWorld, directory: Path) -> list[tuple[Any, Any]]:
    """Keys and values of the group's partition as Kafka reads them."""
    index = world.groups.partition_for("g")
    folder = directory / f"{GROUP_TOPIC}-{index}"
    folder.mkdir()
    segment = folder / "00000000000000000000.log"
    segment.write_bytes(b"".join(world.log.batches[GROUP_TOPIC, index]))
    result = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(segment))
    assert result.code == 0, result.err
    assert "isvalid: false" not in result.out
    return [
        (json.loads(key), None if payload == "<DELETE>" else json.loads(payload))
        for _, key, payload in RECORD.findall(result.out)
    ]


def test_kafka_reads_our_groups_and_offsets(tmp_path: Path) -> None:
    world = GroupWorld()
    world.cluster.topics["t"] = 1
    a, b = world.stable_group(2)
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id=b)
    entry = OffsetCommitRequest.OffsetCommitRequestPartition(0, 42, 7, "wo ich bin: hier")
    request.topics.append(OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[entry]))
    now(offset_commit.handle(SimpleNamespace(groups=world.groups), world.context(8, 9), request))
    world.leave(a, b)
    world.commit_error(43, version=4, retention_ms=1000)
    assert now(world.groups.delete_group("g")) == 0
    moments = world.clock.wall_ms()

    group = {"type": "2", "data": {"group": "g"}}
    offset = {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    records = dumped(world, tmp_path)
    assert [key for key, _ in records] == [group, group, offset, group, offset, offset, group]
    new, stable, committed, empty, with_expiry, no_offset, no_group = [value for _, value in records]
    assert new == {
        "version": "3",
        "data": {
            "protocolType": "",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "currentStateTimestamp": moments - 6_000,
            "members": [],
        },
    }
    assert stable["version"] == "3"
    assert {name: stable["data"][name] for name in ("protocolType", "generation", "protocol", "leader")} == {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": a,
    }
    assert [member["memberId"] for member in stable["data"]["members"]] == [a, b]
    assert stable["data"]["members"][0] == {
        "memberId": a,
        "groupInstanceId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": "bWV0YQ==",
        "assignment": stable["data"]["members"][0]["assignment"],
    }
    topic_id = world.cluster.topic_id("t")
    assert topic_id is not None
    assert committed == {
        "version": "4",
        "data": {
            "offset": 42,
            "leaderEpoch": 7,
            "metadata": "wo ich bin: hier",
            "commitTimestamp": moments,
            "topicId": uuid_to_text(topic_id),
        },
    }
    assert (empty["data"]["generation"], empty["data"]["protocol"], empty["data"]["members"]) == (2, None, [])
    assert with_expiry["version"] == "1"
    assert with_expiry["data"]["expireTimestamp"] == moments + 1000
    assert no_offset is None
    assert no_group is None
