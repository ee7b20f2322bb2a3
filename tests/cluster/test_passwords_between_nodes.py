"""Nodes that log in to each other: by PLAIN to controllers and by SCRAM to brokers, in sessions that end."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import FAST, KAFKAS, OURS
from tests.support.brokers.cut_network import CutNetwork
from tests.support.brokers.replica_logs import await_same_logs
from tests.support.brokers.with_passwords import PASSWORDS, PLAIN_MODULE, SCRAM_MODULE, set_passwords
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all

MAP = "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT"
PASSWORD = PASSWORDS["SCRAM-SHA-256"]


def guarded(mechanism: str, jaas: str) -> dict[str, str]:
    """The properties of nodes whose brokers use this mechanism, and whose controllers use PLAIN."""
    return {
        "listener.security.protocol.map": MAP,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.internal.sasl.enabled.mechanisms": mechanism,
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="node" password="c" user_node="c";'
        ),
        "connections.max.reauth.ms": "2000",
    }


SCRAM = guarded("SCRAM-SHA-256", f'{SCRAM_MODULE} required username="alice" password="{PASSWORD}";')
PLAIN = guarded("PLAIN", f'{PLAIN_MODULE} required username="b" password="p" user_b="p";')


def test_three_nodes_copy_from_each_other_when_they_may_log_in_and_one_takes_over(
    new_cluster: NewCluster,
) -> None:
    """No broker knows the password of the others at first, so nothing is copied. When it is set the logins
    that are tried again succeed. More is written than lasts a session."""
    network = CutNetwork()
    cluster = new_cluster(OURS, OURS, OURS, network=network, **FAST, **SCRAM)
    create_placed(cluster.bootstrap, "copied", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    refused = "the login is refused, and is tried again: Authentication failed during authentication"
    cluster.wait(
        lambda: all(refused in node.log_tail(100_000) for node in cluster.nodes.values()) or None,
        "nodes that say so",
    )
    for node in cluster.nodes.values():
        assert PASSWORD not in node.log_tail(1_000_000)
    set_passwords(cluster.bootstrap)
    write_to_all(cluster.bootstrap, "copied", partitions=3, count=100)
    await_same_logs(cluster, "copied", range(3), 100)
    cluster.nodes[1].kill()
    cluster.await_brokers(2, 3)
    write_to_all(cluster.bootstrap, "copied", partitions=3, count=100, first=100)
    cluster.nodes[1].start()
    cluster.await_brokers(1, 2, 3)
    await_same_logs(cluster, "copied", range(3), 200)
    assert read_all(cluster.bootstrap, "copied", partitions=3, count=200) == numbered_values(3, 200)


@pytest.mark.java
def test_nodes_of_kafka_and_ours_log_in_to_each_other(new_cluster: NewCluster) -> None:
    network = CutNetwork()
    cluster = new_cluster(OURS, KAFKAS, network=network, **FAST, **PLAIN)
    create_placed(cluster.bootstrap, "copied", [[1, 2], [2, 1]])
    write_to_all(cluster.bootstrap, "copied", partitions=2, count=100)
    await_same_logs(cluster, "copied", range(2), 100)
    assert read_all(cluster.bootstrap, "copied", partitions=2, count=100) == numbered_values(2, 100)
