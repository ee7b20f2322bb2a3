"""The book's exercises with three and four brokers: replicas, acks, a broker that dies, preferred leaders.

"Apache Kafka: Von den Grundlagen bis zum Produktiveinsatz", exercises 1.2, 2.2.2.3, 2.3.1, 2.3.2.2 and the
leader epochs of chapter 3, with the genuine command line tools, in the book's order: each test goes on where
the one before it ended. All of it is asked of Apache Kafka too.

Two things are not as in print. In the book consumers see what was appended with acks=0 and acks=1 while fewer
replicas than `min.insync.replicas` are in sync; since KIP-966 the high watermark stands still then, and they
see it when the third replica is back. And a leader epoch grows only where the leader changes, no longer with
every change of the ISR.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.brokers.cluster import BROKER, FAST, KAFKAS, OURS, Cluster, GenuineNode
from tests.support.clients.book import consume, ends, fields, produce
from tests.support.genuine.kafka_tools import ToolResult, run_tool
from tests.support.genuine.tool_server import Tool, ToolServer

pytestmark = pytest.mark.java

PATIENT: Final = {"broker.session.timeout.ms": "60000", "replica.lag.time.max.ms": "60000"}
"""Brokers stop in order here: nobody has to be fenced, or to leave an ISR, for having been silent. With these
times a broker of Apache Kafka that starts again needs a minute until it is back."""
STRICT: Final = "flugdaten-min-insync-replicas-3"
FAILOVER: Final = "replication-test"
FILES: Final = "datei-struktur"
FOUR: Final = "four-replicas"
TOO_FEW_BROKERS: Final = (
    "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached "
    "because only 3 broker(s) are registered or some brokers have all their log directories cordoned."
)
REJECTED: Final = "Messages are rejected since there are fewer in-sync replicas than required."


@pytest.fixture(scope="module", params=[OURS, KAFKAS])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tool_server: ToolServer
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("book")
    properties = {
        **FAST,
        **(PATIENT if request.param == OURS else {}),
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.replication.factor": "3",
        "log.flush.offset.checkpoint.interval.ms": "1000",
    }
    with Cluster(folder, [request.param] * 3, tools=tool_server, properties=properties) as cluster:
        cluster.format().start().await_brokers()
        yield cluster


@pytest.fixture
def tool(cluster: Cluster, tool_server: ToolServer) -> Tool:
    """Calls a tool with ``--bootstrap-server`` of the brokers that run."""
    return tool_server.tool_at(lambda: cluster.bootstrap)


class Described:
    """A line of ``kafka-topics --describe`` about one partition."""

    def __init__(self, line: str) -> None:
        told = fields(line)
        self.topic = told["Topic"]
        self.leader = int(told["Leader"])
        self.replicas = numbers(told["Replicas"])
        self.isr = numbers(told["Isr"])


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def create(
    cluster: Cluster, tool: Tool, topic: str, partitions: int, replicas: int, *config: str
) -> ToolResult:
    """When it returns all brokers know the topic, unless it was refused."""
    size = ("--partitions", str(partitions), "--replication-factor", str(replicas))
    options = [word for each in config for word in ("--config", each)]
    done = tool("kafka-topics", "--create", "--topic", topic, *size, *options)
    if done.code == 0:
        await_known(cluster, topic, partitions, replicas)
    return done


def await_known(cluster: Cluster, topic: str, partitions: int, in_sync: int) -> None:
    """Each broker that runs names leaders of all partitions, with so many replicas in sync. Tools ask any
    broker, and each learns in its own time what the controller has decided."""

    def is_known() -> bool | None:
        for node_id in cluster.brokers:
            metadata = cluster.metadata(node_id, topic)
            found = [] if metadata is None else metadata.topics[0].partitions
            if len(found) != partitions:
                return None
            if any(each.leader_id not in cluster.brokers or len(each.isr_nodes) != in_sync for each in found):
                return None
        return True

    cluster.wait(is_known, f"{topic} with {in_sync} replicas in sync on all brokers")


def consume_all(cluster: Cluster, tool: Tool, topic: str, count: int) -> list[str]:
    """The records of a topic that comes to have so many, however long the first of them takes to come."""

    def are_there() -> bool | None:
        return sum(int(line.rpartition(":")[2]) for line in ends(tool, topic)) == count or None

    cluster.wait(are_there, f"{count} records in {topic}")
    return consume(tool, topic, "--from-beginning", "--max-messages", str(count), seconds=60).lines


def elect_preferred(cluster: Cluster, tool: Tool) -> ToolResult:
    """As soon as all replicas are in sync: a preferred leader that is not makes the tool fail."""
    cluster.wait(lambda: not describe(tool, "--under-replicated-partitions") or None, "ISRs that are whole")
    done = tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert done.code == 0, done.err
    return done


def describe(tool: Tool, *words: str) -> list[Described]:
    """The partitions' lines, in the order of their numbers."""
    done = tool("kafka-topics", "--describe", *words)
    assert done.code == 0, done.err
    return [Described(line) for line in done.lines if "\tPartition: " in line]


