"""A world of nodes and clients: what is in it runs, is watched after every turn, and is always the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from broker.ports.surroundings import LoopWatch, Surroundings
from broker.simulation.cluster.client import SimulatedClient
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.simulated_node import (
    BROKER_PORT,
    CONTROLLER_PORT,
    DATA,
    NodePlace,
    SimulatedNode,
)
from broker.simulation.cluster.surroundings import Machine
from broker.simulation.histories.history import Event
from broker.simulation.verdict import without_logs
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.registry import ApiKey
from protocol.serving.request_context import RequestContext
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, read_clean_shutdown


class Counting:
    """A rule that holds, and counts what it is shown."""

    def __init__(self) -> None:
        self.turns: dict[int, int] = {}

    def after_turn(self, node: SimulatedNode) -> None:
        self.turns[node.node_id] = self.turns.get(node.node_id, 0) + 1

    def has_ended(self, node: SimulatedNode) -> None: ...

    def has_happened(self, event: Event) -> None: ...


def started_world(seed: int, rule: Counting) -> ClusterWorld:
    places = [NodePlace(number, True, number <= 3) for number in (1, 2, 3, 4)]
    world = ClusterWorld(seed, places)
    world.rules.append(rule)
    with without_logs():
        world.start_all()
    return world


def test_nodes_of_both_roles_and_brokers_alone_become_one_cluster() -> None:
    rule = Counting()
    world = started_world(1, rule)
    client = SimulatedClient(world.network, "client-1", world.seed)
    seen: list[int] = []

    async def look() -> None:
        while len(seen) < 4:
            answer = await client.ask("node-4", BROKER_PORT, MetadataRequest(topics=[]))
            assert isinstance(answer, MetadataResponse)
            seen[:] = sorted(broker.node_id for broker in answer.brokers)
            await client.sleep_ms(100)

    client.begin(look())
    world.loop.run_until(lambda: client.is_over, limit_ms=30_000)
    assert seen == [1, 2, 3, 4]
    assert all(rule.turns[number] > 10 for number in (1, 2, 3, 4))
    again = started_world(1, Counting())
    assert again.network.digest != started_world(2, Counting()).network.digest


def test_a_quorum_may_be_dynamic_and_a_cluster_begin_with_other_levels() -> None:
    places = [NodePlace(number, True, number <= 2) for number in (1, 2, 3)]
    world = ClusterWorld(1, places, is_dynamic=True, features={"eligible.leader.replicas.version": 0})
    with without_logs():
        world.start_all()
    broker = world.nodes[3]
    assert broker.node is not None
    assert broker.node.replica is not None
    assert broker.node.replica.log.kraft_version == 1
    assert broker.image is not None
    assert broker.image.features.level("eligible.leader.replicas.version") == 0
    assert broker.image.features.level("transaction.version") == 2


def test_a_node_that_shuts_down_listens_until_the_controller_lets_it_go() -> None:
    """Whoever leads the quorum is the only one who can move leaders, so the others must reach it."""
    world = started_world(3, Counting())
    node = world.nodes[1]
    ports = {(node.place.host, BROKER_PORT), (node.place.host, CONTROLLER_PORT)}
    node.machine.stop()
    world.loop.run_for(1)
    assert node.node is not None
    assert node.node.is_stopping
    assert ports <= world.network.listeners.keys()
    world.loop.run_until(lambda: not node.is_up, limit_ms=20_000)
    assert not ports & world.network.listeners.keys()


def test_a_life_without_a_registration_leaves_the_clean_end_of_the_one_before() -> None:
    """Otherwise the controller takes the broker out of the ISR as one that has crashed."""
    world = started_world(3, Counting())
    node = world.nodes[4]
    assert node.broker is not None
    epoch = node.broker.lifecycle.epoch
    for life in (1, 2):
        node.machine.stop()
        world.loop.run_until(lambda: not node.is_up, limit_ms=20_000)
        assert read_clean_shutdown(node.machine.files, f"{DATA}/{CLEAN_SHUTDOWN_FILE}") == epoch, life
        node.start()
    world.loop.run_until(lambda: node.is_ready, limit_ms=20_000)
    assert node.broker is not None
    assert node.broker.lifecycle.epoch > epoch


def test_the_watchdog_hears_of_the_requests_of_both_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings_of = Machine.surroundings
    asks: list[Callable[[], RequestContext | None]] = []

    def watched(machine: Machine) -> Surroundings:
        usual = surroundings_of(machine)

        def watch(current: Callable[[], RequestContext | None]) -> LoopWatch:
            asks.append(current)
            return usual.watch_loop(current)

        return replace(usual, watch_loop=watch)

    class Seen(Counting):
        def after_turn(self, node: SimulatedNode) -> None:
            context = asks[0]()
            if context is not None:
                seen.add(context.api_key)

    seen: set[int] = set()
    monkeypatch.setattr(Machine, "surroundings", watched)
    world = ClusterWorld(1, [NodePlace(1, True, True)])
    world.rules.append(Seen())
    client = SimulatedClient(world.network, "client-1", world.seed)
    with without_logs():
        world.start_all()

    async def ask() -> None:
        await client.ask("node-1", BROKER_PORT, MetadataRequest(topics=[]))

    client.begin(ask())
    world.loop.run_until(lambda: client.is_over, limit_ms=30_000)
    world.loop.run_for(5_000)
    assert {ApiKey.METADATA, ApiKey.BROKER_HEARTBEAT} <= seen
