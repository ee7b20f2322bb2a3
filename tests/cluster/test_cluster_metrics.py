"""Kafka's metrics of replication and of the cluster, read from three nodes while a replica falls behind, a
partition is reassigned and a broker leaves: they move from their rest, and back to it."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Mapping
from typing import Final

from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BOTH, BROKER, FAST, OURS, Cluster
from tests.support.brokers.ports import free_ports
from tests.support.brokers.quorum import BROKER_RESOURCE
from tests.support.clients.spread import create_placed, write_to_all
from tests.support.clients.wire_client import WireClient

TOPIC: Final = 2
SET: Final = 0
DELETE: Final = 1

MANAGER: Final = "kafka_server_replicamanager_"
FETCHERS: Final = "kafka_server_replicafetchermanager_"
TOPICS: Final = "kafka_server_brokertopicmetrics_"
PARTITION: Final = "kafka_cluster_partition_"
CONTROLLER: Final = "kafka_controller_kafkacontroller_"
STATISTICS: Final = "kafka_controller_controllerstats_"

OF_BROKERS: Final = {
    **{
        MANAGER + each: "gauge"
        for each in (
            "underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount", "leadercount",
            "partitioncount", "offlinereplicacount", "reassigningpartitions", "produceridcount",
        )
    },
    **{f"{MANAGER}{each}_total": "counter" for each in ("isrshrinks", "isrexpands", "failedisrupdates")},
    **{
        FETCHERS + each: "gauge"
        for each in ("maxlag", "minfetchrate", "failedpartitionscount", "deadthreadcount")
    },
    "kafka_server_fetcherlagmetrics_consumerlag": "gauge",
    "kafka_server_fetcherstats_bytes_total": "counter",
    "kafka_server_fetcherstats_requests_total": "counter",
    "kafka_server_leaderreplication_byte_rate": "gauge",
    "kafka_server_followerreplication_byte_rate": "gauge",
    **{
        PARTITION + each: "gauge"
        for each in ("underreplicated", "underminisr", "atminisr", "insyncreplicascount", "replicascount")
    },
    **{
        f"{TOPICS}{each}_total": "counter"
        for each in (
            "replicationbytesin", "replicationbytesout", "reassignmentbytesin", "reassignmentbytesout",
            "totalproducerequests", "totalfetchrequests", "failedproducerequests", "failedfetchrequests",
            "messagesin", "bytesin", "bytesout",
        )
    },
    "kafka_server_delayedoperationpurgatory_purgatorysize": "gauge",
    "kafka_server_delayedoperationpurgatory_numdelayedoperations": "gauge",
    "kafka_server_fetchsessioncache_numincrementalfetchsessions": "gauge",
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached": "gauge",
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total": "counter",
    "kafka_log_log_numlogsegments": "gauge",
    "kafka_log_logmanager_logdirectoryoffline": "gauge",
    "kafka_log_logmanager_offlinelogdirectorycount": "gauge",
    "kafka_server_kafkaserver_brokerstate": "gauge",
}  # fmt: skip
OF_CONTROLLERS: Final = {
    **{
        CONTROLLER + each: "gauge"
        for each in (
            "activecontrollercount", "activebrokercount", "fencedbrokercount",
            "controlledshutdownbrokercount", "globaltopiccount", "globalpartitioncount",
            "offlinepartitionscount", "preferredreplicaimbalancecount", "timedoutbrokerheartbeatcount",
        )
    },
    STATISTICS + "uncleanleaderelections_total": "counter",
    STATISTICS + "electionfromeligibleleaderreplicas_total": "counter",
}  # fmt: skip

LAG: Final = FETCHERS + 'maxlag{clientId="Replica"}'
LAG_OF_T: Final = (
    'kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-1",topic="t",partition="0"}'
)
AT_REST: Final = {
    1: {
        MANAGER + "underreplicatedpartitions": 0,
        MANAGER + "underminisrpartitioncount": 0,
        MANAGER + "atminisrpartitioncount": 0,
        MANAGER + "reassigningpartitions": 0,
        MANAGER + "offlinereplicacount": 0,
        MANAGER + "leadercount": 2,
        CONTROLLER + "activebrokercount": 3,
        CONTROLLER + "fencedbrokercount": 0,
        CONTROLLER + "offlinepartitionscount": 0,
        CONTROLLER + "preferredreplicaimbalancecount": 0,
        CONTROLLER + "globalpartitioncount": 3,
        STATISTICS + "uncleanleaderelections_total": 0,
    },
    2: {LAG: 0, MANAGER + "partitioncount": 2},
    3: {LAG: 0, MANAGER + "atminisrpartitioncount": 1},
}
"""By node. `lonely`, which node 3 leads, always has just as many replicas in sync as it must have."""


class Scraped:
    """The admin ports of a cluster's nodes."""

    def __init__(self, cluster: Cluster, admins: Mapping[int, str]) -> None:
        self.cluster = cluster
        self._admins = admins

    def page(self, node_id: int) -> str:
        with urllib.request.urlopen(f"http://{self._admins[node_id]}/metrics", timeout=30) as answer:
            return answer.read().decode()  # type: ignore[no-any-return]

    def values(self, node_id: int) -> dict[str, float]:
        """By name and labels as they are written."""
        lines = (line.rsplit(" ", 1) for line in self.page(node_id).splitlines() if line[0] != "#")
        return {name: float(value) for name, value in lines}

    def kinds(self, node_id: int) -> dict[str, str]:
        """ "gauge" or "counter", by name."""
        lines = (line.split() for line in self.page(node_id).splitlines() if line.startswith("# TYPE"))
        return {name: kind for _, _, name, kind in lines}

    def await_values(self, node_id: int, wanted: Mapping[str, float]) -> dict[str, float]:
        """All values of the node, as soon as these are there."""

        def found() -> dict[str, float] | None:
            values = self.values(node_id)
            return values if all(values.get(name) == value for name, value in wanted.items()) else None

        return self.cluster.wait(found, f"metrics {wanted} of node {node_id}")

    def await_above(self, node_id: int, *names: str, before: Callable[[], None] | None = None) -> None:
        """Waits until these are above 0. before: is called before each look."""

        def found() -> bool | None:
            if before is not None:
                before()
            values = self.values(node_id)
            return all(values.get(name, 0) > 0 for name in names) or None

        self.cluster.wait(found, f"metrics {names} of node {node_id} above 0")

    def await_rest(self) -> None:
        for node_id, values in AT_REST.items():
            self.await_values(node_id, values)