def await_isr(cluster: Cluster, tool: Tool, topic: str, isr: set[int]) -> list[Described]:
    """The partitions as soon as each has this ISR."""

    def found() -> list[Described] | None:
        lines = describe(tool, "--topic", topic)
        return lines if all(set(line.isr) == isr for line in lines) else None

    return cluster.wait(found, f"ISR {isr} of {topic}")


def await_leader_epochs(cluster: Cluster, node_id: int, partition: int, epochs: list[int]) -> None:
    """Waits until the `leader-epoch-checkpoint` of a partition of FILES lists these epochs. It is written a
    little after the records, by a task of the background; its first two lines are a version and a count."""
    path = cluster.nodes[node_id].data / f"{FILES}-{partition}" / "leader-epoch-checkpoint"

    def found() -> bool | None:
        if not path.exists():
            return None
        lines = path.read_text().splitlines()
        return [int(line.split()[0]) for line in lines[2:]] == epochs or None

    cluster.wait(found, f"epochs {epochs} in {path}")


def test_a7_one_address_shows_all_three_brokers(cluster: Cluster, tool_server: ToolServer) -> None:
    address = cluster.nodes[1].client_address
    told = tool_server.run("kafka-broker-api-versions", "--bootstrap-server", address)
    assert told.code == 0, told.err
    heads = [line for line in told.lines if line.endswith("-> (")]
    assert told.lines.count(")") == len(heads)
    assert sorted(heads) == sorted(
        f"{node.client_address} (id: {node_id} rack: null isFenced: false) -> ("
        for node_id, node in cluster.nodes.items()
    )


def test_e11_two_partitions_with_two_replicas(cluster: Cluster, tool: Tool) -> None:
    assert create(cluster, tool, "flugdaten", 2, 2).code == 0
    first, second = describe(tool, "--topic", "flugdaten")
    assert first.leader != second.leader
    assert {*first.replicas, *second.replicas} == {1, 2, 3}
    for line in (first, second):
        assert line.leader == line.replicas[0]
        assert line.isr == line.replicas


def test_e18_each_broker_leads_one_and_four_replicas_are_too_many(cluster: Cluster, tool: Tool) -> None:
    assert create(cluster, tool, FAILOVER, 3, 3).lines == [f"Created topic {FAILOVER}."]
    lines = describe(tool, "--topic", FAILOVER)
    assert {line.leader for line in lines} == {1, 2, 3}
    assert all(line.leader == line.replicas[0] for line in lines)
    assert all(sorted(line.isr) == [1, 2, 3] for line in lines)
    refused = create(cluster, tool, "too-many", 3, 4)
    assert refused.code == 1
    assert refused.lines[0] == f"Error while executing topic command : {TOO_FEW_BROKERS}"
    assert tool("kafka-topics", "--delete", "--topic", FAILOVER).code == 0


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_e19_acks(tool: Tool, acks: str) -> None:
    produce(tool, "flugdaten", [f"acks={acks}"], "--command-property", f"acks={acks}")


