"""What Apache Kafka makes of a consumer group that we have recorded, and of its topics."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.consumer.consumer_group_records import group_tombstones
from broker.coordinator.consumer.metadata_hash import group_hash, topic_hash
from broker.coordinator.runtime.batches import coordinator_batch
from protocol.values import uuid_from_text, uuid_to_text
from tests.support.genuine.java_oracle.message_oracle import group_hashes
from tests.support.genuine.kafka_tools import run_tool
from tests.support.rigs.consumer_group_by_hand import ConsumerGroupByHand, HandTopics

pytestmark = pytest.mark.java

RECORD = re.compile(r"^\| offset: \d+ .* key: (\{.*\}) payload: (.*)$", re.MULTILINE)


class HashedTopics(HandTopics):
    """Topics of which only the hash is asked."""

    def __init__(self, hashes: dict[str, int]) -> None:
        super().__init__()
        self.hashes = hashes

    def topic_hash(self, name: str) -> int | None:
        return self.hashes.get(name)


def topics_at_random(chance: random.Random) -> list[dict[str, Any]]:
    racks = ["", "r1", "rack-of-some-length", "ä", "\U0001f98a"]
    return [
        {
            "id": uuid_to_text(chance.randbytes(16)),
            "name": f"topic.{chance.choice('abcÄ')}{number}",
            "racks": [
                sorted(chance.choices(racks, k=chance.randint(0, 3)))
                for _ in range(chance.choice([1, 3, 40]))
            ],
        }
        for number in range(chance.randint(0, 4))
    ]


def test_the_hash_of_a_groups_topics_is_kafkas() -> None:
    chance = random.Random(7)
    groups = [topics_at_random(chance) for _ in range(300)]
    ours = []
    for topics in groups:
        hashes = {
            topic["name"]: topic_hash(uuid_from_text(topic["id"]), topic["name"], topic["racks"])
            for topic in topics
        }
        ours.append(group_hash([*hashes, "missing"], HashedTopics(hashes)))
    assert ours == group_hashes(groups)


def test_kafka_reads_our_records(tmp_path: Path) -> None:
    hand = ConsumerGroupByHand()
    hand.topics.put("t", 2)
    hand.join("a", ["t"], regex="p.*", instance_id="one", assignor="range")
    hand.join("b", ["t"])
    hand.beat("a", holds_on=True)
    hand.resolve()
    group = hand.group
    records = [*hand.log, *group_tombstones("g", list(group.members), list(group.resolved))]
    segment = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(coordinator_batch(records, timestamp_ms=hand.now_ms))
    result = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(segment))
    assert result.code == 0, result.err
    read = [
        (json.loads(key), None if payload == "<DELETE>" else json.loads(payload))
        for key, payload in RECORD.findall(result.out)
    ]
    assert len(read) == len(records)
    newest = {(key["type"], key["data"].get("memberId")): value for key, value in read if value is not None}
    topic = uuid_to_text(hand.topics.topic_id("t") or b"")
    member = newest["5", "a"]["data"]
    assert member == {
        "instanceId": "one",
        "rackId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": ["t"],
        "subscribedTopicRegex": "p.*",
        "rebalanceTimeoutMs": 60_000,
        "serverAssignor": "range",
        "classicMemberMetadata": None,
    }
    assert newest["8", "a"]["data"] == {
        "memberEpoch": 2,
        "previousMemberEpoch": 2,
        "state": 1,
        "assignedPartitions": [{"topicId": topic, "partitions": [0], "assignmentEpochs": [2]}],
        "partitionsPendingRevocation": [{"topicId": topic, "partitions": [1], "assignmentEpochs": [2]}],
    }
    assert newest["7", "b"]["data"] == {"topicPartitions": [{"topicId": topic, "partitions": [1]}]}
    assert newest["6", None]["data"] == {"assignmentEpoch": 3, "assignmentTimestamp": hand.now_ms}
    assert newest["3", None]["data"]["epoch"] == 3
    assert newest["16", None]["data"] == {"topics": [], "version": 1, "timestamp": hand.now_ms}
    kinds = {key["type"] for key, value in read if value is None}
    assert kinds == {"3", "4", "5", "6", "7", "8", "16"}
