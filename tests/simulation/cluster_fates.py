"""Fates of a small cluster that a mutant must meet, told step by step: a seed would rarely draw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from broker.replication.partition_state import PendingExpandIsr, PendingShrinkIsr
from broker.replication.roles import Leader
from broker.simulation.cluster.cluster_plan import ClientPlan
from broker.simulation.cluster.simulated_node import DATA, SimulatedNode
from storage.memory_files import Torn, lose_all
from tests.simulation.cluster_by_hand import CONTROLLER, PRODUCER, TOPIC, ClusterByHand
from tests.simulation.group_fates import GROUP_FATES
from tests.simulation.transaction_fates import TRANSACTION_FATES

__all__ = [
    "FATES",
    "SECOND_DIRECTORY",
    "last_in_sync_fails",
    "leader_fails",
    "old_fetch_arrives",
    "old_request_arrives",
]

EAGER: Final = ClientPlan(
    "producer", "producer-2", (TOPIC,), options={"acks": "1", "idempotent": "false", "pause_ms": "40"}
)
READER: Final = ClientPlan("reader", "reader-1", (TOPIC,), options={"isolation": "read_uncommitted"})
BOTH: Final = (PRODUCER, EAGER, READER)
LONG_SESSION: Final = MappingProxyType({"broker.session.timeout.ms": "9000"})
TAIL_BYTES: Final = 30
SECOND_DIRECTORY: Final = "/data-2"
LATE: Final = MappingProxyType({"replica.fetch.wait.max.ms": "400", "replica.fetch.min.bytes": "100000"})
"""Followers hear late of what is committed."""


def has_asked(cluster: ClusterByHand, leader: SimulatedNode, kind: type = PendingExpandIsr) -> bool:
    """Whether a leader waits for the answer to its wish for another ISR."""
    state = cluster.hosted(leader).state
    return isinstance(state, Leader) and isinstance(state.partition_state, kind)


def has_heard(cluster: ClusterByHand, leader: SimulatedNode, follower: SimulatedNode) -> bool:
    """Whether a follower has fetched from a leader."""
    state = cluster.hosted(leader).state
    return isinstance(state, Leader) and state.replicas[follower.node_id].log_end_offset >= 0


def leader_fails(seed: int = 1) -> None:
    """It is killed while its followers have not heard how far all is committed."""
    cluster = ClusterByHand(seed, properties=LATE)
    cluster.wait_ms(2_000)
    node = cluster.leader
    end = cluster.hosted(node).log.log_end_offset
    cluster.wait_until(lambda: cluster.hosted(node).log.high_watermark > end)
    cluster.world.restarts.after(node, 1_000)
    node.machine.kill()
    cluster.wait_until(lambda: cluster.registration.leader not in (-1, node.node_id))
    cluster.wait_ms(2_000)
    cluster.end()


def leader_fails_alone(seed: int) -> None:
    """It has records that no follower has, and clients that wait for an answer; it comes back when another
    one leads."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_500)
    leader = cluster.leader
    for each in cluster.followers:
        cluster.cut_both_ways(str(leader), str(each))
    cluster.wait_ms(1_200)
    leader.machine.kill()
    cluster.wait_until(lambda: cluster.registration.leader not in (-1, leader.node_id))
    cluster.join_all()
    cluster.wait_ms(1_500)
    with cluster.quiet():
        leader.start()
    cluster.wait_ms(2_000)
    cluster.end()


