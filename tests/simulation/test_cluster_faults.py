"""What befalls a simulated cluster: each fault does what it says, ends by itself, and can be healed."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from broker.simulation.cluster.cluster_plan import ClusterPlan
from broker.simulation.cluster.cluster_run import ClusterRun
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.disk_faults import CLOCK_VERBS, DISK_VERBS
from broker.simulation.cluster.host_files import SYNCS, WRITES, DiskFault
from broker.simulation.cluster.machine_faults import MACHINE_VERBS, drawn_duration_ms
from broker.simulation.cluster.network_faults import NETWORK_VERBS
from broker.simulation.cluster.simulated_node import NodePlace
from broker.simulation.cluster.surroundings import Halted
from broker.simulation.verdict import Violation, without_logs
from controller.metadata.image.brokers import LOST_DIRECTORY
from tests.simulation.cluster_by_hand import PRODUCER, TOPIC, ClusterByHand

VERBS: Mapping[str, Verb] = {**MACHINE_VERBS, **NETWORK_VERBS, **DISK_VERBS, **CLOCK_VERBS}


def started(
    seed: int = 1, *, brokers_alone: int = 0, properties: Mapping[str, str] = MappingProxyType({})
) -> ClusterRun:
    """Three nodes of both roles, and so many more brokers; all are ready."""
    numbers = range(1, 4 + brokers_alone)
    places = tuple(NodePlace(number, True, number <= 3, properties) for number in numbers)
    plan = ClusterPlan(places=places, topics=(), clients=(), weights={}, duration_ms=60_000)
    run = ClusterRun(seed, plan, [])
    run.world.rules.clear()  # they have tests of their own
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
    return drawn_duration_ms(ClusterStep(0, "pause", 0, random_bits).random())


def is_fenced(run: ClusterRun, node_id: int) -> bool:
    """As the last node knows it."""
    image = run.world.nodes[max(run.world.nodes)].image
    return image is not None and image.brokers.by_id[node_id].fenced


CUTS = ("cut one way", "cut both ways", "isolate", "split", "isolate from controllers")


@pytest.mark.parametrize("verb", CUTS)
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


def test_a_cut_can_be_healed_at_once() -> None:
    run = started()
    with without_logs():
        for verb in CUTS:
            play(run, verb, 1)
        for verb in CUTS:
            heal(run, verb)
    names = [node.place.host for node in run.world.nodes.values()]
    assert run.world.faults.kinds() == []
    assert not any(run.world.network.links.is_cut(one, other) for one in names for other in names)


@pytest.mark.parametrize(
    "verb", ["slow link", "reset connections", "lose answers", "hold connections", "refuse connections"]
)
def test_the_cluster_bears_links_that_are_bad(verb: str) -> None:
    run = started()
    with without_logs():
        for bits in range(5):
            play(run, verb, bits, bits)
            run.world.loop.run_for(1_000)
        if VERBS[verb].heal is not None:
            heal(run, verb)
    assert run.world.faults.kinds() == []
    until_well(run)


# Power, crashes and disks


def with_topic(run: ClusterRun) -> ClusterRun:
    """A topic with one partition on three brokers, of which two must be in sync."""
    with without_logs():
        run.admin.carry_out(run.admin.create_topic("placed", 1, 3, {"min.insync.replicas": "2"}))
        run.world.loop.run_until(lambda: len(isr_of(run)) == 3, limit_ms=30_000)
    return run


def isr_of(run: ClusterRun) -> set[int]:
    """As all brokers that are up know it; empty if they do not agree."""
    known = [
        tuple(topic.partitions[0].isr) if topic is not None else ()
        for node in run.world.nodes.values()
        if node.image is not None
        for topic in [node.image.topics.by_name.get("placed")]
    ]
    return set(known[0]) if known and len(set(known)) == 1 else set()


def test_a_power_cut_loses_what_was_not_synced_and_the_node_copies_it_back() -> None:
    run = with_topic(started())
    node, segment = run.world.nodes[1], "/data/placed-0/00000000000000000000.log"
    file = node.machine.files.open(segment, write=True)
    file.write([b"written and not synced"], 0)
    with without_logs():
        play(run, "cut power", random_bits=kind_of_tear(0))
    assert not node.is_up
    assert node.machine.files.read_bytes(segment) == b""
    assert run.world.coverage.counts["bytes lost in a power cut"] >= 22
    assert run.budget.has_lost
    until_well(run)
    with without_logs():
        run.world.loop.run_until(lambda: not run.budget.has_lost, limit_ms=60_000)
        run.world.loop.run_until(lambda: isr_of(run) == {1, 2, 3}, limit_ms=1_000)


def kind_of_tear(kind: int) -> int:
    """Random bits of a step whose power cut is of this kind, and loses no names."""
    for bits in range(1_000):
        random = ClusterStep(0, "cut power", 0, bits).random()
        drawn_duration_ms(random)
        if random.below(4) == kind and random.below(3) > 0:
            return bits
    raise AssertionError


def test_nothing_else_happens_to_the_replicas_until_a_power_cut_is_made_good() -> None:
    """Which of the others the controller hears in time, and leaves in sync, is not known."""
    run = with_topic(started())
    one, other, third = (run.world.nodes[number] for number in (1, 2, 3))
    assert run.budget.may_lose(one)
    with without_logs():
        play(run, "cut power", 0)
        for each in (other, third):
            assert not run.budget.may_lose(each)
            assert not run.budget.may_end(each)
        assert run.budget.may_end(one), "it has lost what it could"
        heal(run, "cut power")
        until_well(run)
        run.world.loop.run_until(lambda: run.budget.may_lose(other), limit_ms=60_000)


def test_a_life_ends_between_two_changes_of_files() -> None:
    run = with_topic(started())
    for bits in range(4):
        with without_logs():
            play(run, "crash", bits, bits)
            run.world.loop.run_for(3_000)
        heal(run, "crash")
        heal(run, "kill")
        until_well(run)
    assert run.world.coverage.counts["crash between two changes of files"] >= 2


def test_a_node_crashes_while_it_starts() -> None:
    run = with_topic(started())
    for bits in range(5):
        with without_logs():
            play(run, "crash at start", bits, bits)
            run.world.loop.run_for(12_000)
        heal(run, "crash at start")
        heal(run, "kill")
        until_well(run)
    counts = run.world.coverage.counts
    assert counts["crash of a node that starts"]
    assert counts["crash between two changes of files"]


def test_a_broker_that_lost_its_disk_comes_back_with_another_directory() -> None:
    run = with_topic(started(brokers_alone=1))
    assert run.world.nodes[4].image is not None
    before = run.world.nodes[4].image.brokers.by_id[4].log_dirs
    assert run.budget.may_lose(run.world.nodes[4])
    with without_logs():
        play(run, "lose disk")
        assert not run.world.nodes[4].is_up
        heal(run, "lose disk")
    until_well(run)
    assert run.world.nodes[4].image is not None
    assert run.world.nodes[4].image.brokers.by_id[4].log_dirs != before


def test_a_node_that_ends_by_itself_without_a_reason_is_a_violation() -> None:
    run = started()
    machine = run.world.nodes[1].machine
    assert machine.node is not None
    with pytest.raises(Violation, match="a node does not end by itself: node-1 has halted: it was bored"):
        machine.contains(Halted("it was bored"))


@pytest.mark.parametrize("verb", ["reads fail", "writes fail", "syncs fail", "one call fails", "disk full"])
def test_a_disk_that_fails_ends_the_node_or_a_directory_until_it_is_repaired(verb: str) -> None:
    run = with_topic(started())
    with without_logs():
        for bits in range(3):
            play(run, verb, bits, bits)
            run.world.loop.run_for(3_000)
            heal(run, verb)
            heal(run, "kill")
            until_well(run)
    assert not any(node.machine.trouble.faults for node in run.world.nodes.values())


def test_a_failing_second_directory_leaves_the_broker_alive() -> None:
    run = started(properties={"log.dirs": "/data,/data-2"})
    node = run.world.nodes[1]
    with without_logs():
        run.admin.carry_out(run.admin.create_topic("placed", 4, 3, {}))
        run.world.loop.run_until(lambda: len(isr_of(run)) == 3, limit_ms=30_000)
        node.machine.trouble.faults.append(DiskFault("/data-2", SYNCS | WRITES))
        run.admin.carry_out(run.admin.create_topic("refused", 4, 3, {}))
        run.world.loop.run_until(lambda: node.machine.trouble.errors, limit_ms=30_000)
        run.world.loop.run_for(5_000)
    assert (node.is_ready, node.lives) == (True, 1)


def test_a_log_that_a_compaction_breaks_is_led_by_others_until_its_broker_starts_again() -> None:
    compacted = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "4000",
        "min.cleanable.dirty.ratio": "0",
    }
    cluster = ClusterByHand(
        topic_configs=compacted,
        clients=(replace(PRODUCER, options={**PRODUCER.options, "keys": "5"}),),
        properties={"log.cleaner.backoff.ms": "1000"},
    )
    cluster.wait_ms(1_000)
    node = cluster.leader
    place = cluster.registration.replicas.index(node.node_id)
    before = cluster.registration.directories[place]
    half_way = f"/data/{TOPIC}-0/{0:020}.index.cleaned"
    node.machine.trouble.faults.append(DiskFault(half_way, frozenset({"rename"}), errno.ENOSPC, left=1))
    cluster.wait_until(lambda: cluster.registration.leader not in (-1, node.node_id))
    assert cluster.registration.directories[place] == LOST_DIRECTORY
    assert node.node_id not in cluster.registration.isr
    assert (node.is_ready, node.lives) == (True, 1)
    cluster.stop(node)
    cluster.start(node)
    cluster.wait_until(lambda: node.node_id in cluster.registration.isr)
    assert cluster.registration.directories[place] == before
    cluster.end()


def test_a_slow_disk_makes_the_node_wait() -> None:
    run = with_topic(started())
    with without_logs():
        play(run, "slow disk", random_bits=5)
        run.world.loop.run_for(5_000)
        heal(run, "slow disk")
    assert run.world.nodes[1].machine.trouble.slowness_ns is None
    until_well(run)


def test_clocks_that_are_wrong_are_set_right() -> None:
    run = started()
    machines = [node.machine for node in run.world.nodes.values()]
    before = [machine.clock.wall_ms() - run.world.now_ms for machine in machines]
    with without_logs():
        for whom in range(3):
            play(run, "clock jumps", whom, whom)
        assert [m.clock.wall_ms() - run.world.now_ms for m in machines] != pytest.approx(before, abs=900)
        heal(run, "clock jumps")
        assert [m.clock.wall_ms() - run.world.now_ms for m in machines] == pytest.approx(before, abs=2)
        for whom in range(3):
            play(run, "clock drifts", whom, whom)
        run.world.loop.run_for(20_000)
        heal(run, "clock drifts")
    assert [m.clock.wall_ms() - run.world.now_ms for m in machines] != pytest.approx(before, abs=10)
    until_well(run)