def start(new_cluster: NewCluster) -> Scraped:
    """Node 1 is the controller. Nobody is fenced for its silence, and what a throttle has counted is
    remembered for an hour."""
    given = FAST | {"broker.session.timeout.ms": "600000", "replication.quota.window.num": "3600"}
    properties = {key.replace(".", "_"): value for key, value in given.items()}
    cluster = new_cluster(OURS, OURS, OURS, roles=[BOTH, BROKER, BROKER], start=False, **properties)
    admins = {node_id: f"127.0.0.1:{port}" for node_id, port in enumerate(free_ports(3), 1)}
    for node_id, address in admins.items():
        cluster.nodes[node_id].properties["barnabas.admin.listener"] = address
    cluster.start()
    cluster.await_brokers()
    return Scraped(cluster, admins)


def configure(cluster: Cluster, kind: int, name: str, key: str, value: str | None) -> None:
    """None: the setting goes. Node 1 is asked itself: a client that asks the "controller" goes to any broker
    that is alive for the cluster, and that may be the one that stands still."""
    cls = IncrementalAlterConfigsRequest
    change = cls.AlterableConfig(key, SET if value is not None else DELETE, value)
    wanted = cls([cls.AlterConfigsResource(kind, name, [change])])
    with WireClient(cluster.nodes[1].client_address) as client:
        answer = client.ask_for(IncrementalAlterConfigsResponse, wanted, 1)
    assert [each.error_code for each in answer.responses] == [0], answer


