"""A byte of `__consumer_offsets` changes while the broker is down: what the groups notice after its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.coordinator.runtime.partitioning import partition_for
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.records.header import headers
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.kafka_jars import kafka_jars
from tests.support.questions.group_stage import Stage

PARTITIONS = 3
CONFIG = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
}
MAGIC_AT = 16
GROUPS = tuple(f"group-{number}" for number in range(12))
HURT = GROUPS[0]
IN_PARTITION = tuple(
    name for name in GROUPS if partition_for(name, PARTITIONS) == partition_for(HURT, PARTITIONS)
)

COMING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def commit(group: str, offset: int, metadata: str = "") -> OffsetCommitRequest:
    entry = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, -1, metadata)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[entry])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def commit_to(stage: Stage, request: OffsetCommitRequest) -> None:
    """The stage is prepared when one coordinator is there; those of other partitions may come later."""
    for _ in range(1_200):
        error = ErrorCode(stage.a.ask(request, 9).topics[0].partitions[0].error_code)
        if error not in COMING:
            break
        stage.wait(0.05)
    assert error is ErrorCode.NONE


def committed(stage: Stage, group: str, *, loads: bool = True) -> int | ErrorCode:
    """The group's offset. One whose partition loads is asked until it has; a broker that has just started may
    not know that it leads."""
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None)
    for _ in range(1_200):
        (found,) = stage.a.ask(OffsetFetchRequest(groups=[wanted]), 8).groups
        error = ErrorCode(found.error_code)
        if error is ErrorCode.NONE:
            return int(found.topics[0].partitions[0].committed_offset)
        if not loads and error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        stage.wait(0.05)
    return error


def flip(data: Path, group: str) -> None:
    """The magic of the second batch of the group's partition, there and back."""
    (segment,) = data.glob(f"__consumer_offsets-{partition_for(group, PARTITIONS)}/*.log")
    content = bytearray(segment.read_bytes())
    place = int.from_bytes(content[8:12], "big") + 12
    assert place < len(content)
    content[place + MAGIC_AT] ^= 0x40
    segment.write_bytes(content)


@pytest.mark.parametrize("which", ["ours", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def test_one_flipped_byte_takes_one_partition_away(tmp_path: Path, which: str) -> None:
    if which == "kafka":
        kafka_jars()
    broker = (
        GenuineKafka(tmp_path / "data", CONFIG)
        if which == "kafka"
        else BarnabasProcess(tmp_path / "data", CONFIG)
    )
    with broker.start():
        stage = Stage(broker.bootstrap_servers, tmp_path / "data")
        stage.prepare()
        for _ in range(6):  # what lies behind the last index entry is looked at when a log is opened
            commit_to(stage, commit(HURT, 99, "m" * 3_000))
        for offset, group in enumerate(GROUPS):
            commit_to(stage, commit(group, offset))
    (segment,) = broker.data.glob(f"__consumer_offsets-{partition_for(HURT, PARTITIONS)}/*.log")
    assert len(list(headers(segment.read_bytes()))) > 2
    flip(broker.data, HURT)
    with broker.start():
        stage = Stage(broker.bootstrap_servers, broker.data)
        sound = [group for group in GROUPS if group not in IN_PARTITION]
        assert [committed(stage, group) for group in sound] == [GROUPS.index(group) for group in sound]
        for group in IN_PARTITION:
            assert committed(stage, group, loads=False) == ErrorCode.NOT_COORDINATOR, group
        assert stage.a.ask(HeartbeatRequest(HURT, 1, "x"), 4).error_code == ErrorCode.NOT_COORDINATOR
        join = JoinGroupRequest(group_id=HURT, session_timeout_ms=10_000, protocol_type="consumer")
        assert stage.a.ask(join, 9).error_code == ErrorCode.NOT_COORDINATOR
        listed = stage.a.ask(ListGroupsRequest(), 5)
        names = {each.group_id for each in listed.groups}
        assert (listed.error_code, names) == (0, set(GROUPS) - set(IN_PARTITION))
    flip(broker.data, HURT)
    with broker.start():
        stage = Stage(broker.bootstrap_servers, broker.data)
        assert [committed(stage, group) for group in GROUPS] == list(range(len(GROUPS)))
