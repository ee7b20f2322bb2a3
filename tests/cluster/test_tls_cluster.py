"""Three nodes that speak TLS on all listeners: they elect, replicate and fail over, and show each other
certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.brokers.certificates import Authority, authority
from tests.support.brokers.cluster import FAST, OURS, Cluster
from tests.support.clients.librdkafka import settings, take, until

PROTOCOLS = "PLAINTEXT:SSL,CONTROLLER:SSL"


def stores(folder: Path, issuer: Authority, name: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": issuer.issue(name).write_pem(folder / f"{name}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority().write_certificate(folder / "ca.pem"),
    }


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
        at = settings(
            cluster.bootstrap,
            security_protocol="ssl",
            ssl_ca_location=own["ssl.truststore.location"],
            ssl_certificate_location=own["ssl.keystore.location"],
            ssl_key_location=own["ssl.keystore.location"],
        )
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
