"""Three nodes that speak TLS on all listeners: they elect, replicate and fail over, and show each other
certificates."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.brokers.certificates import Authority, authority
from tests.support.brokers.cluster import FAST, KAFKAS, OURS, Cluster
from tests.support.clients.librdkafka import settings, take, until
from tests.support.genuine.tool_server import ToolServer

PROTOCOLS: Final = "PLAINTEXT:SSL,CONTROLLER:SSL"


def stores(folder: Path, issuer: Authority, name: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": issuer.issue(name).write_pem(folder / f"{name}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority().write_certificate(folder / "ca.pem"),
    }


def client(cluster: Cluster, own: Mapping[str, str]) -> dict[str, Any]:
    """librdkafka's settings for a client that shows the nodes' own certificate."""
    return settings(
        cluster.bootstrap,
        security_protocol="ssl",
        ssl_ca_location=own["ssl.truststore.location"],
        ssl_certificate_location=own["ssl.keystore.location"],
        ssl_key_location=own["ssl.keystore.location"],
    )


def test_three_nodes_over_tls_fail_over(tmp_path: Path) -> None:
    own = stores(tmp_path / "certificates", authority(), "node")
    given = {
        **FAST,
        "broker.session.timeout.ms": "2000",
        "listener.security.protocol.map": PROTOCOLS,
        "ssl.client.auth": "required",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        **own,
    }
    tls = ssl.create_default_context(cafile=own["ssl.truststore.location"])
    tls.load_cert_chain(own["ssl.keystore.location"])
    with Cluster(tmp_path, [OURS] * 3, properties=given, tls=tls) as cluster:
        cluster.format().start()
        cluster.await_brokers()
        at = client(cluster, own)
        admin = AdminClient(at)
        admin.create_topics([NewTopic("flights", 3, 3)])["flights"].result(60)
        producer = Producer(at | {"enable.idempotence": True})
        for number in range(300):
            producer.produce("flights", b"%d" % number, partition=number % 3)
        assert producer.flush(60) == 0
        cluster.nodes[1].kill()
        for number in range(300, 600):
            producer.produce("flights", b"%d" % number, partition=number % 3)
        assert producer.flush(90) == 0
        consumer = Consumer(at | {"group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["flights"])
        assert sorted(int(message.value() or b"") for message in take(consumer, 600)) == list(range(600))
        consumer.close()


def test_a_node_with_a_stranger_s_certificate_does_not_come_in(tmp_path: Path) -> None:
    given = {**FAST, "listener.security.protocol.map": PROTOCOLS, "ssl.client.auth": "required"}
    own = stores(tmp_path / "certificates", authority(), "node")
    strange = stores(tmp_path / "strange", Authority("a stranger"), "node")
    tls = ssl.create_default_context(cafile=own["ssl.truststore.location"])
    tls.load_cert_chain(own["ssl.keystore.location"])
    with Cluster(tmp_path, [OURS], properties=given | own, tls=tls) as cluster:
        cluster.format().start()
        cluster.await_brokers()
        cluster.add(2, OURS, "broker", properties=strange)
        cluster.format_node(2).begin()
        first, second = cluster.nodes[1], cluster.nodes[2]
        until(lambda: "certificate is refused" in first.log_tail(20_000), "node 1 refuses node 2")
        assert cluster.alive_brokers(1) == [1]
        assert "on listener CONTROLLER: the peer's certificate is refused" in first.log_tail(20_000)
        assert second.is_running


@pytest.mark.java
def test_beside_nodes_of_kafka(tmp_path: Path, tool_server: ToolServer) -> None:
    """A node of each kind, controller and broker: whoever connects trusts the other's certificate."""
    own = stores(tmp_path / "certificates", authority(), "node")
    given = {**FAST, "listener.security.protocol.map": PROTOCOLS, "ssl.client.auth": "required", **own}
    tls = ssl.create_default_context(cafile=own["ssl.truststore.location"])
    tls.load_cert_chain(own["ssl.keystore.location"])
    with Cluster(tmp_path, [OURS, KAFKAS], properties=given, tls=tls, tools=tool_server) as cluster:
        cluster.format().start()
        cluster.await_brokers()
        at = client(cluster, own)
        admin = AdminClient(at)
        admin.create_topics([NewTopic("spread", 2, 2)])["spread"].result(60)
        producer = Producer(at | {"enable.idempotence": True})
        for number in range(300):
            producer.produce("spread", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        partitions = admin.list_topics("spread", timeout=30).topics["spread"].partitions.values()
        assert sorted(each.leader for each in partitions) == [1, 2]
        until(lambda: all_in_sync(admin), "all replicas are in sync")
        consumer = Consumer(at | {"group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["spread"])
        assert sorted(int(message.value() or b"") for message in take(consumer, 300)) == list(range(300))
        consumer.close()


def all_in_sync(admin: AdminClient) -> bool:
    partitions = admin.list_topics("spread", timeout=30).topics["spread"].partitions.values()
    return all(len(each.isrs) == 2 for each in partitions)
