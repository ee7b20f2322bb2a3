"""A broker's replica of the metadata log: snapshots, what tools and metrics say of it, and long pauses."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BROKER, CONTROLLER, FAST, KAFKAS, OURS, Cluster
from tests.support.brokers.ports import free_ports
from tests.support.brokers.quorum import ABOUT_METADATA, config_change
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.tool_server import ToolServer

SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.log.segment.bytes": str(8 << 20),
    "metadata.max.retention.bytes": "100",
}


def change_configs(cluster: Cluster, count: int) -> None:
    """So many records of the metadata log."""
    with WireClient(cluster.nodes[1].address) as client:
        for number in range(count):
            answer = client.ask_for(IncrementalAlterConfigsResponse, config_change(1_000_000 + number), 1)
            assert answer.responses[0].error_code == 0


def page(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


@pytest.mark.parametrize(("controller", "newcomer"), [(OURS, OURS), (KAFKAS, OURS), (OURS, KAFKAS)])
def test_a_broker_that_comes_late_begins_with_a_snapshot(
    new_cluster: NewCluster, tool_server: ToolServer, controller: str, newcomer: str
) -> None:
    cluster = new_cluster(controller, OURS, roles=[CONTROLLER, BROKER], **SMALL_SNAPSHOTS, **FAST)
    cluster.tools = tool_server
    create_placed(cluster.bootstrap, "early", [[2]])
    change_configs(cluster, 60)
    cluster.nodes[1].await_snapshots(1)
    cluster.nodes[2].await_snapshots(1)
    late = cluster.add(3, newcomer, BROKER)
    cluster.format_node(3)
    late.start()
    cluster.await_brokers(2, 3)
    metadata = cluster.metadata(3, "early")
    assert metadata is not None
    assert metadata.topics[0].partitions[0].leader_id == 2
    create_placed(cluster.bootstrap, "late", [[3], [2]])
    write_to_all(cluster.bootstrap, "late", partitions=2, count=20)
    cluster.nodes[2].kill()
    cluster.nodes[2].start()
    cluster.await_brokers(2, 3)
    assert read_all(cluster.bootstrap, "late", partitions=2, count=20) == numbered_values(2, 20)
    assert not list(cluster.nodes[2].data.glob("*-stray"))


def test_tools_and_metrics_know_a_broker_as_an_observer(
    new_cluster: NewCluster, tool_server: ToolServer
) -> None:
    cluster = new_cluster(OURS, OURS, OURS, roles=[CONTROLLER, BROKER, BROKER], start=False)
    admin = f"127.0.0.1:{free_ports(1)[0]}"
    cluster.nodes[3].properties["barnabas.admin.listener"] = admin
    cluster.start()
    cluster.await_brokers()
    for where in (
        ("--bootstrap-server", cluster.nodes[2].client_address),
        ("--bootstrap-controller", cluster.bootstrap_controllers),
    ):
        told = tool_server.run("kafka-metadata-quorum", *where, "describe", "--replication")
        rows = [line.split() for line in told.out.splitlines()]
        roles = {row[0]: row[-1] for row in rows if row and row[0].isdigit()}
        assert roles == {"1": "Leader", "2": "Observer", "3": "Observer"}, told.out + told.err
    # Others may know of its being unfenced before it has the answer to its heartbeat.
    cluster.wait(lambda: page(admin, "/readyz") == (200, "ok\n") or None, "broker that says that it is ready")
    _, metrics = page(admin, "/metrics")
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert values['kafka_server_raftmetrics_current_state{current_state="observer"}'] == "1"
    assert values["kafka_server_raftmetrics_current_leader"] == "1"
    assert values["kafka_server_metadataloader_currentcontrollerid"] == "1"
    assert int(values["kafka_server_brokermetadatametrics_last_applied_record_offset"]) > 0
    assert not any(name.startswith("kafka_controller_kafkacontroller_") for name in values)


def test_a_broker_that_slept_longer_than_its_session_comes_back(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, roles=[CONTROLLER, BROKER, BROKER], **FAST)
    create_placed(cluster.bootstrap, "slept", [[2], [3]])
    write_to_all(cluster.bootstrap, "slept", partitions=2, count=20)
    cluster.nodes[3].pause()
    cluster.wait(lambda: cluster.alive_brokers(2) == [2] or None, "fenced broker 3")
    cluster.nodes[3].resume()
    cluster.await_brokers(2, 3)
    write_to_all(cluster.bootstrap, "slept", partitions=2, count=20, first=20)
    assert read_all(cluster.bootstrap, "slept", partitions=2, count=40) == numbered_values(2, 40)


def test_a_broker_is_unregistered_and_registers_again(
    new_cluster: NewCluster, tool_server: ToolServer
) -> None:
    cluster = new_cluster(OURS, OURS, OURS, roles=[CONTROLLER, BROKER, BROKER], **FAST)
    where = ("--bootstrap-server", cluster.nodes[2].client_address)
    cluster.nodes[3].stop()
    cluster.await_brokers(2)
    told = tool_server.run("kafka-cluster", "unregister", *where, "--id", "3")
    assert told.code == 0, told.out + told.err
    again = tool_server.run("kafka-cluster", "unregister", *where, "--id", "3")
    assert "Broker ID 3 is not currently registered" in again.out + again.err
    cluster.nodes[3].start()
    cluster.await_brokers(2, 3)


def test_what_a_silent_controller_was_asked_goes_to_its_successor(new_cluster: NewCluster) -> None:
    """A controller that stands still keeps its connections: nothing breaks, and nothing is answered."""
    cluster = new_cluster(OURS, OURS, OURS, OURS, roles=[CONTROLLER] * 3 + [BROKER])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "socket.timeout.ms": "60000"})
    create_placed(cluster.bootstrap, "before", [[4]])
    active = cluster.wait(
        lambda: next((each for each in (1, 2, 3) if leads(cluster, each)), None), "active controller"
    )
    cluster.nodes[active].pause()
    (outcome,) = admin.create_topics([NewTopic("after", 1, 1)], request_timeout=60).values()
    outcome.result(60)
    cluster.nodes[active].resume()


def leads(cluster: Cluster, node_id: int) -> bool:
    with WireClient(cluster.nodes[node_id].address) as client:
        answer = client.ask_for(DescribeQuorumResponse, ABOUT_METADATA, 2)
    partition = answer.topics[0].partitions[0]
    return not partition.error_code and partition.leader_id == node_id