def throttle(cluster: Cluster, *, is_on: bool) -> None:
    """Leaders on node 1 send followers that are out of sync nothing, once one that is in sync has read."""
    for topic in ("t", "moved"):
        key = "leader.replication.throttled.replicas"
        configure(cluster, TOPIC, topic, key, "*" if is_on else None)
    key = "leader.replication.throttled.rate"
    configure(cluster, BROKER_RESOURCE, "1", key, "1" if is_on else None)


def reassign(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    cls = AlterPartitionReassignmentsRequest
    moved = cls.ReassignableTopic(topic, [cls.ReassignablePartition(0, replicas)])
    with WireClient(cluster.nodes[1].client_address) as client:
        answer = client.ask_for(AlterPartitionReassignmentsResponse, cls(30_000, topics=[moved]), 0)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)


def test_metrics_tell_of_replicas_that_fall_behind_move_and_leave(new_cluster: NewCluster) -> None:
    scraped = start(new_cluster)
    cluster = scraped.cluster
    create_placed(cluster.bootstrap, "t", [[1, 2, 3]])
    create_placed(cluster.bootstrap, "moved", [[1, 2]])
    create_placed(cluster.bootstrap, "lonely", [[3]])
    configure(cluster, TOPIC, "t", "min.insync.replicas", "2")
    leader = cluster.nodes[1].client_address
    for topic in ("t", "moved"):
        write_to_all(leader, topic, partitions=1, count=100)
    scraped.await_rest()
    for node_id, expected in ((1, OF_BROKERS | OF_CONTROLLERS), (2, OF_BROKERS), (3, OF_BROKERS)):
        kinds = scraped.kinds(node_id)
        assert {name: kinds.get(name) for name in expected} == expected
        assert any(name.startswith(CONTROLLER) for name in kinds) is (node_id == 1)

    cluster.nodes[3].pause()
    write_to_all(leader, "t", partitions=1, count=10)
    less = {MANAGER + "underreplicatedpartitions": 1, MANAGER + "atminisrpartitioncount": 1}
    values = scraped.await_values(1, less)
    assert values[PARTITION + 'underreplicated{topic="t",partition="0"}'] == 1
    assert values[PARTITION + 'insyncreplicascount{topic="t",partition="0"}'] == 2
    assert values[MANAGER + "isrshrinks_total"] >= 1

    throttle(cluster, is_on=True)
    rate = "kafka_server_leaderreplication_byte_rate"
    scraped.await_above(1, rate, before=lambda: write_to_all(leader, "t", partitions=1, count=1_000))
    cluster.nodes[3].resume()
    scraped.await_above(3, LAG, LAG_OF_T)
    reassign(cluster, "moved", [1, 2, 3])
    scraped.await_values(1, less | {MANAGER + "reassigningpartitions": 1})
    assert scraped.values(1)[TOPICS + "reassignmentbytesout_total"] == 0

    throttle(cluster, is_on=False)
    scraped.await_rest()
    assert scraped.values(1)[MANAGER + "isrexpands_total"] >= 2
    assert scraped.values(3)[LAG_OF_T] == 0
    for node_id, way in ((1, "out"), (3, "in")):
        values = scraped.values(node_id)
        assert (
            values[f"{TOPICS}replicationbytes{way}_total"] > values[f"{TOPICS}reassignmentbytes{way}_total"]
        )
        assert values[f"{TOPICS}reassignmentbytes{way}_total"] > 0

    cluster.nodes[3].stop()
    scraped.await_values(
        1,
        {
            CONTROLLER + "fencedbrokercount": 1,
            CONTROLLER + "activebrokercount": 2,
            CONTROLLER + "offlinepartitionscount": 1,
            CONTROLLER + "preferredreplicaimbalancecount": 1,
            MANAGER + "underreplicatedpartitions": 2,
        },
    )
    cluster.nodes[3].start()
    scraped.await_rest()
