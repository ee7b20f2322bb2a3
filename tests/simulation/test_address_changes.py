"""Nodes come back at another port, and whoever knew them at the former one finds them there."""

from __future__ import annotations

import pytest

from broker.simulation.cluster.address_changes import ADDRESS_VERBS
from broker.simulation.cluster.cluster_running import recipe_of
from broker.simulation.cluster.simulated_node import (
    BROKER_PORTS,
    CONTROLLER_LISTENER,
    CONTROLLER_PORT,
    CONTROLLER_PORTS,
)
from controller.raft.identity import Address
from tests.simulation.changing_cluster import ChangingCluster


def wait_until_in_sync(cluster: ChangingCluster, node_id: int) -> None:
    """It is back, and has copied what it had lost: any node may end without order again."""
    run = cluster.run
    node = run.world.nodes[node_id]
    cluster.until(lambda _: not node.is_up)
    cluster.until(lambda _: node.is_ready)
    cluster.until(lambda _: all(run.budget.may_end(each) for each in run.world.nodes.values()))


def test_a_broker_is_followed_to_another_port() -> None:
    """After an end in order and after others. It follows the others again, and they know where it is."""
    cluster = ChangingCluster(has_other_ports=True)
    node = cluster.run.world.nodes[2]
    told: list[str] = []
    for turn, bits in enumerate(range(0, 120, 20), start=1):
        told.append(cluster.play("move a broker", bits, whom=1))
        wait_until_in_sync(cluster, 2)
        port = BROKER_PORTS[turn % 2]
        assert node.place.broker_port == port
        assert [each.port for each in cluster.image.brokers.by_id[2].endpoints.values()] == [port]
    assert any("asked to stop" in each for each in told)
    assert any("asked to stop" not in each for each in told)


def test_voters_are_found_at_another_port() -> None:
    """One after the other, until each has another address: the quorum's log tells it, and brokers follow."""
    cluster = ChangingCluster(is_dynamic=True, has_other_ports=True)
    nodes = cluster.run.world.nodes
    for whom, node_id in enumerate((1, 2, 3)):
        wanted = Address(f"node-{node_id}", CONTROLLER_PORTS[1])

        def is_known_to_all(node_id: int = node_id, wanted: Address = wanted) -> bool:
            replicas = [node.quorum_replica for node in nodes.values()]
            return all(
                raft is not None and raft.voters.by_id[node_id].endpoints[CONTROLLER_LISTENER] == wanted
                for raft in replicas
            )

        cluster.play("move a controller", whom=whom)
        wait_until_in_sync(cluster, node_id)
        cluster.until(lambda _: is_known_to_all())
    assert all(nodes[number].place.controller_port != CONTROLLER_PORT for number in (1, 2, 3))


def test_a_voter_waits_until_the_one_before_is_known() -> None:
    """Two of three that have moved, and have not told anybody, could not elect a leader."""
    cluster = ChangingCluster(is_dynamic=True, has_other_ports=True)
    cluster.play("move a controller", whom=0)
    with pytest.raises(AssertionError, match="found nothing to do"):
        cluster.play("move a controller", whom=1)


def test_addresses_stay_where_nothing_else_is_said() -> None:
    """Clients and nodes look for others at a second port only where somebody may be there."""
    plans = [recipe_of(seed, 1_000).plan for seed in range(1, 40)]
    for plan in plans:
        assert plan.has_other_ports == any(verb in plan.weights for verb in ADDRESS_VERBS)
    assert {plan.has_other_ports for plan in plans} == {True, False}
