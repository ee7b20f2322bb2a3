"""What befalls a simulated cluster: each fault does what it says, ends by itself, and can be healed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import MACHINE_VERBS
from broker.simulation.cluster.network_faults import NETWORK_VERBS
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.verdict import without_logs

VERBS: Mapping[str, Verb] = {**MACHINE_VERBS, **NETWORK_VERBS}


def started(seed: int = 1, *, brokers_alone: int = 0) -> ClusterRun:
    """Three nodes of both roles, and so many more brokers; all are ready."""
    places = tuple(NodePlace(number, True, number <= 3) for number in range(1, 4 + brokers_alone))
    plan = ClusterPlan(places=places, topics=(), clients=(), weights={}, duration_ms=60_000)
    run = ClusterRun(seed, plan, [])
    with without_logs():
        run.start()
    return run


def play(run: ClusterRun, verb: str, whom: int = 0, random_bits: int = 1) -> str:
    """Node 1 for 0."""
    told = VERBS[verb].play(run, ClusterStep(0, verb, whom, random_bits))
    assert told is not None
    return told


def heal(run: ClusterRun, verb: str) -> None:
    healing = VERBS[verb].heal
    assert healing is not None
    healing(run)


def is_well(run: ClusterRun) -> bool:
    """All nodes are up, and all brokers know that all are unfenced."""
    return all(
        node.is_ready
        and (image := node.image) is not None
        and all(
            (broker := image.brokers.by_id.get(each)) is not None and not broker.fenced
            for each in run.world.nodes
        )
        for node in run.world.nodes.values()
    )


def until_well(run: ClusterRun, limit_ms: int = 120_000) -> None:
    with without_logs():
        run.world.loop.run_until(lambda: is_well(run), limit_ms=limit_ms)


@pytest.mark.parametrize("verb", ["kill", "stop"])
def test_a_node_that_goes_down_comes_back_by_itself(verb: str) -> None:
    run = started()
    node = run.world.nodes[1]
    with without_logs():
        play(run, verb)
        run.world.loop.run_until(lambda: not node.is_up, limit_ms=60_000)
    until_well(run)
    assert node.lives == 2


def test_whoever_is_down_starts_at_once_when_it_is_healed() -> None:
    run = started()
    play(run, "kill")
    assert not run.world.nodes[1].is_up
    heal(run, "kill")
    assert run.world.nodes[1].is_up


def test_a_node_that_stands_still_for_longer_than_its_session_is_fenced_and_goes_on() -> None:
    run = started()
    node = run.world.nodes[1]
    with without_logs():
        play(run, "pause", random_bits=next(bits for bits in range(100) if pause_ms(bits) > 15_000))
        run.world.loop.run_until(lambda: is_fenced(run, 1), limit_ms=30_000)
    assert node.machine.is_still
    until_well(run)
    assert node.lives == 1


def pause_ms(random_bits: int) -> int:
    from broker.simulation.cluster.machine_faults import drawn_duration_ms

    return drawn_duration_ms(ClusterStep(0, "pause", 0, random_bits).random())


def is_fenced(run: ClusterRun, node_id: int) -> bool:
    """As the last node knows it."""
    image = run.world.nodes[max(run.world.nodes)].image
    return image is not None and image.brokers.by_id[node_id].fenced


@pytest.mark.parametrize("verb", ["cut one way", "cut both ways"])
def test_a_cut_ends_by_itself(verb: str) -> None:
    run = started()
    with without_logs():
        for bits in range(5):
            play(run, verb, bits, bits)
        assert run.world.faults.kinds() == [verb] * 5
        run.world.loop.run_for(45_000)
    assert run.world.faults.kinds() == []
    assert run.world.coverage.counts["bytes came later, for the way was cut"]
    until_well(run)
