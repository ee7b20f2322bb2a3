"""Two log directories and the producers of a partition: kafka-log-dirs, kafka-transactions,
kafka-replica-verification, kafka-python's admin client, and what the tools do not show."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError

from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import SimpleRecord, build_batch
from tests.conftest import AnyBroker, broker_under_test
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.replica_verification import verify_replicas
from tests.support.genuine.tool_server import Tool, ToolServer
from tests.support.questions.answers import until

pytestmark = pytest.mark.java

MOMENT: Final = 1_700_000_000_000
PRODUCERS_HEAD: Final = [
    "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
    "CurrentTransactionStartOffset",
]  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """Directories `data` and `second`; topic `flights` has one partition with two producers, `gates` two."""
    folder = tmp_path_factory.mktemp("directories")
    overrides = {
        "log.dirs": f"{folder}/data,{folder}/second",
        # The records carry old times, and a move leaves files behind: nothing may remove them meanwhile.
        "log.initial.task.delay.ms": "3600000",
        "log.segment.delete.delay.ms": "3600000",
    }
    with broker_under_test(folder / "data", overrides) as running:
        with WireClient(running.bootstrap_servers) as client:
            create(client, "flights", 1)
            create(client, "gates", 2)
            for producer, sequence in ((-1, -1), (7, 0), (7, 1), (9, 4)):
                write(client, "flights", producer, sequence)
        yield running


@pytest.fixture
def client(broker: AnyBroker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def create(client: WireClient, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
    client.ask(CreateTopicsRequest([topic], 10_000), 7)


def write(client: WireClient, topic: str, producer_id: int, sequence: int) -> None:
    batch = build_batch(
        [SimpleRecord(b"k", b"v", MOMENT)],
        producer_id=producer_id,
        producer_epoch=3 if producer_id >= 0 else -1,
        base_sequence=sequence,
    )
    data = ProduceRequest.PartitionProduceData(0, batch)
    request = ProduceRequest(acks=-1, timeout_ms=5000)
    request.topic_data.append(ProduceRequest.TopicProduceData(topic, partition_data=[data]))
    until(client, request, 9, "the broker knows of the topic")


def directories(client: WireClient) -> dict[str, dict[tuple[str, int], int]]:
    """Size by replica and directory."""
    answer = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest(None), 5)
    return {
        result.log_dir: {
            (topic.name, replica.partition_index): replica.partition_size
            for topic in result.topics
            for replica in topic.partitions
        }
        for result in answer.results
    }


def alter(client: WireClient, *wishes: tuple[str, str, int]) -> dict[tuple[str, int], int]:
    """Error code by partition, for (directory, topic, partition)."""
    cls = AlterReplicaLogDirsRequest
    request = cls()
    for path, topic, index in wishes:
        request.dirs.append(cls.AlterReplicaLogDir(path, [cls.AlterReplicaLogDirTopic(topic, [index])]))
    answer = client.ask_for(AlterReplicaLogDirsResponse, request, 2)
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in answer.results
        for each in topic.partitions
    }


def described(tool: Tool, *arguments: str) -> Any:
    first, second, line = tool("kafka-log-dirs", "--describe", *arguments).lines
    assert first == "Querying brokers for log directories information"
    assert second == "Received log directory information from brokers 1"
    return json.loads(line)


def test_every_directory_is_told_of_in_order(broker: AnyBroker, client: WireClient) -> None:
    found = directories(client)
    assert list(found) == [str(broker.data), str(broker.data.parent / "second")]
    replicas = {replica: size for lying in found.values() for replica, size in lying.items()}
    assert replicas == {("flights", 0): 280, ("gates", 0): 0, ("gates", 1): 0}
    assert all(found.values()), "new logs go to the directory with the fewest"


def test_room_is_the_volume_s(broker: AnyBroker, client: WireClient) -> None:
    volume = shutil.disk_usage(broker.data)
    for version, knows in ((3, False), (4, True), (5, True)):
        answer = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest([]), version)
        for result in answer.results:
            assert result.topics == []
            assert not result.is_cordoned
            assert result.total_bytes == (volume.total if knows else -1)
            assert 0 < result.usable_bytes <= volume.total if knows else result.usable_bytes == -1


def test_a_directory_that_is_gone(broker: AnyBroker, client: WireClient) -> None:
    """Its volume cannot be asked: an error for this one, the other is told of as ever."""
    second = broker.data.parent / "second"
    away = second.rename(second.with_name("away"))
    try:
        answer = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest([]), 5)
    finally:
        away.rename(second)
    assert [result.error_code for result in answer.results] == [0, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert (answer.results[1].total_bytes, answer.results[1].usable_bytes) == (-1, -1)


def test_the_tool_describes_all(broker: AnyBroker, tool: Tool) -> None:
    told = described(tool)
    assert told["version"] == 1
    (one,) = told["brokers"]
    assert one["broker"] == 1
    assert {each["logDir"] for each in one["logDirs"]} == {
        str(broker.data),
        str(broker.data.parent / "second"),
    }
    assert all(each["error"] is None for each in one["logDirs"])
    replicas = [replica for each in one["logDirs"] for replica in each["partitions"]]
    assert {"partition": "flights-0", "size": 280, "offsetLag": 0, "isFuture": False} in replicas
    assert described(tool, "--broker-list", "1") == told


def test_the_tool_describes_some_topics(tool: Tool) -> None:
    (one,) = described(tool, "--topic-list", "gates,nowhere")["brokers"]
    replicas = [replica["partition"] for each in one["logDirs"] for replica in each["partitions"]]
    assert sorted(replicas) == ["gates-0", "gates-1"]
    assert len(one["logDirs"]) == 2


def test_the_tool_asks_no_broker_that_is_not_there(tool: Tool) -> None:
    refused = tool("kafka-log-dirs", "--describe", "--broker-list", "1,7")
    assert refused.code == 1
    assert (
        refused.err.strip()
        == "ERROR: The given brokers do not exist from --broker-list: 7. Current existent brokers: 1"
    )


@pytest.fixture
def producers(broker: AnyBroker, tool_server: ToolServer) -> Callable[..., list[str]]:
    """The lines of kafka-transactions describe-producers, which wants the broker before its verb."""

    def describe(topic: str, partition: int, *more: str) -> list[str]:
        where = ("--topic", topic, "--partition", str(partition))
        at = ("--bootstrap-server", broker.bootstrap_servers)
        done = tool_server.run("kafka-transactions", *at, "describe-producers", *where, *more)
        assert done.code == 0, done.err
        return done.lines

    return describe


def test_the_producers_of_a_partition(producers: Callable[..., list[str]]) -> None:
    for more in ((), ("--broker-id", "1")):
        head, *rows = producers("flights", 0, *more)
        assert head.split() == PRODUCERS_HEAD
        assert sorted(row.split() for row in rows) == [
            ["7", "3", "-1", "1", str(MOMENT), "None"],
            ["9", "3", "-1", "4", str(MOMENT), "None"],
        ]


def test_a_partition_that_nobody_wrote_to(producers: Callable[..., list[str]]) -> None:
    (head,) = producers("gates", 1)
    assert head.split() == PRODUCERS_HEAD


def test_a_replica_stays_where_it_is(client: WireClient) -> None:
    before = directories(client)
    for path, lying in before.items():
        for topic, index in lying:
            assert alter(client, (path, topic, index)) == {(topic, index): 0}
            assert alter(client, (path + "/", topic, index)) == {(topic, index): ErrorCode.LOG_DIR_NOT_FOUND}
    assert directories(client) == before


def test_of_two_wishes_the_later_counts(client: WireClient) -> None:
    home = next(path for path, lying in directories(client).items() if ("flights", 0) in lying)
    assert alter(client, ("/nowhere", "flights", 0), (home, "flights", 0)) == {("flights", 0): 0}
    refused = alter(client, (home, "flights", 0), ("/nowhere", "flights", 0))
    assert refused == {("flights", 0): ErrorCode.LOG_DIR_NOT_FOUND}


def test_a_wish_for_a_topic_that_comes_later(broker: AnyBroker, client: WireClient) -> None:
    first, second = str(broker.data), str(broker.data.parent / "second")
    wishes = [(second, "later", 0), (second, "later", 1), (first, "later", 2), (second, "later", 3)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(client, *wishes) == {(topic, index): unknown for _, topic, index in wishes}
    create(client, "later", 4)
    deadline = time.monotonic() + 60
    while True:
        lying = directories(client)
        if sum(topic == "later" for each in lying.values() for topic, _ in each) == 4:
            break
        assert time.monotonic() < deadline, "the topic's partitions were not made"
    assert {index for topic, index in lying[second] if topic == "later"} == {0, 1, 3}
    assert {index for topic, index in lying[first] if topic == "later"} == {2}


MOVING_RECORDS: Final = 600
STARTED: Final = "Successfully started moving log directory to"


def futures(client: WireClient) -> dict[str, tuple[int, int]]:
    """Size and lag of the copies, by directory."""
    answer = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest(None), 5)
    return {
        result.log_dir: (replica.partition_size, replica.offset_lag)
        for result in answer.results
        for topic in result.topics
        for replica in topic.partitions
        if replica.is_future_key and topic.name == "moving"
    }


@pytest.fixture
def moving(broker: AnyBroker, client: WireClient) -> tuple[str, str]:
    """Topic `moving` has 598 KB; the directory where it lies, and the other one."""
    if ("moving", 0) not in {replica for lying in directories(client).values() for replica in lying}:
        create(client, "moving", 1)
        data = bytes(927)
        for number in range(MOVING_RECORDS):
            batch = build_batch([SimpleRecord(b"%05d" % number, data[5:], MOMENT)])
            part = ProduceRequest.PartitionProduceData(0, batch)
            request = ProduceRequest(acks=-1, timeout_ms=5000)
            request.topic_data.append(ProduceRequest.TopicProduceData("moving", partition_data=[part]))
            if number:
                client.ask(request, 9)
            else:
                until(client, request, 9, "the broker knows of the topic")
    found = directories(client)
    home = next(path for path, lying in found.items() if ("moving", 0) in lying)
    return home, next(path for path in found if path != home)


def plan(folder: Path, target: str) -> str:
    file = folder / "plan.json"
    moves = [{"topic": "moving", "partition": 0, "replicas": [1], "log_dirs": [target]}]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    return str(file)


def await_move(client: WireClient, target: str) -> None:
    deadline = time.monotonic() + 60
    while ("moving", 0) not in directories(client)[target] or futures(client):
        assert time.monotonic() < deadline, "the replica did not move"
        time.sleep(0.1)


def test_the_tools_move_a_replica(
    tool: Tool, client: WireClient, moving: tuple[str, str], tmp_path: Path
) -> None:
    home, other = moving
    where = ("--reassignment-json-file", plan(tmp_path, other))
    reassign = "kafka-reassign-partitions"
    begun = tool(reassign, "--execute", *where)
    assert begun.code == 0, begun.err
    assert f"{STARTED} {other} for replica moving-0 with broker 1" in begun.out
    await_move(client, other)
    assert ("moving", 0) not in directories(client)[home]
    assert directories(client)[other]["moving", 0] == MOVING_RECORDS * 997
    done = tool(reassign, "--verify", *where)
    assert "Reassignment of replica moving-0-1 completed successfully." in done.out
    (one,) = described(tool, "--topic-list", "moving")["brokers"]
    lying = {each["logDir"]: each["partitions"] for each in one["logDirs"]}
    size = MOVING_RECORDS * 997
    assert lying == {
        home: [],
        other: [{"partition": "moving-0", "size": size, "offsetLag": 0, "isFuture": False}],
    }
    deadline = time.monotonic() + 60
    while (Path(home) / "moving-0").exists():
        assert time.monotonic() < deadline, "the old directory keeps its name"
        time.sleep(0.1)
    assert len(list(Path(home).glob("moving-0.*-delete"))) == 1
    assert {Path(other) / "moving-0"} == set(Path(other).glob("moving-0*"))


def test_a_slow_move_tells_how_far_it_is_and_can_be_taken_back(
    tool: Tool, client: WireClient, moving: tuple[str, str], tmp_path: Path
) -> None:
    home, other = moving
    throttle = ("--replica-alter-log-dirs-throttle", "4000")
    where = ("--reassignment-json-file", plan(tmp_path, other))
    begun = tool("kafka-reassign-partitions", "--execute", *where, *throttle)
    assert begun.code == 0, begun.err
    assert f"{STARTED} {other} for replica moving-0 with broker 1" in begun.out
    told = futures(client)
    assert list(told) == [other]
    size, lag = told[other]
    assert 0 <= size < MOVING_RECORDS * 997
    assert 0 < lag <= MOVING_RECORDS
    going_on = tool("kafka-reassign-partitions", "--verify", "--preserve-throttles", *where)
    assert "Reassignment of replica moving-0-1 is still in progress." in going_on.out
    assert len(list(Path(other).glob("moving-0.*-future"))) == 1
    assert alter(client, (home, "moving", 0)) == {("moving", 0): 0}
    assert futures(client) == {}
    assert directories(client)[home]["moving", 0] == MOVING_RECORDS * 997
    write(client, "moving", -1, -1)


@pytest.fixture
def kafka_python(broker: AnyBroker) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield admin
    admin.close()


def cordon(client: WireClient, value: str | None) -> None:
    """Sets or deletes cordoned.log.dirs of the broker, and waits until it says so itself."""
    cls = IncrementalAlterConfigsRequest
    change = cls.AlterableConfig("cordoned.log.dirs", int(value is None), value)
    answer = client.ask_for(
        IncrementalAlterConfigsResponse, cls([cls.AlterConfigsResource(4, "1", [change])]), 1
    )
    assert [each.error_code for each in answer.responses] == [0], answer
    deadline = time.monotonic() + 60
    while cordoned(client) != set((value or "").split(",")) - {""}:
        assert time.monotonic() < deadline, "the broker does not say so"
        time.sleep(0.05)


def cordoned(client: WireClient) -> set[str]:
    answer = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest([]), 5)
    return {result.log_dir for result in answer.results if result.is_cordoned}


def try_to_create(client: WireClient, name: str, partitions: int) -> tuple[int, str | None]:
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
    answer = client.ask_for(CreateTopicsResponse, CreateTopicsRequest([topic], 10_000), 7)
    return answer.topics[0].error_code, answer.topics[0].error_message


def test_a_cordoned_directory_gets_no_new_replicas(broker: AnyBroker, client: WireClient) -> None:
    first, second = str(broker.data), str(broker.data.parent / "second")
    in_first, in_second = (next(iter(directories(client)[path])) for path in (first, second))
    try:
        cordon(client, second)
        refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        for replica in (in_first, in_second, ("nowhere", 0)):
            assert alter(client, (second, *replica)) == {replica: refused}
        assert alter(client, (first, *in_first)) == {in_first: 0}
        assert try_to_create(client, "beside", 4)[0] == 0
        deadline = time.monotonic() + 60
        while sum(topic == "beside" for topic, _ in directories(client)[first]) < 4:
            assert time.monotonic() < deadline, directories(client)
        cordon(client, f"{first},{second}")
        deadline = time.monotonic() + 60
        while (told := try_to_create(client, f"none-{time.monotonic_ns()}", 1))[0] == 0:
            assert time.monotonic() < deadline, "the controller does not know of it"
        assert told[0] == ErrorCode.INVALID_REPLICATION_FACTOR
        assert told[1] == (
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all "
            "their log directories cordoned."
        )
    finally:
        cordon(client, None)
    deadline = time.monotonic() + 60
    while try_to_create(client, "again", 1)[0]:
        assert time.monotonic() < deadline, "the controller still takes it for cordoned"


def test_kafka_python_describes(broker: AnyBroker, kafka_python: Any) -> None:
    (told,) = kafka_python.describe_log_dirs({"flights": [0]})
    assert told["broker"] == 1
    assert {each["log_dir"]: each["error_code"] for each in told["log_dirs"]} == {
        str(broker.data): 0,
        str(broker.data.parent / "second"): 0,
    }
    (topic,) = [topic for each in told["log_dirs"] for topic in each["topics"]]
    assert topic["name"] == "flights"
    assert topic["partitions"][0]["partition_size"] == 280


def test_kafka_python_moves(broker: AnyBroker, kafka_python: Any) -> None:
    told = kafka_python.alter_replica_log_dirs({("flights", 0, 1): "/nowhere", ("nowhere", 0, 1): "/nowhere"})
    assert {error.errno for error in told.values()} == {ErrorCode.LOG_DIR_NOT_FOUND}


def test_kafka_python_sees_producers(kafka_python: Any) -> None:
    place = TopicPartition("flights", 0)
    found = kafka_python.describe_producers([place])[place]
    assert sorted((each.producer_id, each.last_sequence) for each in found.active_producers) == [
        (7, 1),
        (9, 4),
    ]
    with pytest.raises(KafkaError) as refused:
        kafka_python.describe_producers([TopicPartition("flights", 9)], broker_id=1)
    assert refused.value.errno == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_are_verified(broker: AnyBroker) -> None:
    """Deprecated, and still in 4.3: it reads as a replica that is no replica."""
    told = verify_replicas(broker.bootstrap_servers, "flights", "offset 4 among 1 partitions")
    assert "max lag is 0 for partition flights-0" in told[-1]