def leader_is_deposed(seed: int) -> None:
    """It lives, and hears of nobody but its clients for longer than its session."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_500)
    leader = cluster.leader
    for each in (*map(str, cluster.followers), CONTROLLER):
        cluster.cut_both_ways(str(leader), each)
    cluster.wait_until(lambda: cluster.registration.leader not in (-1, leader.node_id))
    cluster.wait_ms(1_500)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def follower_is_behind(seed: int) -> None:
    """And out of the ISR, and the first in the order of the replicas; then the leader is killed."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_500)
    leader, behind = cluster.leader, cluster.followers[0]
    cluster.cut_both_ways(str(leader), str(behind))
    cluster.wait_until(lambda: behind.node_id not in cluster.registration.isr)
    cluster.wait_ms(1_000)
    cluster.world.restarts.after(leader, 6_000)
    leader.machine.kill()
    cluster.wait_ms(5_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def all_followers_are_behind(seed: int) -> None:
    """They leave the ISR one after the other, and the leader goes on alone; then it is killed."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_500)
    leader, (one, other) = cluster.leader, cluster.followers
    cluster.cut_both_ways(str(leader), str(one))
    cluster.wait_until(lambda: one.node_id not in cluster.registration.isr)
    cluster.wait_ms(1_000)
    cluster.cut_both_ways(str(leader), str(other))
    cluster.wait_until(lambda: cluster.registration.isr == (leader.node_id,))
    cluster.wait_ms(1_000)
    leader.machine.kill()
    cluster.wait_ms(4_000)
    cluster.join_all()
    cluster.world.restarts.after(leader, 1)
    with cluster.quiet():
        leader.start()
    cluster.wait_ms(3_000)
    cluster.end()


def follower_returns_to_another_leader(seed: int) -> None:
    """A follower leaves the ISR. What waited for it is committed, and before the other follower hears of
    that, it leads; the one that was behind asks it for more, and gets none."""
    cluster = ClusterByHand(seed, properties=LATE)
    cluster.wait_ms(2_000)
    leader, behind = cluster.leader, cluster.followers[1]
    cluster.cut_both_ways(str(leader), str(behind))
    log = cluster.hosted(leader).log
    cluster.wait_ms(1_500)
    committed = log.high_watermark
    cluster.wait_until(lambda: log.high_watermark > committed)
    leader.machine.kill()
    cluster.wait_until(lambda: cluster.registration.leader not in (-1, leader.node_id))
    successor = cluster.leader
    cluster.wait_until(lambda: has_heard(cluster, successor, behind))
    cluster.cut(str(successor), str(behind))
    cluster.wait_ms(1_500)
    cluster.join_all()
    with cluster.quiet():
        leader.start()
    cluster.wait_ms(2_000)
    cluster.end()


def former_leader_returns(seed: int) -> None:
    """With records that nobody else has. The new leader has others at their offsets; it hears from where the
    former one fetches, and its answer is late."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_500)
    leader = cluster.leader
    for each in cluster.followers:
        cluster.cut_both_ways(str(leader), str(each))
    cluster.wait_ms(500)
    cluster.cut_both_ways(str(leader), CONTROLLER)
    cluster.wait_until(lambda: cluster.registration.leader not in (-1, leader.node_id))
    cluster.wait_ms(1_500)
    successor = cluster.leader
    assert successor.broker is not None
    sessions = successor.broker.services.fetches.sessions
    for client in cluster.run.clients:
        cluster.cut_both_ways(client.name, str(successor))
    before = len(sessions)
    cluster.join_both_ways(str(leader), CONTROLLER)
    cluster.join_both_ways(str(leader), str(successor))
    cluster.wait_until(lambda: len(sessions) > before)
    cluster.cut(str(successor), str(leader))
    cluster.wait_ms(1_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def newcomer_is_late(seed: int) -> None:
    """A leader asks for an ISR with a follower that has caught up, and does not hear whether it is granted;
    the follower falls behind again."""
    cluster = ClusterByHand(seed, properties=LONG_SESSION)
    cluster.wait_ms(1_000)
    leader, follower = cluster.leader, cluster.followers[0]
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.wait_until(lambda: follower.node_id not in cluster.registration.isr)
    cluster.wait_ms(1_000)
    cluster.cut(CONTROLLER, str(leader))
    cluster.join_both_ways(str(leader), str(follower))
    cluster.wait_until(lambda: has_asked(cluster, leader))
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.wait_ms(3_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def image_is_late(seed: int) -> None:
    """A leader hears from the controller that one follower has joined the ISR, and by the metadata log only
    when it has asked for the other one too. It does not hear that this is granted, and the other one falls
    behind. (Not under each seed does the answer come before the log.)"""
    cluster = ClusterByHand(seed, properties=LONG_SESSION)
    cluster.wait_ms(1_000)
    leader, followers = cluster.leader, cluster.followers
    for each in followers:
        cluster.cut_both_ways(str(leader), str(each))
    cluster.wait_until(lambda: cluster.registration.isr == (leader.node_id,))
    cluster.wait_ms(1_000)
    for each in followers:
        cluster.join_both_ways(str(leader), str(each))
    hosted = cluster.hosted(leader)
    known = hosted.partition_epoch
    cluster.wait_until(lambda: hosted.partition_epoch > known)
    assert cluster.epoch_in_image(leader) == known
    cluster.cut_both_ways(CONTROLLER, str(leader))
    cluster.wait_until(lambda: has_asked(cluster, leader))
    cluster.join(CONTROLLER, str(leader))
    cluster.wait_until(lambda: cluster.epoch_in_image(leader) > known)
    cluster.cut(CONTROLLER, str(leader))
    cluster.join(str(leader), CONTROLLER)
    cluster.wait_until(lambda: len(cluster.registration.isr) == len(cluster.registration.replicas))
    late = next(each for each in followers if each.node_id not in hosted.isr)
    cluster.cut_both_ways(str(leader), str(late))
    cluster.wait_ms(2_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def leaver_leads(seed: int) -> None:
    """A leader asks for an ISR without a follower, and before that is granted the leader fails."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_000)
    leader, follower = cluster.leader, cluster.followers[0]
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.wait_ms(1_000)
    cluster.cut_both_ways(str(leader), CONTROLLER)
    cluster.wait_until(lambda: has_asked(cluster, leader, PendingShrinkIsr))
    cluster.wait_ms(500)
    leader.machine.kill()
    cluster.wait_ms(4_000)
    cluster.join_all()
    with cluster.quiet():
        leader.start()
    cluster.wait_ms(2_000)
    cluster.end()


def newcomer_is_fenced(seed: int) -> None:
    """A follower fetches and has caught up; the controller does not hear of it, and fences it."""
    cluster = ClusterByHand(seed)
    cluster.wait_ms(1_000)
    leader, follower = cluster.leader, cluster.followers[0]
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.wait_until(lambda: follower.node_id not in cluster.registration.isr)
    cluster.cut(str(follower), CONTROLLER)
    cluster.wait_ms(1_500)
    cluster.cut(str(leader), CONTROLLER)
    cluster.join_both_ways(str(leader), str(follower))
    cluster.wait_until(lambda: has_asked(cluster, leader))
    cluster.wait_until(lambda: cluster.is_fenced(follower))
    cluster.join(str(leader), CONTROLLER)
    cluster.wait_ms(2_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def old_wish_arrives(seed: int) -> None:
    """A leader asks for an ISR with all. Before that arrives one of them is fenced and comes back."""
    cluster = ClusterByHand(seed, properties={"broker.session.timeout.ms": "6000"})
    cluster.wait_ms(1_000)
    leader, (behind, other) = cluster.leader, cluster.followers
    cluster.cut_both_ways(str(leader), str(behind))
    cluster.wait_until(lambda: behind.node_id not in cluster.registration.isr)
    cluster.cut(str(other), CONTROLLER)
    cluster.wait_ms(4_500)
    cluster.cut(str(leader), CONTROLLER)
    cluster.join_both_ways(str(leader), str(behind))
    cluster.wait_until(lambda: has_asked(cluster, leader))
    cluster.wait_until(lambda: other.node_id not in cluster.registration.isr)
    cluster.cut_both_ways(str(leader), str(other))
    cluster.join(str(other), CONTROLLER)
    cluster.wait_until(lambda: cluster.is_unfenced(other))
    cluster.join(str(leader), CONTROLLER)
    cluster.wait_ms(3_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def wish_of_a_former_leader_arrives(seed: int) -> None:
    """It asks for an ISR with itself and the one that leads by then."""
    cluster = ClusterByHand(seed, clients=BOTH)
    cluster.wait_ms(1_000)
    leader, (successor, leaver) = cluster.leader, cluster.followers
    cluster.cut_both_ways(str(leader), str(leaver))
    cluster.wait_ms(1_000)
    cluster.cut(str(leader), CONTROLLER)
    cluster.wait_until(lambda: has_asked(cluster, leader, PendingShrinkIsr))
    cluster.wait_until(lambda: cluster.registration.leader == successor.node_id)
    cluster.cut_both_ways(str(leader), str(successor))
    cluster.wait_ms(500)
    cluster.join(str(leader), CONTROLLER)
    cluster.wait_ms(2_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def partition_moves(seed: int) -> None:
    """To another broker, which the leader does not hear at first."""
    cluster = ClusterByHand(seed, brokers=4)
    cluster.wait_ms(1_000)
    leader, (leaving, staying) = cluster.leader, cluster.followers
    coming = next(each for each in cluster.world.brokers if each.node_id not in cluster.registration.replicas)
    cluster.cut_both_ways(str(leader), str(coming))
    wanted = [leader.node_id, coming.node_id, staying.node_id]
    cluster.run.admin.carry_out(cluster.run.admin.reassign(TOPIC, 0, wanted))
    cluster.wait_ms(2_000)
    assert leaving.node_id in cluster.registration.replicas
    cluster.join_all()
    cluster.wait_until(lambda: not cluster.registration.adding)
    assert set(cluster.registration.replicas) == set(wanted)
    cluster.end()


def leader_misses_an_epoch(seed: int) -> None:
    """It does not hear that another one led, whose log is shorter than a follower's, and that it leads again.
    By then that follower has cut its log, and asks it for nothing."""
    properties = {**LONG_SESSION, "replica.lag.time.max.ms": "30000", "auto.leader.rebalance.enable": "false"}
    cluster = ClusterByHand(seed, clients=BOTH, properties=properties)
    cluster.wait_ms(1_500)
    leader, (short, long) = cluster.leader, cluster.followers
    cluster.cut_both_ways(str(leader), str(short))
    cluster.wait_until(lambda: _log_end(cluster, long) > _log_end(cluster, short) + 5)
    cluster.cut(CONTROLLER, str(leader))
    for client in cluster.run.clients:
        cluster.cut_both_ways(client.name, str(short))
    _have_elected(cluster, short, leader, long)
    cluster.wait_until(lambda: _log_end(cluster, long) == _log_end(cluster, short))
    _have_elected(cluster, leader, short, long)
    cluster.cut_both_ways(str(leader), str(long))
    cluster.join(CONTROLLER, str(leader))
    cluster.join_both_ways(str(leader), str(short))
    cluster.wait_until(lambda: has_heard(cluster, leader, short))
    cluster.wait_ms(1_500)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def _log_end(cluster: ClusterByHand, node: SimulatedNode) -> int:
    return cluster.hosted(node).log.log_end_offset


def _have_elected(cluster: ClusterByHand, *replicas: SimulatedNode) -> None:
    """The first of these, by an operator who changes their order."""
    admin, wanted = cluster.run.admin, tuple(each.node_id for each in replicas)
    admin.carry_out(admin.reassign(TOPIC, 0, wanted))
    cluster.wait_until(lambda: cluster.registration.replicas == wanted)
    admin.carry_out(admin.elect({TOPIC: [0]}))
    cluster.wait_until(lambda: cluster.registration.leader == wanted[0])


def old_fetch_arrives(seed: int = 1) -> None:
    """A fetch of a follower's former life, when it has another disk."""
    cluster = ClusterByHand(seed, properties=LONG_SESSION)
    cluster.wait_ms(2_000)
    cluster.producer.finish()
    cluster.wait_ms(2_000)
    leader, follower = cluster.leader, cluster.followers[0]
    cluster.cut(str(follower), str(leader))
    cluster.wait_ms(600)
    cluster.stop(follower)
    cluster.start_empty(follower)
    cluster.join(str(follower), str(leader))
    cluster.wait_ms(2_000)
    cluster.end()


def old_request_arrives(seed: int = 1) -> None:
    """A leader's wish for an ISR with a follower, when that has lost its log and lives again."""
    cluster = ClusterByHand(seed, properties=LONG_SESSION)
    cluster.wait_ms(1_000)
    leader, follower = cluster.leader, cluster.followers[0]
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.wait_until(lambda: follower.node_id not in cluster.registration.isr)
    cluster.wait_ms(1_000)
    cluster.cut(str(leader), CONTROLLER)
    cluster.join_both_ways(str(leader), str(follower))
    cluster.wait_until(lambda: has_asked(cluster, leader))
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.stop(follower)
    cluster.lose_log(follower)
    cluster.start(follower)
    cluster.join(str(leader), CONTROLLER)
    cluster.wait_ms(2_000)
    cluster.join_both_ways(str(leader), str(follower))
    cluster.end()


def last_in_sync_fails(seed: int = 1, *, eligible_leader_replicas: int = 1) -> None:
    """It loses its power, and what it had not synced; all others had left the ISR."""
    features = {"eligible.leader.replicas.version": eligible_leader_replicas}
    cluster = ClusterByHand(seed, features=features)
    cluster.wait_ms(1_000)
    leader, followers = cluster.leader, cluster.followers
    for each in followers:
        cluster.cut_both_ways(str(leader), str(each))
    cluster.wait_until(lambda: cluster.registration.isr == (leader.node_id,))
    cluster.world.restarts.after(leader, 500)
    leader.machine.cut_power(lose_all)
    cluster.join_all()
    cluster.wait_ms(8_000)
    cluster.end()


def eligible_one_loses_its_power(seed: int) -> None:
    """Two are eligible and not in sync; one stops in order, the other loses what it had not synced. Then the
    last one in sync fails."""
    cluster = ClusterByHand(seed)
    cluster.wait_ms(1_000)
    leader, (one, other) = cluster.leader, cluster.followers
    for each in (one, other):
        cluster.cut_both_ways(str(leader), str(each))
    cluster.wait_until(lambda: cluster.registration.isr == (leader.node_id,))
    cluster.stop(other)
    cluster.world.restarts.after(one, 100)
    one.machine.cut_power(lose_all)
    cluster.wait_until(lambda: one.is_ready and cluster.is_unfenced(one))
    leader.machine.kill()
    cluster.wait_ms(5_000)
    cluster.join_all()
    for each in (other, leader):
        with cluster.quiet():
            each.start()
    cluster.wait_ms(3_000)
    cluster.end()


def controller_and_follower_restart(seed: int) -> None:
    """A new controller has no session of the follower's former life, and registers the new one at once."""
    cluster = ClusterByHand(seed, properties=LONG_SESSION)
    cluster.wait_ms(1_500)
    follower, controller = cluster.followers[0], cluster.world.nodes[101]
    for each in (controller, follower):
        cluster.world.restarts.after(each, 200)
        each.machine.kill()
    cluster.wait_ms(4_000)
    cluster.end()


def follower_catches_up_in_steps(seed: int) -> None:
    """What is committed by then is more than it is sent at once."""
    cluster = ClusterByHand(seed, clients=BOTH, properties={"replica.fetch.max.bytes": "2000"})
    cluster.wait_ms(1_000)
    leader, follower = cluster.leader, cluster.followers[0]
    cluster.cut_both_ways(str(leader), str(follower))
    cluster.wait_ms(5_000)
    cluster.join_all()
    cluster.wait_ms(2_000)
    cluster.end()


def power_fails_within_a_write(seed: int) -> None:
    """Of a follower, whose log then ends with some zeros: the length of the file had reached the disk. Later
    it leads."""
    properties = {"auto.leader.rebalance.enable": "false"}
    cluster = ClusterByHand(seed, clients=BOTH, properties=properties)
    cluster.wait_ms(1_500)

    def torn(path: str, unsynced_bytes: int) -> Torn:
        zero_bytes = min(TAIL_BYTES, unsynced_bytes) if path.endswith(".log") else 0
        return Torn(unsynced_bytes - zero_bytes, zero_bytes)

    follower = cluster.followers[0]
    cluster.world.restarts.after(follower, 500)
    follower.machine.cut_power(torn)
    cluster.wait_ms(6_000)
    while cluster.leader is not follower:
        leader = cluster.leader
        cluster.world.restarts.after(leader, 5_000)
        leader.machine.kill()
        cluster.wait_ms(9_000)
    cluster.end()


def brokers_have_two_directories(seed: int) -> None:
    """And look from time to time whether both are there."""
    cluster = ClusterByHand(seed, properties={"log.dirs": f"{DATA},{SECOND_DIRECTORY}"})
    cluster.wait_ms(8_000)
    cluster.end()


def controller_is_deposed(seed: int) -> None:
    """It writes what no other controller has, while the others elect another one of them; then it comes
    back."""
    cluster = ClusterByHand(seed, controllers=3)
    cluster.wait_ms(1_500)
    former, others = cluster.controllers[0], cluster.controllers[1:]
    for each in others:
        cluster.cut_both_ways(str(former), str(each))
    follower = cluster.followers[0]
    cluster.stop(follower)
    cluster.wait_until(lambda: any(map(cluster.leads_quorum, others)))
    with cluster.quiet():
        follower.start()
    cluster.wait_ms(2_000)
    cluster.join_all()
    cluster.wait_ms(3_000)
    cluster.end()


FATES: Final[Mapping[str, Callable[[int], None]]] = MappingProxyType(
    {
        "leader fails": leader_fails,
        "leader fails alone": leader_fails_alone,
        "leader is deposed": leader_is_deposed,
        "follower is behind": follower_is_behind,
        "all followers are behind": all_followers_are_behind,
        "follower returns to another leader": follower_returns_to_another_leader,
        "former leader returns": former_leader_returns,
        "newcomer is late": newcomer_is_late,
        "image is late": image_is_late,
        "leaver leads": leaver_leads,
        "newcomer is fenced": newcomer_is_fenced,
        "old wish arrives": old_wish_arrives,
        "wish of a former leader arrives": wish_of_a_former_leader_arrives,
        "partition moves": partition_moves,
        "leader misses an epoch": leader_misses_an_epoch,
        "old fetch arrives": old_fetch_arrives,
        "old request arrives": old_request_arrives,
        "eligible one loses its power": eligible_one_loses_its_power,
        "controller and follower restart": controller_and_follower_restart,
        "controller is deposed": controller_is_deposed,
        "brokers have two directories": brokers_have_two_directories,
        "follower catches up in steps": follower_catches_up_in_steps,
        "power fails within a write": power_fails_within_a_write,
        "last in sync fails": last_in_sync_fails,
        **TRANSACTION_FATES,
        **GROUP_FATES,
    }
)
"""By name; each is given a seed, by which only the times within the network differ."""