def test_e19_all_of_it_is_there(cluster: Cluster, tool: Tool) -> None:
    assert sorted(consume_all(cluster, tool, "flugdaten", 3)) == ["acks=0", "acks=1", "acks=all"]


def test_e20_three_replicas_are_asked_for_and_one_broker_stops(cluster: Cluster, tool: Tool) -> None:
    assert create(cluster, tool, STRICT, 3, 3, "min.insync.replicas=3").code == 0
    assert all(sorted(line.isr) == [1, 2, 3] for line in describe(tool, "--topic", STRICT))
    cluster.nodes[3].stop()
    lines = await_isr(cluster, tool, STRICT, {1, 2})
    await_known(cluster, STRICT, 3, 2)
    assert all(line.leader in (1, 2) for line in lines)
    for acks in ("0", "1"):
        produce(tool, STRICT, [f"Nachricht mit acks={acks}"], "--command-property", f"acks={acks}")
    # The console producer's error goes to its log only, so another tool says what the client was told.
    produce(tool, STRICT, ["Nachricht mit acks=all"], "--command-property", "acks=all")
    one = ("--topic", STRICT, "--max-messages", "1", "--acks", "-1", "--bootstrap-server", cluster.bootstrap)
    refused = run_tool("kafka-verifiable-producer", *one)
    assert "NotEnoughReplicasException" in refused.out
    assert REJECTED in refused.out
    assert ends(tool, STRICT) == [f"{STRICT}:{index}:0" for index in range(3)]
    assert consume(tool, STRICT, "--from-beginning").lines == []


def test_e20_what_was_appended_is_seen_when_the_broker_is_back(cluster: Cluster, tool: Tool) -> None:
    cluster.nodes[3].start()
    cluster.await_brokers(1, 2, 3)
    await_isr(cluster, tool, STRICT, {1, 2, 3})
    assert sorted(consume_all(cluster, tool, STRICT, 2)) == ["Nachricht mit acks=0", "Nachricht mit acks=1"]


def test_e21_an_idempotent_producer(cluster: Cluster, tool: Tool) -> None:
    properties = ("--command-property", "acks=all", "--command-property", "enable.idempotence=true")
    produce(tool, STRICT, ["einmal"], *properties)
    assert "einmal" in consume_all(cluster, tool, STRICT, 3)


def test_e22_leaders_move_when_a_broker_stops(cluster: Cluster, tool: Tool) -> None:
    assert create(cluster, tool, FAILOVER, 3, 3, "min.insync.replicas=2").lines == [
        f"Created topic {FAILOVER}."
    ]
    before = describe(tool, "--topic", FAILOVER)
    cluster.nodes[3].stop()
    after = await_isr(cluster, tool, FAILOVER, {1, 2})
    for topic in (FAILOVER, STRICT):
        await_known(cluster, topic, 3, 2)
    for was, now in zip(before, after, strict=True):
        assert now.replicas == was.replicas
        assert now.leader == next(replica for replica in was.replicas if replica != 3)
    lacking = [line for line in describe(tool, "--under-replicated-partitions") if line.topic == FAILOVER]
    assert len(lacking) == 3
    under = describe(tool, "--under-min-isr-partitions")
    assert {line.topic for line in under} == {STRICT}


def test_2_e5_a_list_of_addresses_survives_a_dead_broker(cluster: Cluster, tool_server: ToolServer) -> None:
    """The third broker has stopped; whichever address is tried first, all topics are listed."""
    alone = [cluster.nodes[node_id].client_address for node_id in (1, 2)]
    dead = cluster.nodes[3].client_address
    listed = [
        tool_server.run("kafka-topics", "--list", "--bootstrap-server", servers)
        for servers in (*alone, ",".join([dead, *alone]), ",".join([*alone, dead]))
    ]
    assert {STRICT, FAILOVER, "flugdaten"} <= set(listed[0].lines)
    assert [(each.code, each.lines) for each in listed] == [(0, listed[0].lines)] * len(listed)


def test_e22_a_broker_that_is_back_leads_after_a_preferred_election(cluster: Cluster, tool: Tool) -> None:
    cluster.nodes[3].start()
    cluster.await_brokers(1, 2, 3)
    back = await_isr(cluster, tool, FAILOVER, {1, 2, 3})
    assert all(line.leader in (1, 2) for line in back)
    moved = [index for index, line in enumerate(back) if line.replicas[0] == 3]
    elected = elect_preferred(cluster, tool)
    assert "Successfully completed leader election (PREFERRED)" in elected.out
    assert all(f"{FAILOVER}-{index}" in elected.out for index in moved)
    assert f"{FAILOVER}-{next(i for i in range(3) if i not in moved)}" not in elected.out

    def led_by_preferred() -> list[Described] | None:
        lines = describe(tool, "--topic", FAILOVER)
        return lines if all(line.leader == line.replicas[0] for line in lines) else None

    now = cluster.wait(led_by_preferred, f"preferred leaders of {FAILOVER}")
    assert {line.leader for line in now} == {1, 2, 3}
    assert [line.isr for line in now] == [line.isr for line in back]


def test_2_e11_the_leader_epoch_grows_where_the_leader_changes(cluster: Cluster, tool: Tool) -> None:
    assert create(cluster, tool, FILES, 3, 3).code == 0
    produce(tool, FILES, [f"M{number}" for number in range(30)], "--command-property", "batch.size=1")
    before = {index: line.leader for index, line in enumerate(describe(tool, "--topic", FILES))}
    cluster.nodes[3].stop()
    await_isr(cluster, tool, FILES, {1, 2})
    produce(tool, FILES, [f"N{number}" for number in range(30)], "--command-property", "batch.size=1")
    for index, leader in before.items():
        await_leader_epochs(cluster, 1, index, [0, 1] if leader == 3 else [0])
    cluster.nodes[3].start()
    await_isr(cluster, tool, FILES, {1, 2, 3})
    elect_preferred(cluster, tool)
    produce(tool, FILES, [f"O{number}" for number in range(30)], "--command-property", "batch.size=1")
    led = next(index for index, leader in before.items() if leader == 3)
    await_leader_epochs(cluster, 3, led, [0, 1, 2])


def test_e18_four_replicas_with_a_fourth_broker(cluster: Cluster, tool: Tool) -> None:
    """What three brokers refuse; one of the four stops and comes back."""
    kind = KAFKAS if isinstance(cluster.nodes[1], GenuineNode) else OURS
    known = {"controller.quorum.bootstrap.servers": cluster.bootstrap_controllers}
    cluster.add(4, kind, BROKER, properties=known)
    cluster.format_node(4)
    cluster.start(4).await_brokers()
    assert create(cluster, tool, FOUR, 4, 4).lines == [f"Created topic {FOUR}."]
    lines = describe(tool, "--topic", FOUR)
    assert {line.leader for line in lines} == {1, 2, 3, 4}
    assert all(sorted(line.isr) == [1, 2, 3, 4] for line in lines)
    values = [f"M{number}" for number in range(20)]
    produce(tool, FOUR, values, "--command-property", "acks=all")
    cluster.nodes[4].stop()
    left = await_isr(cluster, tool, FOUR, {1, 2, 3})
    assert {line.leader for line in left} <= {1, 2, 3}
    cluster.nodes[4].start()
    cluster.await_brokers(1, 2, 3, 4)
    await_isr(cluster, tool, FOUR, {1, 2, 3, 4})
    assert sorted(consume_all(cluster, tool, FOUR, len(values))) == sorted(values)
